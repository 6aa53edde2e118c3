from __future__ import annotations

import pytest

from jobrun.compile.types.records_and_queues import infer_record
from jobrun.graph.expressions import Name, Text
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Reader,
    ZipSource,
)
from jobrun.ops.abstract_values import UNKNOWN, Known

_FILE = FileSource("npz", Text(("a.npz",)))


def _headers(path, member):
    return {("a.npz", "data"): ("<f4", (100, 8, 8)), ("a.npz", "target"): ("<i8", (100,))}.get(
        (path, member)
    )


@pytest.mark.parametrize(
    ("batch", "drop_last", "rows"), [(0, False, ()), (16, False, (None,)), (16, True, (16,))]
)
def test_the_header_of_a_file_tells_what_a_record_is(batch, drop_last, rows):
    fields = (Field("x", "data"), Field("y", "target"))
    reader = Reader("r", _FILE, fields, batch, drop_last)

    known = infer_record(reader, {}, _headers)

    assert known == {"x": Known("float32", (*rows, 8, 8)), "y": Known("int64", rows)}


def test_what_a_header_does_not_tell_is_unknown():
    reader = Reader("r", _FILE, (Field("x", "nope"),))

    assert infer_record(reader, {}, _headers)["x"].shape is None


def test_rows_of_blobs_are_known_as_the_blobs_are():
    reader = Reader("r", BlobSource((("x", Name("X")),)), (Field("x", "x"),), 4)

    known = infer_record(reader, {"X": Known("float64", (10, 3))}, _headers)

    assert known == {"x": Known("float64", (None, 3))}


def test_a_counter_gives_ints_and_a_class_what_it_likes():
    counter = Reader("c", CounterSource(), (Field("i", ""),))
    from_class = Reader("o", CallSource("lib:R"), (Field("x", "x"),))
    both = Reader("b", ZipSource((counter, from_class)), (Field("j", "i"), Field("x", "x")))

    known = infer_record(both, {}, _headers)

    assert known["j"] == Known("int64", (), weak=True)
    assert known["x"].dtype == UNKNOWN.dtype


@pytest.mark.parametrize("batch", [0, 16])
def test_records_of_a_ragged_field_are_any_number_of_values(batch):
    fields = (Field("x", "data", "target"), Field("n", "target"))
    reader = Reader("r", _FILE, fields, batch, drop_last=True)

    known = infer_record(reader, {}, _headers)

    assert known["x"] == Known("float32", (None, 8, 8))
    assert known["n"] == Known("int64", (16,) if batch else ())


def test_a_ragged_field_of_blobs_has_the_dtype_of_its_values():
    source = BlobSource((("v", Name("V")), ("n", Name("N"))))
    names = {"V": Known("float64", (10, 3)), "N": Known("int64", (4,))}

    known = infer_record(Reader("r", source, (Field("x", "v", "n"),)), names, _headers)

    assert known == {"x": Known("float64", (None, 3))}
