"""Each signal that ends a process by default, and is no crash, asks a run to save and stop."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import jobrun
from jobrun.core import stop_signals
from jobrun.core.stop_signals import (
    MEANT,
    RELAYS,
    SENDERS,
    STOPPING,
    export_stop_option,
    handleable_signals,
    parse_stop_signal,
    requested_signals,
    signal_name,
)

# signal(7): what each other signal does by default, or Python instead of it.
OTHERS = {
    "cannot be handled": {"SIGKILL", "SIGSTOP"},
    "a crash": {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"},
    "ends at once, with stacks": {"SIGQUIT"},
    "an error of a write": {"SIGPIPE", "SIGXFSZ"},
    "pauses": {"SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT"},
    "ignored": {"SIGCHLD", "SIGURG", "SIGWINCH"},
}


def test_each_signal_of_the_system_is_in_one_table():
    named = {member.name for member in signal.Signals if not member.name.startswith("SIGRT")}
    others = set().union(*OTHERS.values())

    assert not others & SENDERS.keys()
    assert named == others | SENDERS.keys()
    assert set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1)) <= set(STOPPING) | MEANT.keys()


def test_the_manual_has_the_same_table():
    page = Path(jobrun.__file__).with_name("manual") / "killed.md"
    rows = re.findall(r"^\| `(SIG\w+)` \| (.*) \|$", page.read_text(), re.MULTILINE)

    assert dict(rows) == SENDERS


def test_each_has_a_number_of_its_own_among_the_real_time_ones():
    assert len(set(RELAYS.values())) == len(RELAYS) == len(SENDERS)
    assert all(signal.SIGRTMIN < number < signal.SIGRTMAX for number in RELAYS.values())
    assert {MEANT[number] for number in RELAYS.values()} == RELAYS.keys()


def test_what_another_program_handles_is_left_to_it():
    before = signal.signal(signal.SIGPROF, lambda *_: None)
    try:
        assert signal.SIGPROF not in handleable_signals()
    finally:
        signal.signal(signal.SIGPROF, before)
    assert signal.SIGPROF in handleable_signals()


@pytest.mark.parametrize(
    ("text", "name"),
    [("QUIT", "SIGQUIT"), ("sigtstp", "SIGTSTP"), ("3", "SIGQUIT"), ("RTMIN+3", "SIGRTMIN+3")],
)
def test_a_site_names_a_signal_as_the_shell_does(text, name):
    assert signal_name(parse_stop_signal(text)) == name


@pytest.mark.parametrize("text", ["KILL", "9", "SEGV", "CONT", "NONE", "_BLOCK", "QUIT+1"])
def test_what_cannot_be_a_stop_signal_is_refused(text):
    with pytest.raises(ValueError, match=re.escape(text)):
        parse_stop_signal(text)


def test_the_option_reaches_the_processes_that_are_started(monkeypatch):
    monkeypatch.setenv(stop_signals.VARIABLE, "TSTP")
    export_stop_option(["run", "x.yaml", "--stop-signal", "QUIT", "--stop-signal=URG"])

    assert {signal.SIGTSTP, signal.SIGQUIT, signal.SIGURG} <= set(requested_signals())
