"""Tests of ``runtime.soleline``."""

from __future__ import annotations

import threading
import time

import pytest

from jobrun.runtime.context.bounded_queue import SpscQueue
from jobrun.runtime.context.cancel import CancelledError, CancelScope


def _in_thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("capacity", [1, 2, 7, 1000])
def test_all_records_come_once_in_order_whatever_the_capacity(capacity):
    line, scope, count = SpscQueue(capacity), CancelScope(), 5_000
    received = []

    def read():
        while (taken := line.take(scope)) is not None:
            received.append(taken)

    reader = _in_thread(read)
    for number in range(count):
        assert line.put(-1, (number,), scope)
    line.leave_writer()
    reader.join(100)

    assert received == [(number, (number,)) for number in range(count)]


@pytest.mark.parametrize("capacity", [1, 2, 7, 1000])
def test_a_writer_puts_what_the_reader_iterates_over(capacity):
    line, scope, count = SpscQueue(capacity), CancelScope(), 5_000
    received = []
    reader = _in_thread(lambda: received.extend(line.records(scope)))

    put = line.writer(scope)
    for number in range(count):
        assert put(-1, (number,))
    line.leave_writer()
    reader.join(100)

    assert received == [(number, (number,)) for number in range(count)]


def test_a_writer_waits_for_room():
    line, scope, done = SpscQueue(3), CancelScope(), []
    put, records = line.writer(scope), line.records(scope)

    def write():
        for number in range(5):
            put(-1, (number,))
            done.append(number)

    writer = _in_thread(write)
    while len(done) < 3:
        time.sleep(0.001)
    time.sleep(0.02)
    assert done == [0, 1, 2]
    assert next(records) == (0, (0,))
    while len(done) < 4:
        time.sleep(0.001)
    assert next(records) == (1, (1,))
    writer.join(100)
    assert done == [0, 1, 2, 3, 4]


def test_a_writer_ends_when_the_reader_has_left_or_the_writer_itself():
    line, scope = SpscQueue(3), CancelScope()
    put = line.writer(scope)
    line.leave_reader()
    assert not put(-1, ("x",))

    line.leave_writer()
    with pytest.raises(RuntimeError, match="after the last writer"):
        put(-1, ("x",))


def test_no_more_records_wait_than_there_is_room_for():
    line, scope, done = SpscQueue(3), CancelScope(), []

    def write():
        for number in range(5):
            line.put(-1, (number,), scope)
            done.append(number)

    writer = _in_thread(write)
    while len(done) < 3:
        time.sleep(0.001)
    time.sleep(0.02)
    assert done == [0, 1, 2]
    assert line.take(scope) == (0, (0,))
    while len(done) < 4:
        time.sleep(0.001)
    assert line.take(scope) == (1, (1,))
    writer.join(100)
    assert done == [0, 1, 2, 3, 4]


def test_records_left_at_the_close_are_still_read():
    line, scope = SpscQueue(3), CancelScope()
    line.put(-1, ("x",), scope)
    line.leave_writer()

    assert line.take(scope) == (0, ("x",))
    assert line.take(scope) is None


def test_put_returns_false_without_readers():
    line, scope = SpscQueue(3), CancelScope()
    line.leave_reader()

    assert not line.put(-1, ("x",), scope)


def test_nothing_can_be_written_after_the_writer_has_left():
    line, scope = SpscQueue(3), CancelScope()
    line.leave_writer()

    with pytest.raises(RuntimeError, match="after the last writer"):
        line.put(-1, ("x",), scope)


def test_a_record_that_is_not_sent_takes_no_room():
    line, scope = SpscQueue(1), CancelScope()

    assert line.put(0, None, scope)
    assert line.put(1, ("x",), scope)
    assert line.take(scope) == (0, ("x",))


@pytest.mark.parametrize("end", ["put", "take"])
def test_a_cancel_wakes_all_waiting_threads(end):
    line, scope, raised = SpscQueue(1), CancelScope(), []
    if end == "put":
        line.put(-1, ("x",), scope)

    def wait():
        try:
            line.take(scope) if end == "take" else line.put(-1, ("y",), scope)
        except CancelledError as error:
            raised.append(error)

    waiting = _in_thread(wait)
    time.sleep(0.01)
    scope.cancel()
    waiting.join(100)
    assert raised


def test_several_can_be_taken_at_once():
    line, scope = SpscQueue(9), CancelScope()
    for number in range(5):
        line.put(-1, (number,), scope)
    line.leave_writer()

    assert line.take_some(3, scope) == [(0,), (1,), (2,)]
    assert line.gather(9, scope) == (0, ((3,), (4,)))
    assert line.take(scope) is None
