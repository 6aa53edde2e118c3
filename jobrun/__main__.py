"""The entry point: from ``sys.argv`` to an exit code. What the commands do is ``jobrun.cli``'s."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobrun.version import __version__

if TYPE_CHECKING:
    from jobrun.cli.guard import Box, Ended

# Commands that run tasks, which may end their process in any way.
_GUARDED = {"run", "resume", "fork"}
# For debuggers and profilers, and for whoever kills the process to see what happens.
_UNGUARDED_VARIABLE = "JOBRUN_UNGUARDED"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code.

    Args:
        arguments: Without the program's name; None for those of the process.
    """
    _open_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        # Answered before anything is imported: scripts ask this often.
        print(f"jobrun {__version__}")  # noqa: T201
        return 0
    if arguments is None and _is_guarded(given):
        return _guarded(given)
    from jobrun.cli.invoke import invoke  # noqa: PLC0415 - after the short cut

    return invoke(given)


def _is_guarded(given: Sequence[str]) -> bool:
    """Whether the command gets a process of its own; options before it take no values."""
    command = next((word for word in given if not word.startswith("-")), "")
    asks = any(word in {"-h", "--help"} for word in given)
    return command in _GUARDED and not asks and not os.environ.get(_UNGUARDED_VARIABLE)


def _guarded(given: list[str]) -> int:
    from jobrun.cli.guard import guarded  # noqa: PLC0415 - other commands do without

    killed_before = _killed_for_memory()

    def work(box: Box) -> int:
        from jobrun.cli.invoke import invoke  # noqa: PLC0415 - in the child only

        return invoke(given, box)

    def explain(box: Box, ended: Ended) -> int:
        from jobrun.cli.ending import tell_unexpected_end  # noqa: PLC0415 - seldom

        return tell_unexpected_end(box, ended, lambda: _killed_for_memory() > killed_before)

    return guarded(work, explain)


def _killed_for_memory() -> int:
    """How many processes the kernel has ended for lack of memory, since the machine started."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:  # noqa: PTH123 - cheap to import
            counts = dict(line.split() for line in file)
    except (OSError, ValueError):
        return 0
    return int(counts.get("oom_kill", 0))


def _open_standard_streams() -> None:
    """Put the null device where a standard stream is closed.

    Else the next file opened, which may be a checkpoint, gets its number, and whatever a
    library prints goes into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    sys.exit(main())
