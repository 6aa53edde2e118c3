"""Several pieces of work at the same time, until all have ended. Makes no threads itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue

from jobrun.runtime.frame import Start

Work = Callable[[], None]


def run_together(start: Start, works: Sequence[Work]) -> list[BaseException | None]:
    """Run all, the first one in this thread; what each raised, in order."""
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
    except BaseException as error:  # noqa: BLE001 - handed to whoever joins, never dropped
        return error
    return None
