"""A relayed signal has a number of its own, which no library takes."""

from __future__ import annotations

import signal

from jobrun.core import system_calls
from jobrun.core.system_calls import MEANT, RELAYS, count_memory_kills


def test_each_has_a_number_of_its_own_among_the_real_time_ones():
    assert len(set(RELAYS.values())) == len(RELAYS) == 4
    assert all(signal.SIGRTMIN < number < signal.SIGRTMAX for number in RELAYS.values())


def test_what_is_meant_is_found_by_the_number():
    assert {MEANT[number] for number in RELAYS.values()} == {
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGINT,
    }


def test_kills_for_lack_of_memory_are_counted(monkeypatch):
    monkeypatch.setattr(system_calls, "read_proc", lambda *_: b"pgfault 7\noom_kill 3\n")

    assert count_memory_kills() == 3


def test_no_kills_are_counted_where_the_system_does_not_say(monkeypatch):
    monkeypatch.setattr(system_calls, "read_proc", lambda *_: b"")

    assert count_memory_kills() == 0
