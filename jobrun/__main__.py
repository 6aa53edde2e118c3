"""Run the command line in ``sys.argv``, most commands in a supervised child process."""

from __future__ import annotations

import os
import sys

from jobrun.version import __version__

# Known to type checkers by its name. Importing typing would take as long as all of --version.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobrun.cli.process.notify_supervised_run import NewsSender
    from jobrun.cli.supervisor import ChildExit
    from jobrun.cli.supervisor_memory import SharedState

# Commands that run tasks, which may end their process in any way.
_SUPERVISED = {"run", "resume", "fork"}
# For debuggers and profilers, and for tests that kill the process.
_UNGUARDED_VARIABLES = ("JOBRUN_UNGUARDED", "JOBRUN_CRASHPOINT")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``python -m jobrun`` or the script ``jobrun``: one command line; return its exit code.

    Args:
        arguments: Without the program's name; None for those of the process.
    """
    _open_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        # Answered before anything is imported: scripts ask this often.
        print(f"jobrun {__version__}")  # noqa: T201
        return 0
    if arguments is None and _is_supervised(given):
        _fix_hash_seed()
        return _run_supervised(given)
    from jobrun.cli.process.run_command import invoke  # noqa: PLC0415 - after the short cut

    return invoke(given)


def _is_supervised(given: Sequence[str]) -> bool:
    """Decide at the entry point ``__main__.py`` whether a command gets a supervised child process.

    Options before the command take no values.
    """
    command = next((word for word in given if not word.startswith("-")), "")
    asks = any(word in {"-h", "--help"} for word in given)
    return (
        command in _SUPERVISED
        and not asks
        and not any(os.environ.get(name) for name in _UNGUARDED_VARIABLES)
    )


def _fix_hash_seed() -> None:
    """Start ``__main__.py`` again with ``PYTHONHASHSEED=0``, where that variable is random."""
    if os.environ.get("PYTHONHASHSEED", "random") in {"", "random"} and _can_start_again():
        start_again("0")


def _can_start_again() -> bool:
    """Return whether the entry point ``__main__.py`` may start its own command line again.

    Else the program that called ``main`` would be started again, or this one without end.
    """
    own = os.path.basename(sys.argv[0]) in {"jobrun", "__main__.py"}  # noqa: PTH119 - cheap
    given = sys.argv[1:]
    return own and sys.orig_argv[-len(given) :] == given and not sys.flags.ignore_environment


def start_again(hash_seed: str) -> None:
    """Replace this process by a new start of ``__main__.py``, with the given hash seed."""
    os.environ["PYTHONHASHSEED"] = hash_seed
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves


def _run_supervised(given: list[str]) -> int:
    from jobrun.cli.supervisor import run_supervised  # noqa: PLC0415 - other commands do without

    killed_before = _killed_for_memory()

    def work(shared: SharedState) -> int:
        from jobrun.cli.process.run_command import invoke  # noqa: PLC0415 - in the child only

        return invoke(given, shared)

    def explain(shared: SharedState, ended: ChildExit) -> int:
        from jobrun.cli.process.unexpected_end import report_unexpected_end  # noqa: PLC0415 - seldom

        return report_unexpected_end(shared, ended, lambda: _killed_for_memory() > killed_before)

    sender: list[NewsSender] = []

    def notify(shared: SharedState, code: int | None) -> None:
        if shared.has_news and not sender:
            from jobrun.cli.process.notify_supervised_run import NewsSender  # noqa: PLC0415 - seldom

            sender.append(NewsSender(shared.spared))
        for one in sender:
            one.send(shared.read_news(), code, shared.unexpected_end)

    return run_supervised(work, explain, start_again if _can_start_again() else None, notify)


def _killed_for_memory() -> int:
    """Count, for the entry point ``__main__.py``, the kernel's OOM kills since the last boot."""
    from jobrun.core.system_calls import read_proc  # noqa: PLC0415 - other commands do without

    counts = dict(line.split() for line in read_proc("vmstat").splitlines())
    return int(counts.get(b"oom_kill", 0))


def _open_standard_streams() -> None:
    """Open the null device for each closed standard stream, at the entry point ``__main__.py``.

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
