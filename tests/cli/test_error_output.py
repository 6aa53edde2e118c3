"""Faults as a person reads them."""

from __future__ import annotations

import errno
import io
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from jobrun.cli.error_output import environment_fault, print_faults, write_report
from jobrun.cli.terminal import Shell
from jobrun.core.errors import Fault, Origin
from jobrun.core.text.fault_text import render
from jobrun.version import __version__

FAULT = Fault(
    "E021", "unknown key", "did you mean 'when'?", Origin("{file}", 2, 5, 3), "stop[0].wen"
)


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "kmeans.yaml"
    path.write_text("stop:\n  - wen: shift < tol\n")
    return path


def test_a_fault_is_shown_with_its_line_and_carets(spec, capsys):
    fault = Fault(FAULT.code, FAULT.message, FAULT.mend, Origin(str(spec), 2, 5, 3), FAULT.path)
    print_faults([fault], Shell({}))
    shown = capsys.readouterr().err
    assert shown == (
        f"error[E021] {spec}:2:5  stop[0].wen: unknown key\n"
        "    2 |   - wen: shift < tol\n"
        "      |     ^^^ did you mean 'when'?\n"
    )
    assert shown == render(fault, {str(spec): spec.read_text()}) + "\n"


def test_colours_change_nothing_but_colours(spec, monkeypatch):
    fault = Fault(FAULT.code, FAULT.message, FAULT.mend, Origin(str(spec), 2, 5, 3), FAULT.path)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "500")
    print_faults([fault], Shell({}))
    painted = terminal.getvalue()
    assert "\x1b[1;31merror[E021]\x1b[0m" in painted
    for code in ("1;31", "2", "0"):
        painted = painted.replace(f"\x1b[{code}m", "")
    assert painted == render(fault, {str(spec): spec.read_text()}) + "\n"


def test_a_fault_without_a_readable_file_is_one_line_and_its_mend(capsys):
    print_faults([Fault("E354", "the disk says no", "free some space")], Shell({}))
    print_faults([Fault("E021", "unknown key", "", Origin("/gone.yaml", 3, 1))], Shell({}))
    assert capsys.readouterr().err == (
        "error[E354] the disk says no\n      = free some space\n"
        "error[E021] /gone.yaml:3:1  unknown key\n"
    )


def test_an_option_is_shown_as_it_was_given(capsys):
    fault = Fault("E050", "not a number", "write a number", Origin("--set #1"), "params.k")
    print_faults([fault], Shell({}, texts={"--set #1": "params.k=twelve"}))
    shown = capsys.readouterr().err
    assert "params.k=twelve" in shown
    assert "^^^^^^ write a number" in shown


def test_escape_codes_in_a_message_do_not_reach_the_terminal(capsys):
    print_faults([Fault("E021", "bad \x1b[2J name")], Shell({}))
    errors = capsys.readouterr().err
    assert "\x1b" not in errors
    assert errors.startswith("error[E021] bad ")
    assert "[2J name" in errors


def test_a_long_fault_is_wrapped_between_words(capsys, monkeypatch):
    monkeypatch.setattr(Shell, "message_width", 40)
    message = "the thing that was asked for is not there at all"
    mend = "look for it in another place, or make it first"
    print_faults([Fault("E354", message, mend)], Shell({}))

    first, second, *others = capsys.readouterr().err.splitlines()
    assert f"{first} {second.strip()}" == f"error[E354] {message}"
    assert [len(line) - len(line.lstrip()) for line in (second, *others)] == [6, 6, 8]
    assert max(map(len, (first, second, *others))) <= 40


def test_a_mend_too_long_to_follow_the_carets_is_below_them(spec, capsys, monkeypatch):
    monkeypatch.setattr(Shell, "message_width", 40)
    print_faults([Fault("E021", "unknown", "when " * 8, Origin(str(spec), 2, 5, 3))], Shell({}))

    lines = capsys.readouterr().err.splitlines()
    assert lines[-3] == "      |     ^^^"
    assert lines[-2].startswith("      = when when")


def test_an_unexpected_missing_file_is_a_defect():
    assert environment_fault(FileNotFoundError(errno.ENOENT, "No such file", "x")) is None
    assert environment_fault(KeyError("x")) is None


def test_the_report_holds_versions_command_and_trace_but_no_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("SECRET_TOKEN", "abc-secret-def")
    path = write_report("Traceback: here", ["run", "a b.yaml"])
    assert path is not None
    text = Path(path).read_text()
    assert text.startswith(f"jobrun {__version__}, Python ")
    assert "numpy " in text
    assert "command: jobrun run 'a b.yaml'" in text
    assert text.endswith("Traceback: here")
    assert "abc-secret-def" not in text
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


def test_without_a_place_there_is_no_report(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert write_report("trace", []) is None
