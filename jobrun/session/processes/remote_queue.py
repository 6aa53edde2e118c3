"""Give tasks access to a queue that tasks on several nodes use and the master holds.

Records travel in batches: while one is in flight, further ones gather. Written records wait in a
local queue, from which one thread sends whatever is there; where no other node reads the queue,
another thread prefetches. With several readers, and for ordered queues, each record is sent or
fetched by itself: a record that one reader has prefetched is lost to the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from jobrun.core.errors import JobrunError
from jobrun.runtime.context.bounded_queue import FifoQueue, Put, Values
from jobrun.runtime.context.cancel import CancelledError, CancelScope
from jobrun.runtime.context.group_run_state import GroupRun
from jobrun.runtime.records.queue_endpoints import QueuePlan
from jobrun.session.wire.rpc import Reply

# The most records in one batch.
BATCH_RECORDS = 64


class SendRequest(Protocol):
    """Sends the master a request about one queue of the current run."""

    def __call__(self, request: str, *arguments: Any) -> Reply:
        """Send the master a request about a shared queue; return its ``Reply``."""


class RemoteQueue:
    """The local end of a queue held by the master; it has the methods of a local queue.

    Args:
        plan: The queue, and how many here write to it and read from it.
        ask: Asks the master.
        is_only_reader: No other node reads it.
        run: The run whose threads and scope are used, and which fails if a record cannot be sent.
    """

    def __init__(
        self, plan: QueuePlan, ask: SendRequest, run: GroupRun, *, is_only_reader: bool
    ) -> None:
        capacity = min(plan.queue.capacity, BATCH_RECORDS)
        self._ask = ask
        self._run = run
        self._scope = run.body
        self._lock = threading.Lock()
        self._writers = plan.writers
        self._readers = plan.readers
        batched = not plan.queue.ordered
        self._outgoing = FifoQueue(capacity, plan.writers, 1) if batched else None
        self._incoming = FifoQueue(capacity, 1, plan.readers) if is_only_reader else None
        self._ahead = capacity
        self._begun: set[str] = set()
        self._sent: SimpleQueue[None] = SimpleQueue()
        # How long tasks have waited for replies, and how much of all their waits was reported.
        self._waited_s = self._reported_s = 0.0

    def put(self, number: int, values: Values | None, scope: CancelScope) -> bool:
        """Send a record to the master's queue; return False if no task reads the queue any more."""
        if self._outgoing is None:
            return bool(self._wait_for(self._ask("put", number, values), scope))
        if values is None:
            return True
        self._start_thread("send", self._send_batches)
        return self._outgoing.put(number, values, scope)

    def writer(self, scope: CancelScope) -> Put:
        """Return the function that puts records into the master's queue."""
        return partial(self.put, scope=scope)

    def take(self, scope: CancelScope) -> tuple[int, Values] | None:
        """Take a record and its number out of the master's queue; None if closed and empty."""
        if self._incoming is None:
            taken: tuple[int, Values] | None = self._wait_for(self._ask("take"), scope)
            return taken
        self._start_thread("fetch", self._fetch_ahead)
        return self._incoming.take(scope)

    def records(self, scope: CancelScope) -> Iterator[tuple[int, Values]]:
        """Iterate over records that a worker process takes from the master's queue."""
        return iter(partial(self.take, scope), None)

    def gather(self, most: int, scope: CancelScope) -> tuple[int, tuple[Values, ...]] | None:
        """Take up to ``most`` records at once out of the master's queue, with a batch number."""
        if self._incoming is None:
            gathered: tuple[int, tuple[Values, ...]] | None
            gathered = self._wait_for(self._ask("gather", most), scope)
            return gathered
        self._start_thread("fetch", self._fetch_ahead)
        return self._incoming.gather(most, scope)

    def take_waited_s(self) -> float:
        """Return how many seconds tasks have waited for this remote queue since the last call."""
        waited_s = self._waited_s
        if self._incoming is not None:
            waited_s += self._incoming.waited_s()[0]
        if self._outgoing is not None:
            waited_s += self._outgoing.waited_s()[1]
        new_s, self._reported_s = waited_s - self._reported_s, waited_s
        return new_s

    def _wait_for(self, reply: Reply, scope: CancelScope) -> Any:
        began = time.perf_counter()
        value = reply.wait(scope)
        self._waited_s += time.perf_counter() - began
        return value

    def leave_writer(self) -> None:
        """Remove one writer from the master's queue; the last one first sends all its records."""
        if self._outgoing is not None:
            self._outgoing.leave_writer()
        with self._lock:
            self._writers -= 1
            is_last = self._writers == 0
        if is_last and "send" in self._begun:
            self._sent.get()
        self._notify("leave_writer")

    def leave_reader(self) -> None:
        """Remove one reader from the remote queue, which is in the master process."""
        if self._incoming is not None:
            self._incoming.leave_reader()
        self._notify("leave_reader")

    def _notify(self, request: str) -> None:
        try:
            self._ask(request).wait(self._scope)
        except CancelledError:
            # The run is over, and its queues with it.
            return

    def _start_thread(self, name: str, work: Callable[[], None]) -> None:
        """Start the thread that sends or fetches records of the master's queue, once."""
        if name in self._begun:
            return
        with self._lock:
            if name in self._begun:
                return
            self._begun.add(name)
        # Nothing waits for it: it ends with the run.
        self._run.start(work, lambda: None)

    def _send_batches(self) -> None:
        outgoing = self._outgoing
        assert outgoing is not None  # noqa: S101 - for the type checker
        try:
            while records := outgoing.take_some(BATCH_RECORDS, self._scope):
                if not self._ask("put_all", records).wait(self._scope):
                    break
        except CancelledError:
            # The writer sees by the same scope that the run is over.
            pass
        except JobrunError as error:
            self._run.fail(error)
        finally:
            outgoing.leave_reader()
            self._sent.put(None)

    def _fetch_ahead(self) -> None:
        incoming = self._incoming
        assert incoming is not None  # noqa: S101 - for the type checker
        try:
            while records := self._ask("take_some", self._ahead).wait(self._scope):
                for record in records:
                    incoming.put(-1, record, self._scope)
        except CancelledError:
            pass
        except JobrunError as error:
            self._run.fail(error)
        finally:
            incoming.leave_writer()


def serve_queue_request(
    queue: Any, request: str, arguments: tuple[Any, ...], scope: CancelScope
) -> Any:
    """Serve a node's request to a queue in the master; it may block, so each has a thread.

    Raises:
        CancelledError: The run was cancelled meanwhile.
    """
    match request:
        case "put_all":
            return all(queue.put(-1, values, scope) for values in arguments[0])
        case "put" | "take" | "gather" | "take_some":
            return getattr(queue, request)(*arguments, scope)
        case _:
            getattr(queue, request)()
            return None
