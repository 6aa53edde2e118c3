from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import JobrunError
from jobrun.graph.readers import POSITION, CounterSource, Field, Reader, ZipSource
from jobrun.runtime.records.cursor import Cursor, Position, RecordBudget, ZipCursor
from jobrun.runtime.records.row_iterators import CounterRows, RowIterator
from tests.support.step_bench import Bench


def _reader(**keys):
    return Reader("r", CounterSource(0, 6), (Field("x", ""),), **keys)


def _feed(begun):
    def make(begin, most):
        begun.append((begin.passes, begin.rows, most))
        return RowIterator(
            CounterRows(CounterSource(0, 6), single=True),
            None,
            begin.stretches or ((0, 6),),
            begin.rows,
            0,
            drop_last=False,
        )

    return make


def _take(cursor, bench, most):
    collected = []
    while len(collected) < most and cursor.peek(bench.frame):
        collected += cursor.take()
    return collected


def test_a_position_is_a_row_of_its_blob():
    position = Position(2, 3, 12, 0, 1, 4, 100)
    row = np.array(position.row())

    assert Position.of(row) == position
    assert dict(zip(POSITION, row.tolist(), strict=True))["rows"] == 12
    assert position.after(1, 4) == Position(2, 4, 16, 0, 1, 4, 100)


def test_an_allowance_is_spent_by_records_or_by_time():
    free, few, short = RecordBudget(None, 0.0), RecordBudget(2, 0.0), RecordBudget(None, 1e-9)
    for budget in (free, few, short):
        budget.begin()
    few.records_read = 2

    assert [budget.is_spent for budget in (free, few, short)] == [False, True, True]
    few.begin()
    assert not few.is_spent


def test_records_prefetched_in_the_last_run_come_first():
    begun = []
    with Bench() as bench:
        cursor = Cursor(_reader(restart="never"), (0, 1), None)
        cursor.begin(bench.frame, (), 6, _feed(begun), is_new=True)
        assert _take(cursor, bench, 2) == [0, 1]
        assert cursor.peek(bench.frame)  # and is not taken
        cursor.end(bench.frame)
        cursor.begin(bench.frame, (cursor.position,), 6, _feed(begun), is_new=False)

        assert _take(cursor, bench, 9) == [2, 3, 4, 5]
    assert [start for _, start, _ in begun] == [0]


def test_a_cursor_seeks_to_a_stored_position():
    begun = []
    with Bench() as bench:
        cursor = Cursor(_reader(restart="never"), (0, 1), None)
        cursor.begin(bench.frame, (), 6, _feed(begun), is_new=True)
        _take(cursor, bench, 4)
        cursor.begin(bench.frame, (Position(1, 1, 1, length=6),), 6, _feed(begun), is_new=False)

        assert _take(cursor, bench, 1) == [1]
    assert [start for _, start, _ in begun] == [0, 1]


def test_each_run_of_a_reader_that_restarts_is_a_pass():
    begun = []
    with Bench() as bench:
        cursor = Cursor(_reader(limit=4), (0, 1), 4)
        stored = ()
        for _ in range(3):
            cursor.begin(bench.frame, stored, 6, _feed(begun), is_new=False)
            assert _take(cursor, bench, 9) == [0, 1, 2, 3]
            stored = (cursor.position,)

    assert [number for number, _, _ in begun] == [1, 2, 3]
    assert stored == (Position(3, 4, 4, 0, 0, 1, 6),)


@pytest.mark.parametrize("stored", [Position(1, 2, 2, length=7), Position(1, 2, 2, 0, 1, 2, 6)])
def test_the_middle_of_other_rows_is_refused(stored):
    with Bench() as bench:
        cursor = Cursor(_reader(restart="never"), (0, 1), None)
        with pytest.raises(JobrunError) as caught:
            cursor.begin(bench.frame, (stored,), 6, _feed([]), is_new=True)
    assert caught.value.faults[0].code == "E230"


def test_unread_rows_of_a_pass_are_divided_among_new_shares():
    stored = (Position(1, 1, 1, 0, 0, 2, 6), Position(1, 2, 2, 0, 1, 2, 6))
    with Bench() as bench:
        collected = []
        for part in range(3):
            cursor = Cursor(_reader(restart="never"), (part, 3), None)
            cursor.begin(bench.frame, stored, 6, _feed([]), is_new=True)
            collected.append(_take(cursor, bench, 9))
            assert cursor.position.parts == 3

    assert collected == [[1], [2], [5]]


def test_records_side_by_side_are_not_divided_within_a_pass():
    stored = (Position(1, 1, 1, 0, 0, 2, 6), Position(1, 2, 2, 0, 1, 2, 6))
    with Bench() as bench:
        cursor = Cursor(_reader(restart="never"), (0, 3), None, is_zipped=True)
        with pytest.raises(JobrunError, match="share 1 of 2"):
            cursor.begin(bench.frame, stored, 6, _feed([]), is_new=True)


def test_zipped_readers_take_a_record_only_if_all_have_one():
    first, second = _reader(restart="never"), _reader(restart="never", limit=2)
    both = Reader("z", ZipSource((first, second)), (Field("a", "x"),), restart="never")
    with Bench() as bench:
        cursors = (Cursor(first, (0, 1), None), Cursor(second, (0, 1), 2))
        for cursor in cursors:
            cursor.begin(bench.frame, (), 6, _feed([]), is_new=True)
        zipped = ZipCursor(both, cursors, None)
        zipped.begin(Position())

        assert _take(zipped, bench, 9) == [0, 1]
        assert [cursor.position.rows for cursor in cursors] == [2, 2]
        assert zipped.position == Position(1, 2, 2)
        assert zipped.records_read == 2
        zipped.end(bench.frame)
