"""One command line, from its words to an exit code. What a command does is not known here."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jobrun.cli.app import group
from jobrun.cli.completion import VARIABLE, answer
from jobrun.cli.faults import from_click, show
from jobrun.cli.shell import Shell
from jobrun.core.errors import EnvironmentFaultError, Fault, JobrunError, UsageError

if TYPE_CHECKING:
    from jobrun.cli.guard import Box

# What the operating system says when the machine, not jobrun, is at its end.
_LIMITS = {
    errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE,
    errno.ENOMEM, errno.ENOSPC, errno.EPERM, errno.EROFS, errno.ESTALE, errno.EAGAIN,
}  # fmt: skip


def invoke(arguments: Sequence[str], box: Box | None = None) -> int:
    """Run one command line and return the exit code; errors are shown on stderr.

    Args:
        arguments: Without the program's name.
        box: Where a watched process keeps what it is about; None where nobody watches.
    """
    shell = Shell(box=box)
    asked = shell.environment.get(VARIABLE)
    try:
        return answer(asked) if asked else _run(list(arguments), shell)
    except JobrunError as error:
        return _failed(error, error.faults, error.exit_code, shell)
    except click.UsageError as error:
        return _failed(error, (from_click(error),), UsageError.exit_code, shell)
    except (KeyboardInterrupt, click.Abort):
        shell.say("interrupted")
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:  # noqa: BLE001 - the last place that can still tell the user
        fault = environment_fault(error)
        if fault is None:
            return _crashed(error, arguments, shell)
        return _failed(error, (fault,), EnvironmentFaultError.exit_code, shell)


def environment_fault(error: Exception) -> Fault | None:
    """The fault of the machine that ``error`` tells of; None when it is a defect of jobrun."""
    match error:
        case MemoryError():
            return Fault(
                "E411", "there is not enough memory", "raise the limit (ulimit -v), or use less"
            )
        case ImportError() if not (error.name or "").startswith("jobrun"):
            return Fault(
                "E412",
                f"a library cannot be loaded: {error}",
                "install jobrun anew; with a memory limit (ulimit -v), raise it",
            )
        case FileNotFoundError() if not _has_working_directory():
            return Fault(
                "E415", "the working directory is not there any more", "change into one that is"
            )
        case OSError() if error.errno in _LIMITS:
            place = f": {error.filename}" if error.filename else ""
            return Fault(
                "E413",
                f"the system refuses: {error.strerror}{place}",
                "see the limits (ulimit -a), the permissions and the space (df)",
            )
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
    if shell.debug:
        shell.say("".join(traceback.format_exception(error)).rstrip())
    show(faults, shell)
    for note in getattr(error, "__notes__", ()):
        shell.say(f"  {note}")
    return exit_code


def _crashed(error: Exception, arguments: Sequence[str], shell: Shell) -> int:
    from jobrun.cli.crash import write_report  # noqa: PLC0415 - never needed, one hopes

    trace = "".join(traceback.format_exception(error))
    report = write_report(trace, arguments)
    if shell.debug or report is None:
        shell.say(trace.rstrip())
    fault = Fault(
        "E414",
        f"internal error: {type(error).__name__}: {error}",
        f"this is a defect of jobrun; the report is {report}" if report else "",
    )
    show((fault,), shell)
    return JobrunError.exit_code
