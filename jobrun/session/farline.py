"""The end here of a queue that tasks on several nodes use. The queue itself is with the master.

Records travel in batches: while one is under way, further ones gather. What is written waits in
a line here, of which one thread takes whatever is there and sends it; where nobody else reads
the queue, another thread fetches ahead what is there for us. Elsewhere, and where records have
an order to keep, each is sent or fetched by itself: what one reader has fetched ahead, no other
could have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from jobrun.core.errors import JobrunError
from jobrun.runtime.cancel import CancelledError, CancelScope
from jobrun.runtime.frame import GroupRun
from jobrun.runtime.lines import LineInTurn, Values
from jobrun.runtime.queues import LinePlan
from jobrun.session.calls import Answer

# So many records make up a batch at most.
BATCH = 64


class Ask(Protocol):
    """Asks the master about a queue of the present run."""

    def __call__(self, what: str, *given: Any) -> Answer:
        """Send the request; its answer."""


class FarLine:
    """See the module; the methods are those of a ``Line``.

    Args:
        plan: The queue, and how many here write to it and read from it.
        ask: Asks the master.
        is_only_reader: Nobody else reads it.
        run: Whose threads and scope are used, and who is told when a record cannot travel.
    """

    def __init__(self, plan: LinePlan, ask: Ask, run: GroupRun, *, is_only_reader: bool) -> None:
        capacity = min(plan.queue.capacity, BATCH)
        self._ask = ask
        self._run = run
        self._scope = run.body
        self._lock = threading.Lock()
        self._writers = plan.writers
        self._readers = plan.readers
        batched = not plan.queue.ordered
        self._outgoing = LineInTurn(capacity, plan.writers, 1) if batched else None
        self._landing = LineInTurn(capacity, 1, plan.readers) if is_only_reader else None
        self._ahead = capacity
        self._begun: set[str] = set()
        self._sent: SimpleQueue[None] = SimpleQueue()

    def put(self, number: int, values: Values | None, scope: CancelScope) -> bool:
        """See ``Line.put``; whether anybody reads it is known a batch later."""
        if self._outgoing is None:
            return bool(self._ask("put", number, values).wait(scope))
        if values is None:
            return True
        self._begin("send", self._send_batches)
        return self._outgoing.put(number, values, scope)

    def take(self, scope: CancelScope) -> tuple[int, Values] | None:
        """See ``Line.take``."""
        if self._landing is None:
            taken: tuple[int, Values] | None = self._ask("take").wait(scope)
            return taken
        self._begin("fetch", self._fetch_ahead)
        return self._landing.take(scope)

    def gather(self, most: int, scope: CancelScope) -> tuple[int, tuple[Values, ...]] | None:
        """See ``Line.gather``."""
        if self._landing is None:
            gathered: tuple[int, tuple[Values, ...]] | None
            gathered = self._ask("gather", most).wait(scope)
            return gathered
        self._begin("fetch", self._fetch_ahead)
        return self._landing.gather(most, scope)

    def leave_writer(self) -> None:
        """See ``Line.leave_writer``; the last one waits until all records have left."""
        if self._outgoing is not None:
            self._outgoing.leave_writer()
        with self._lock:
            self._writers -= 1
            is_last = self._writers == 0
        if is_last and "send" in self._begun:
            self._sent.get()
        self._tell("leave_writer")

    def leave_reader(self) -> None:
        """See ``Line.leave_reader``."""
        if self._landing is not None:
            self._landing.leave_reader()
        self._tell("leave_reader")

    def _tell(self, what: str) -> None:
        try:
            self._ask(what).wait(self._scope)
        except CancelledError:
            # The run is over, and its queues with it.
            return

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        """Start one of the two threads, once."""
        if name in self._begun:
            return
        with self._lock:
            if name in self._begun:
                return
            self._begun.add(name)
        self._run.start(work, _nothing)

    def _send_batches(self) -> None:
        outgoing = self._outgoing
        assert outgoing is not None  # noqa: S101 - for the type checker
        try:
            while records := outgoing.take_some(BATCH, self._scope):
                if not self._ask("put_all", records).wait(self._scope):
                    break
        except CancelledError:
            # Whoever writes sees that the run is over.
            pass
        except JobrunError as error:
            self._run.fail(error)
        finally:
            outgoing.leave_reader()
            self._sent.put(None)

    def _fetch_ahead(self) -> None:
        landing = self._landing
        assert landing is not None  # noqa: S101 - for the type checker
        try:
            while records := self._ask("take_some", self._ahead).wait(self._scope):
                for one in records:
                    landing.put(-1, one, self._scope)
        except CancelledError:
            pass
        except JobrunError as error:
            self._run.fail(error)
        finally:
            landing.leave_writer()


def _nothing() -> None:
    """Nobody waits for these threads: they end with the run."""


def serve(line: Any, what: str, given: tuple[Any, ...], scope: CancelScope) -> Any:
    """What the master answers, in a thread of its own; may wait.

    Raises:
        CancelledError: The run was cancelled meanwhile.
    """
    match what:
        case "put_all":
            return all(line.put(-1, values, scope) for values in given[0])
        case "put" | "take" | "gather" | "take_some":
            return getattr(line, what)(*given, scope)
        case _:
            getattr(line, what)()
            return None
