"""From words to an exit code."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from jobrun.cli.run_command import invoke
from jobrun.cli.specs import explain
from jobrun.core.errors import (
    CheckpointError,
    DriftError,
    EnvironmentFaultError,
    ExpectationError,
    InterruptedRunError,
    LockedError,
    ProofError,
    SpecError,
    StoppedEarlyError,
    TaskFailedError,
    UsageError,
)


def _failing(monkeypatch, error: BaseException) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(explain, "read_catalogue", fail)


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (TaskFailedError, 1), (UsageError, 2), (SpecError, 3), (CheckpointError, 4),
        (DriftError, 5), (LockedError, 6), (EnvironmentFaultError, 7), (ProofError, 8),
        (ExpectationError, 9), (StoppedEarlyError, 75), (InterruptedRunError, 130),
    ],
)  # fmt: skip
def test_each_error_has_its_exit_code_and_no_traceback(monkeypatch, capsys, kind, exit_code):
    _failing(monkeypatch, kind.of("E414", "it went wrong", "mend it"))
    assert invoke(["explain", "codes"]) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error[E414] it went wrong\n      = mend it\n"


def test_ctrl_c_is_130(monkeypatch, capsys):
    _failing(monkeypatch, KeyboardInterrupt())
    assert invoke(["explain", "codes"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_closed_pipe_is_no_failure(monkeypatch, capsys):
    _failing(monkeypatch, BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert invoke(["explain", "codes"]) == 0
    assert capsys.readouterr().err == ""


def test_an_internal_error_is_70_with_a_report(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _failing(monkeypatch, ZeroDivisionError("division by zero"))
    assert invoke(["explain", "codes"]) == 70
    errors = capsys.readouterr().err
    assert errors.startswith("error[E414] internal error: ZeroDivisionError: division by zero")
    assert "Traceback" not in errors
    (report,) = Path(tmp_path).glob("jobrun-crash-*.txt")
    assert str(report) in errors
    assert "ZeroDivisionError" in report.read_text()


@pytest.mark.parametrize(
    "arguments", [["--debug", "explain", "codes"], ["explain", "codes", "--debug"]]
)
def test_debug_shows_the_traceback(monkeypatch, capsys, tmp_path, arguments):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _failing(monkeypatch, ZeroDivisionError("division by zero"))
    assert invoke(arguments) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), "E411"),
        (RuntimeError("can't start new thread"), "E411"),
        (ImportError("libopenblas: failed to map segment"), "E412"),
        (OSError(errno.EMFILE, "Too many open files", "/x"), "E413"),
        (OSError(errno.EFBIG, "File too large"), "E413"),
    ],
)
def test_limits_of_the_machine_are_reported_as_such(monkeypatch, capsys, error, code):
    _failing(monkeypatch, error)
    assert invoke(["explain", "codes"]) == 7
    assert capsys.readouterr().err.startswith(f"error[{code}] ")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENXIO, errno.ENODEV])
def test_an_io_error_speaks_of_the_device_and_not_of_limits(monkeypatch, capsys, number):
    _failing(monkeypatch, OSError(number, os.strerror(number), "/mnt/x"))
    assert invoke(["explain", "codes"]) == 7
    errors = capsys.readouterr().err
    assert "the device or file system reports an I/O error; check dmesg and the mount" in errors
    assert "ulimit" not in errors


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["explain", "a", "b"],
            ["error[E404] got unexpected extra argument (b)", "see 'jobrun explain --help'"],
        ),
        (["validate"], ["error[E402] missing argument 'SPEC...'", "see 'jobrun validate --help'"]),
        (
            ["--wrong"],
            ["error[E401] 'jobrun' has no option '--wrong'", "did you mean '--version'?"],
        ),
    ],
)
def test_what_click_refuses_is_a_usage_error_with_the_way_to_the_help(capsys, arguments, lines):
    assert invoke(arguments) == 2
    assert capsys.readouterr().err == "\n      = ".join(lines) + "\n"
