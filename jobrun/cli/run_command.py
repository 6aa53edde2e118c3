"""Run one command line in this process, and convert its failures to messages and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jobrun.cli.app import group
from jobrun.cli.terminal import COMPLETION_VARIABLE, Shell
from jobrun.core.errors import EnvironmentFaultError, Fault, JobrunError, UsageError

if TYPE_CHECKING:
    from jobrun.cli.supervised_child import SharedState


def invoke(arguments: Sequence[str], shared: SharedState | None = None) -> int:
    """Run one command line in this process, turn failures into messages, return the exit code.

    Args:
        arguments: Without the program's name.
        shared: Shared memory of a supervised process; None without a supervisor.
    """
    shell = Shell(shared=shared)
    asked = shell.environment.get(COMPLETION_VARIABLE)
    try:
        if shared is not None:
            shared.let_signals_in()
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
        from jobrun.cli.error_output import environment_fault  # noqa: PLC0415 - after a fault only

        fault = environment_fault(error)
        if fault is None:
            return _crashed(error, arguments, shell)
        return _failed(error, (fault,), EnvironmentFaultError.exit_code, shell)


def _run(arguments: list[str], shell: Shell) -> int:
    # Click's main() is not used: it handles a closed pipe and Ctrl-C in its own way.
    try:
        with group.make_context("jobrun", arguments, obj=shell) as context:
            result: Any = group.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else 0


def _failed(error: BaseException, faults: Sequence[Fault], exit_code: int, shell: Shell) -> int:
    from jobrun.cli.error_output import print_faults  # noqa: PLC0415 - after a fault

    if shell.debug:
        import traceback  # noqa: PLC0415

        shell.say(*"".join(traceback.format_exception(error)).rstrip().split("\n"))
    print_faults(faults, shell)
    for note in getattr(error, "__notes__", ()):
        shell.say(f"  {note}")
    return exit_code


def _crashed(error: Exception, arguments: Sequence[str], shell: Shell) -> int:
    import traceback  # noqa: PLC0415 - after a crash only

    from jobrun.cli.error_output import print_faults, write_report  # noqa: PLC0415

    trace = "".join(traceback.format_exception(error))
    report = write_report(trace, arguments)
    if shell.debug or report is None:
        shell.say(*trace.rstrip().split("\n"))
    fault = Fault(
        "E414",
        f"internal error: {type(error).__name__}: {error}",
        f"this is a bug in jobrun; the report is in {report}" if report else "",
    )
    print_faults((fault,), shell)
    return JobrunError.exit_code
