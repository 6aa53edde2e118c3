from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from jobrun.runtime.context.bounded_queue import BoundedQueue, FifoQueue, OrderedQueue
from jobrun.runtime.context.cancel import CancelledError, CancelScope

LONG_S = 30.0


class Crowd:
    """Threads whose errors and hangs fail the test."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def __call__(self, work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised by join
                self._errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self) -> None:
        for thread in self._threads:
            thread.join(LONG_S)
            assert not thread.is_alive(), "a thread waits for ever"
        if self._errors:
            raise self._errors[0]


@pytest.fixture
def scope() -> CancelScope:
    return CancelScope()


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def drained(line: BoundedQueue, scope: CancelScope) -> list[tuple[int, tuple]]:
    return list(iter(lambda: line.take(scope), None))


def gathered(line: BoundedQueue, scope: CancelScope, most: int) -> list[tuple[int, tuple]]:
    return list(iter(lambda: line.gather(most, scope), None))


def records(line: BoundedQueue, scope: CancelScope) -> list[object]:
    return [values[0] for _, values in drained(line, scope)]


def waits(line: BoundedQueue, of: str = "_takers") -> None:
    """Return when someone waits at the line."""
    while not getattr(line, of):
        time.sleep(0.0005)


def test_records_leave_in_the_order_in_which_they_came(scope):
    line = FifoQueue(4, 1, 1)
    for value in "abc":
        line.put(0, (value,), scope)
    line.leave_writer()

    assert drained(line, scope) == [(0, ("a",)), (1, ("b",)), (2, ("c",))]


def test_what_is_left_after_the_close_is_delivered_and_then_the_end_again_and_again(scope):
    line = FifoQueue(4, 1, 1)
    line.put(0, (1,), scope)
    line.leave_writer()

    assert line.take(scope) == (0, (1,))
    assert line.take(scope) is None
    assert line.take(scope) is None


def test_a_queue_is_closed_by_the_last_of_its_writers(scope, crowd):
    line = FifoQueue(4, 2, 1)
    line.leave_writer()
    received: list[object] = []
    crowd(lambda: received.extend(records(line, scope)))
    waits(line)

    line.put(0, (1,), scope)
    line.leave_writer()
    crowd.join()

    assert received == [1]


def test_a_write_after_the_close_is_refused(scope):
    line = FifoQueue(4, 1, 1)
    line.leave_writer()

    with pytest.raises(RuntimeError, match="after the last writer had left"):
        line.put(0, (1,), scope)


def test_a_writer_waits_when_as_many_records_wait_as_there_is_room_for(scope, crowd):
    line = FifoQueue(2, 1, 1)
    done: SimpleQueue[int] = SimpleQueue()

    def write() -> None:
        for value in range(4):
            line.put(0, (value,), scope)
            done.put(value)
        line.leave_writer()

    crowd(write)
    waits(line, "_putters")
    before = done.qsize()
    line.take(scope)
    crowd(lambda: drained(line, scope))
    crowd.join()

    assert (before, done.qsize()) == (2, 4)


def test_put_returns_false_after_the_last_reader_left(scope):
    line = FifoQueue(1, 1, 2)
    line.leave_reader()
    assert line.put(0, (1,), scope)

    line.leave_reader()

    assert not line.put(0, (2,), scope)


def test_the_end_of_the_last_reader_wakes_writers_that_wait(scope, crowd):
    line = FifoQueue(1, 2, 1)
    line.put(0, (0,), scope)
    put_results: SimpleQueue[bool] = SimpleQueue()
    for _ in range(2):
        crowd(lambda: put_results.put(line.put(0, (1,), scope)))
    while len(line._putters) < 2:
        time.sleep(0.0005)

    line.leave_reader()
    crowd.join()

    assert [put_results.get(), put_results.get()] == [False, False]


def test_a_cancel_wakes_every_waiting_thread(scope, crowd):
    empty, full = FifoQueue(1, 1, 3), FifoQueue(1, 3, 1)
    full.put(0, (0,), scope)
    seen: SimpleQueue[str] = SimpleQueue()

    def meets_cancel(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            with pytest.raises(CancelledError):
                work()
            seen.put("cancelled")

        return run

    for _ in range(2):
        crowd(meets_cancel(lambda: empty.take(scope)))
        crowd(meets_cancel(lambda: full.put(0, (1,), scope)))
    crowd(meets_cancel(lambda: empty.gather(5, scope)))
    while len(empty._takers) < 3 or len(full._putters) < 2:
        time.sleep(0.0005)

    scope.cancel()
    crowd.join()

    assert seen.qsize() == 5


def test_a_cancelled_reader_that_was_woken_wakes_another(scope, crowd):
    other = CancelScope()
    line = FifoQueue(4, 1, 2)
    received: list[object] = []

    def leave() -> None:
        with pytest.raises(CancelledError):
            line.take(other)

    with other.waking(lambda: None):
        crowd(leave)
        waits(line)
        crowd(lambda: received.extend(records(line, scope)))
        while len(line._takers) < 2:
            time.sleep(0.0005)
        # Both at once, as far as the first one can tell.
        with line._lock:
            other.cancelled = True
            line._records.append((7,))
            line._takers.popleft().put(None)
    while not received and line._records:
        time.sleep(0.0005)
    line.leave_writer()
    crowd.join()

    assert received == [7]


def test_an_ordered_line_gives_records_out_by_number(scope):
    line = OrderedQueue(4, 1, 1)
    for number in (2, 0, 3, 1):
        line.put(number, (number,), scope)
    line.leave_writer()

    assert records(line, scope) == [0, 1, 2, 3]


def test_an_ordered_queue_skips_numbers_without_a_record(scope):
    line = OrderedQueue(3, 1, 1)
    for number, values in ((1, None), (0, None), (2, (2,)), (4, (4,)), (3, None)):
        line.put(number, values, scope)
    line.leave_writer()

    assert records(line, scope) == [2, 4]


def test_a_number_that_a_failed_writer_took_with_it_does_not_hold_up_the_others(scope):
    line = OrderedQueue(4, 1, 1)
    for number in (3, 1):
        line.put(number, (number,), scope)
    line.leave_writer()

    assert records(line, scope) == [1, 3]


def test_the_next_number_of_an_ordered_line_never_waits_for_room(scope, crowd):
    line = OrderedQueue(1, 1, 1)
    for number in (3, 2, 1):
        crowd(lambda number=number: line.put(number, (number,), scope))
    while len(line._putters) < 3:
        time.sleep(0.0005)

    line.put(0, (0,), scope)

    assert [line.take(scope)[1][0] for _ in range(4)] == [0, 1, 2, 3]
    crowd.join()


def test_one_record_may_make_several_ready_for_as_many_readers(scope, crowd):
    line = OrderedQueue(4, 1, 2)
    received: SimpleQueue[object] = SimpleQueue()
    for _ in range(2):
        crowd(lambda: received.put(line.take(scope)[1][0]))
    while len(line._takers) < 2:
        time.sleep(0.0005)

    line.put(1, (1,), scope)
    line.put(0, (0,), scope)
    crowd.join()

    assert {received.get(), received.get()} == {0, 1}


def test_records_are_read_several_at_a_time_and_the_last_ones_as_they_are(scope):
    line = FifoQueue(9, 1, 1)
    for value in range(7):
        line.put(0, (value,), scope)
    line.leave_writer()

    assert gathered(line, scope, most=3) == [
        (0, ((0,), (1,), (2,))),
        (1, ((3,), (4,), (5,))),
        (2, ((6,),)),
    ]


def test_more_records_are_read_at_a_time_than_there_is_room_for(scope, crowd):
    line = FifoQueue(1, 1, 1)

    def write() -> None:
        for value in range(5):
            line.put(0, (value,), scope)
        line.leave_writer()

    crowd(write)

    assert [len(value) for _, value in gathered(line, scope, most=4)] == [4, 1]
    crowd.join()


def test_of_several_readers_of_batches_only_the_last_gets_fewer(scope, crowd):
    line = FifoQueue(2, 1, 3)
    sizes: list[int] = []
    for _ in range(3):
        crowd(lambda: sizes.extend(len(value) for _, value in gathered(line, scope, most=4)))
    for value in range(41):
        line.put(0, (value,), scope)
    line.leave_writer()
    crowd.join()

    assert sorted(sizes) == [1] + [4] * 10


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_doubled_or_stuck(seed, ordered, scope, crowd):
    rolls = random.Random(seed)
    count, capacity = rolls.randrange(1, 200), rolls.randrange(1, 6)
    writers, readers = rolls.randrange(1, 6), rolls.randrange(1, 6)
    line = (OrderedQueue if ordered else FifoQueue)(capacity, writers, readers)
    numbers = iter(range(count))
    skipped = set(rolls.sample(range(count), count // 5))
    lock = threading.Lock()
    received: list[int] = []

    def write() -> None:
        while True:
            with lock:
                number = next(numbers, -1)
            if number < 0:
                break
            if number not in skipped:
                line.put(number, (number,), scope)
            elif ordered:
                line.put(number, None, scope)
        line.leave_writer()

    def read() -> None:
        received.extend(records(line, scope))
        line.leave_reader()

    for _ in range(readers):
        crowd(read)
    for _ in range(writers):
        crowd(write)
    crowd.join()

    expected = [number for number in range(count) if number not in skipped]
    in_order = ordered or writers == 1
    assert (received if in_order and readers == 1 else sorted(received)) == expected
