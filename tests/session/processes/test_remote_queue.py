from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

from jobrun.graph.readers import Queue
from jobrun.runtime.context.cancel import CancelledError, CancelScope
from jobrun.runtime.context.child_processes import ChildReaper
from jobrun.runtime.context.group_run_state import GroupRun
from jobrun.runtime.records.queue_endpoints import QueuePlan
from jobrun.session.processes.remote_queue import BATCH_RECORDS, RemoteQueue, serve_queue_request
from jobrun.session.threads.thread_pool import ThreadPool
from jobrun.session.wire.rpc import Reply


class Master:
    """A line, and who answers for it in threads, as the master of a session does."""

    def __init__(self, queue, writers, readers):
        self.line = QueuePlan(("q", ""), queue, writers, readers).open()
        self.scope = CancelScope()
        self.asked = []
        self.crew = ThreadPool(nullcontext)

    def ask(self, request, *arguments):
        answer = Reply()
        self.asked.append((request, *arguments))

        def work():
            try:
                outcome = (True, serve_queue_request(self.line, request, arguments, self.scope))
            except Exception as error:  # noqa: BLE001 - raised by whoever asked
                outcome = (False, error)
            answer.put(outcome)

        self.crew.start(work, lambda: None)
        return answer

    def end(self, queue, writers=0, readers=0, *, only=False):
        plan = QueuePlan(("q", ""), queue, writers, readers)
        run = GroupRun(
            "epoch",
            1,
            0,
            "",
            "",
            lambda _: None,
            {},
            self.crew.start,
            ChildReaper(),
            body=self.scope,
        )
        return RemoteQueue(plan, self.ask, run, is_only_reader=only)


@pytest.fixture
def masters():
    masters = []

    def make(queue, writers=1, readers=1):
        masters.append(Master(queue, writers, readers))
        return masters[-1]

    yield make
    for master in masters:
        master.scope.cancel()
        master.crew.close()


def written(end, values):
    def work():
        for number, value in enumerate(values):
            end.put(number, (value,), CancelScope())
        end.leave_writer()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def read(end):
    records = []
    while (taken := end.take(CancelScope())) is not None:
        records.append(taken)
    return records


@pytest.mark.parametrize("only", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_all_records_arrive_in_order_with_their_numbers(masters, ordered, only):
    queue = Queue("q", capacity=5, shared=True, ordered=ordered)
    master = masters(queue)

    thread = written(master.end(queue, writers=1), range(300))
    records = read(master.end(queue, readers=1, only=only))

    thread.join()
    assert records == [(number, (number,)) for number in range(300)]


def test_records_travel_in_batches(masters):
    queue = Queue("q", shared=True)
    master = masters(queue)
    writer = master.end(queue, writers=1)

    thread = written(writer, range(1000))
    read(master.end(queue, readers=1, only=True))

    thread.join()
    batches = [len(arguments[0]) for request, *arguments in master.asked if request == "put_all"]
    assert sum(batches) == 1000
    assert len(batches) < 900
    assert max(batches) <= BATCH_RECORDS


def test_only_a_sole_reader_prefetches(masters):
    queue = Queue("q", shared=True)
    master = masters(queue, readers=2)
    written(master.end(queue, writers=1), range(3)).join()
    here, there = (master.end(queue, readers=1) for _ in range(2))

    assert here.take(CancelScope()) == (0, (0,))
    here.leave_reader()

    assert read(there) == [(1, (1,)), (2, (2,))]


def test_a_batch_is_gathered_by_either_way(masters):
    for only in (True, False):
        queue = Queue("q", shared=True)
        master = masters(queue)
        written(master.end(queue, writers=1), range(5)).join()
        end = master.end(queue, readers=1, only=only)

        assert end.gather(3, CancelScope()) == (0, ((0,), (1,), (2,)))
        assert end.gather(3, CancelScope()) == (1, ((3,), (4,)))
        assert end.gather(3, CancelScope()) is None


def test_writer_learns_that_the_reader_has_ended(masters):
    queue = Queue("q", capacity=2, shared=True)
    master = masters(queue)
    reader, writer = master.end(queue, readers=1), master.end(queue, writers=1)
    reader.leave_reader()

    number = 0
    while writer.put(number, (number,), CancelScope()):
        number += 1
    writer.leave_writer()

    assert number < 1000


def test_a_cancel_wakes_writers_and_readers(masters):
    queue = Queue("q", capacity=1, shared=True)
    master = masters(queue, readers=2)
    reader = master.end(queue, readers=1)
    threading.Timer(0.02, master.scope.cancel).start()

    with pytest.raises(CancelledError):
        reader.take(master.scope)
    reader.leave_reader()
