from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import JobrunError
from jobrun.formats.rows import ArrayRows
from jobrun.graph.readers import CounterSource
from jobrun.runtime.records.row_iterators import (
    CounterRows,
    ObjectIterator,
    RowIterator,
    shuffle_order,
)
from tests.support.tables import each_case


def _rows(count=20, width=3):
    x = np.arange(count * width, dtype=np.float32).reshape(count, width)
    return ArrayRows("r", (x, np.arange(count)), ("x", "y"))


def _all(feed):
    collected = []
    while (records := feed.next()) is not None:
        collected.append(records)
    assert feed.next() is None
    return collected


def _feed(rows, share=None, start=0, batch=0, order=None, drop_last=False):
    return RowIterator(rows, order, (share or (0, len(rows)),), start, batch, drop_last=drop_last)


@each_case("batch", [0, 1, 7, 20, 50])
@each_case("start", [0, 7, 19, 20])
def test_iteration_from_any_position_gives_the_remaining_rows(batch, start):
    records = _all(_feed(_rows(), start=start, batch=batch))

    assert sum(record.rows for record in records) == 20 - start
    assert np.hstack([[], *(record.values[1] for record in records)]).tolist() == list(
        range(start, 20)
    )


def test_a_single_row_has_no_batch_axis():
    row, batch = _feed(_rows()).next().values, _feed(_rows(), batch=4).next().values

    assert [value.shape for value in row] == [(3,), ()]
    assert isinstance(row[1], np.int64)
    assert [(value.shape, str(value.dtype)) for value in batch] == [
        ((4, 3), "float32"),
        ((4,), "int64"),
    ]


def test_a_share_is_a_part_of_the_order():
    order = shuffle_order(20, 1, "r", 1)
    whole = [int(record.values[1]) for record in _all(_feed(_rows(), order=order))]
    part = [int(record.values[1]) for record in _all(_feed(_rows(), share=(5, 15), order=order))]

    assert part == whole[5:15]


def test_rows_of_a_dropped_last_batch_are_not_counted():
    records = _all(_feed(_rows(), batch=6, drop_last=True))

    assert [record.rows for record in records] == [6, 6, 6]


def test_a_large_batch_has_its_memory_for_itself():
    rows = ArrayRows("r", (np.zeros((10, 10_000)),), ("x",))

    assert all(record.values[0].flags.owndata for record in _all(_feed(rows, batch=4)))


def test_no_two_records_share_memory():
    records = _all(_feed(_rows(), batch=2))

    arrays = [record.values[0] for record in records]
    assert not any(np.shares_memory(a, b) for a in arrays for b in arrays if a is not b)


def test_a_counter_gives_python_ints_one_by_one_and_arrays_in_batches():
    source = CounterSource(5, None, -2)
    single = _feed(CounterRows(source, single=True))
    batches = _feed(CounterRows(source, single=False), batch=3)

    assert [single.next().values[0] for _ in range(3)] == [5, 3, 1]
    assert type(single.next().values[0]) is int
    assert batches.next().values[0].tolist() == [5, 3, 1]


def test_a_counter_ends_before_its_stop():
    assert len(_all(_feed(CounterRows(CounterSource(0, 7, 3), single=True)))) == 3
    assert _all(_feed(CounterRows(CounterSource(5, 5), single=True))) == []


class _Iterated:
    def __iter__(self):
        yield from ({"x": np.full(2, i), "y": i} for i in range(5))


class _Read:
    def __init__(self):
        self.at = 0
        self.asked = []

    def read(self, count):
        self.asked.append(count)
        actual = np.arange(self.at, min(self.at + count, 5))
        self.at += len(actual)
        return actual


class _Sought(_Read):
    def seek(self, rows):
        self.at = rows


def _objects(make_object, names, start=0, batch=0, drop_last=False):
    return ObjectIterator(make_object, names, start, batch, drop_last=drop_last, target="lib:Rows")


@pytest.mark.parametrize("start", [0, 2, 5, 9])
def test_an_object_is_iterated_from_the_row_on(start):
    records = _all(_objects(_Iterated, ("y",), start))

    assert [record.values[0] for record in records] == list(range(start, 5))


def test_rows_of_an_object_are_stacked_to_batches():
    x, y = zip(
        *(record.values for record in _all(_objects(_Iterated, ("x", "y"), batch=3))), strict=True
    )

    assert [value.tolist() for value in y] == [[0, 1, 2], [3, 4]]
    assert [value.shape for value in x] == [(3, 2), (2, 2)]
    short = _objects(_Iterated, ("x", "y"), batch=3, drop_last=True)
    assert len(_all(short)) == 1


@pytest.mark.parametrize("make_object", [_Read, _Sought])
def test_an_object_that_reads_in_batches_is_asked_for_them(make_object):
    records = _all(_objects(make_object, ("x",), 1, 3))

    assert [record.values[0].tolist() for record in records] == [[1, 2, 3], [4]]


def test_a_reused_buffer_is_copied():
    buffer = np.zeros(2)

    class Reusing:
        def __iter__(self):
            for i in range(3):
                buffer[:] = i
                yield buffer

    records = _all(_objects(Reusing, ("x",)))

    assert [record.values[0].tolist() for record in records] == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("rows", "names", "message"),
    [
        ([(1, 2, 3)], ("a", "b"), "no tuple or mapping of 2"),
        ([{"a": 1}], ("a", "b"), "without 'b'"),
        ([memoryview(b"")], ("a",), "cannot hold"),
        ([object()], ("a",), "cannot hold"),
    ],
)
def test_an_invalid_row_is_reported(rows, names, message):
    with pytest.raises(JobrunError, match=message):
        _all(_objects(lambda: rows, names))


def test_rows_that_do_not_stack_are_reported():
    with pytest.raises(JobrunError, match="different shapes"):
        _all(_objects(lambda: [np.zeros(2), np.zeros(3)], ("a",), batch=2))


def test_more_rows_than_asked_for_are_refused():
    class Generous:
        def read(self, count):
            return np.zeros(count + 1)

    with pytest.raises(JobrunError, match="not 3 rows or fewer"):
        _all(_objects(Generous, ("a",), batch=3))


def test_errors_of_user_code_are_reported_as_such():
    class Broken:
        def __iter__(self):
            yield 1
            raise ValueError("no more")

    with pytest.raises(JobrunError, match="'lib:Rows' raised ValueError: no more") as caught:
        _all(_objects(Broken, ("a",)))
    assert caught.value.faults[0].code == "E206"
