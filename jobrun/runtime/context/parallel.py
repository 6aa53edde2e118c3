"""Run several functions in parallel threads, and wait until all have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue

from jobrun.runtime.context.frame import Start

Work = Callable[[], None]


def run_all(start: Start, works: Sequence[Work]) -> list[BaseException | None]:
    """Run functions in parallel threads, the first in this one; return what each raised."""
    outcomes: list[BaseException | None] = [None] * len(works)
    ended: SimpleQueue[None] = SimpleQueue()

    def guarded(index: int, work: Work) -> Work:
        def run() -> None:
            outcomes[index] = _outcome(work)

        return run

    for index, work in enumerate(works[1:], start=1):
        start(guarded(index, work), lambda: ended.put(None))
    if works:
        outcomes[0] = _outcome(works[0])
    for _ in works[1:]:
        ended.get()
    return outcomes


def _outcome(work: Work) -> BaseException | None:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - returned to the caller, never dropped
        return error
    return None
