"""The entry point: from ``sys.argv`` to an exit code. What the commands do is ``jobrun.cli``'s."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from jobrun.version import __version__


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
    from jobrun.cli.invoke import invoke  # noqa: PLC0415 - after the short cut

    return invoke(given)


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
