from __future__ import annotations

import pytest

from jobrun.compile.record_shapes import record_shapes
from jobrun.graph.data import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Reader,
    ZipSource,
)
from jobrun.graph.expr import Name, Text
from jobrun.ops.known import UNKNOWN, Known

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

    known = record_shapes(reader, {}, _headers)

    assert known == {"x": Known("float32", (*rows, 8, 8)), "y": Known("int64", rows)}


def test_what_a_header_does_not_tell_is_unknown():
    reader = Reader("r", _FILE, (Field("x", "nope"),))

    assert record_shapes(reader, {}, _headers)["x"].shape is None


def test_rows_of_blobs_are_known_as_the_blobs_are():
    reader = Reader("r", BlobSource((("x", Name("X")),)), (Field("x", "x"),), 4)

    known = record_shapes(reader, {"X": Known("float64", (10, 3))}, _headers)

    assert known == {"x": Known("float64", (None, 3))}


def test_a_counter_gives_ints_and_a_class_what_it_likes():
    counter = Reader("c", CounterSource(), (Field("i", ""),))
    own = Reader("o", CallSource("lib:R"), (Field("x", "x"),))
    both = Reader("b", ZipSource((counter, own)), (Field("j", "i"), Field("x", "x")))

    known = record_shapes(both, {}, _headers)

    assert known["j"] == Known("int64", (), weak=True)
    assert known["x"].dtype == UNKNOWN.dtype
