from __future__ import annotations

from jobrun.graph.readers import (
    POSITION,
    CounterSource,
    Field,
    Queue,
    Reader,
    ReadQueue,
    ReadRecords,
    ZipSource,
    readers_in,
    record_fields,
    record_path,
)


def _reader(name):
    return Reader(name, CounterSource(), (Field(name, ""),))


def test_a_position_is_a_state_blob_that_no_expression_can_name():
    assert _reader("train").position == "readers/train"


def test_the_columns_of_a_position_differ():
    assert len(set(POSITION)) == len(POSITION)
    assert POSITION.index("finished") == 3


def test_zipped_readers_have_positions_too():
    first, second = _reader("one"), _reader("two")
    both = Reader("both", ZipSource((first, second)))

    assert readers_in(first) == (first,)
    assert readers_in(both) == (both, first, second)


def test_a_record_is_a_block_of_its_task():
    assert record_path("epoch/t") == "epoch/t/record"


def test_a_record_has_the_fields_of_its_reader_or_queue():
    assert record_fields(ReadRecords(_reader("train"))) == ("train",)
    assert record_fields(ReadQueue(Queue("q"), ("a", "b"))) == ("a", "b")
    assert record_fields(None) == ()
