"""Whether a processor has nothing to do at this moment, and a thread for it; not for which work."""

from __future__ import annotations

import os

from jobrun.session.crew import Crew, Work

# Its fourth field: how many threads of the machine run or wait for a processor, and of how many.
_LOAD = "/proc/loadavg"


class Spare:
    """Starts work in a thread of a crew, if a processor would do nothing otherwise.

    On a busy machine two threads that take turns with the interpreter are slower than one.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def __call__(self, work: Work, done: Work) -> None:
        """As ``Crew.start``.

        Raises:
            RuntimeError: No processor is idle, or there is no thread.
        """
        if running() >= len(os.sched_getaffinity(0)):
            raise RuntimeError("no processor is idle")
        self._crew.start(work, done)


def running() -> float:
    """How many threads run or wait for a processor, this one too; endless where nobody says so."""
    try:
        descriptor = os.open(_LOAD, os.O_RDONLY)
        try:
            text = os.read(descriptor, 100)
        finally:
            os.close(descriptor)
        return int(text.split()[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):
        return float("inf")
