"""Run one command line in this process, convert failures to an exit code, and report crashes."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jobrun.cli.app import group
from jobrun.cli.terminal import COMPLETION_VARIABLE, Shell
from jobrun.core.errors import EnvironmentFaultError, Fault, JobrunError, UsageError
from jobrun.version import __version__

if TYPE_CHECKING:
    from jobrun.cli.supervisor import SharedState

# Whose versions a crash report names.
_LIBRARIES = ("click", "h5py", "numpy", "pydantic", "pyyaml", "rich")
_MEMORY = "raise the limits of memory and processes (ulimit -v, ulimit -u), or use less"
# What the operating system says when the machine, not jobrun, is at its end.
_LIMITS = {
    errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE,
    errno.ENOMEM, errno.ENOSPC, errno.EPERM, errno.EROFS, errno.ESTALE, errno.EAGAIN,
    errno.ENXIO, errno.ENODEV, errno.EREMOTEIO, errno.ENOTCONN,
}  # fmt: skip


def invoke(arguments: Sequence[str], shared: SharedState | None = None) -> int:
    """Run one command line in this process, turn failures into messages, return the exit code.

    Args:
        arguments: Without the program's name.
        shared: Shared memory of a supervised process; None without a supervisor.
    """
    shell = Shell(shared=shared)
    asked = shell.environment.get(COMPLETION_VARIABLE)
    try:
        if not asked:
            return _run(list(arguments), shell)
        from jobrun.cli.completion_script import answer_request  # noqa: PLC0415 - at a tab only

        return answer_request(asked)
    except JobrunError as error:
        return _failed(error, error.faults, error.exit_code, shell)
    except click.UsageError as error:
        from jobrun.cli.error_output import fault_from_click  # noqa: PLC0415 - after a fault only

        return _failed(error, (fault_from_click(error),), UsageError.exit_code, shell)
    except (KeyboardInterrupt, click.Abort):
        shell.say("interrupted")
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:  # noqa: BLE001 - the last place that can report it
        fault = environment_fault(error)
        if fault is None:
            return _crashed(error, arguments, shell)
        return _failed(error, (fault,), EnvironmentFaultError.exit_code, shell)


def environment_fault(error: Exception) -> Fault | None:
    """Build the fault if a command failed for lack of memory, disk or libraries; None for a bug."""
    match error:
        case RuntimeError() if "can't start new thread" in str(error):
            return Fault("E411", "cannot start another thread", _MEMORY)
        case MemoryError():
            return Fault("E411", "out of memory", "raise the limit (ulimit -v), or use less")
        case ImportError() if not (error.name or "").startswith("jobrun"):
            return Fault(
                "E412",
                f"a library cannot be loaded: {error}",
                "reinstall jobrun; if there is a memory limit (ulimit -v), raise it",
            )
        case FileNotFoundError() if not _has_working_directory():
            return Fault(
                "E415", "the working directory no longer exists", "change to an existing directory"
            )
        case OSError() if error.errno in _LIMITS:
            from jobrun.core.files.disk import mend_of  # noqa: PLC0415 - seldom

            place = f": {error.filename}" if error.filename else ""
            mend = mend_of(error, "check the limits (ulimit -a) and the permissions")
            return Fault("E413", f"system call failed: {error.strerror}{place}", mend)
        case _:
            return None


def _has_working_directory() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - Path.cwd() asks the same
    except FileNotFoundError:
        return False
    return True


def _run(arguments: list[str], shell: Shell) -> int:
    # Not click's own main(): it answers a closed pipe and Ctrl-C in its own way.
    try:
        with group.make_context("jobrun", arguments, obj=shell) as context:
            result: Any = group.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else 0


def _failed(error: BaseException, faults: Sequence[Fault], exit_code: int, shell: Shell) -> int:
    from jobrun.cli.error_output import print_faults  # noqa: PLC0415 - after a fault only

    if shell.debug:
        import traceback  # noqa: PLC0415

        shell.say("".join(traceback.format_exception(error)).rstrip())
    print_faults(faults, shell)
    for note in getattr(error, "__notes__", ()):
        shell.say(f"  {note}")
    return exit_code


def _crashed(error: Exception, arguments: Sequence[str], shell: Shell) -> int:
    import traceback  # noqa: PLC0415 - after a crash only

    from jobrun.cli.error_output import print_faults  # noqa: PLC0415

    trace = "".join(traceback.format_exception(error))
    report = write_report(trace, arguments)
    if shell.debug or report is None:
        shell.say(trace.rstrip())
    fault = Fault(
        "E414",
        f"internal error: {type(error).__name__}: {error}",
        f"this is a bug in jobrun; the report is in {report}" if report else "",
    )
    print_faults((fault,), shell)
    return JobrunError.exit_code


def write_report(trace: str, arguments: Sequence[str]) -> str | None:
    """Write a crash report with the command that was run and its traceback; return the path.

    Returns:
        Its path, or None when it cannot be written.
    """
    import platform  # noqa: PLC0415 - after a crash only
    import shlex  # noqa: PLC0415
    import sys  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    text = "\n".join(
        [
            f"jobrun {__version__}, Python {platform.python_version()}, {platform.platform()}",
            ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES),
            f"command: jobrun {shlex.join(arguments)}",
            f"executable: {sys.executable}",
            "",
            trace,
        ]
    )
    try:
        number, path = tempfile.mkstemp(prefix="jobrun-crash-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError:
        return None
    return path


def _version(library: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - after a crash

    try:
        return version(library)
    except PackageNotFoundError:
        return "missing"
