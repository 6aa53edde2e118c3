from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import JobrunError
from jobrun.graph.expressions import Const, Name, Text
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Reader,
    ZipSource,
)
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.records.data_sources import OpenSource
from jobrun.runtime.records.reader_position import Position
from tests.support.step_bench import Bench


def _data(source, *fields, changed="", **keys):
    reader = Reader("r", source, fields or (Field("x", "x"),), **keys)
    return OpenSource(reader, BlockNames(changed=frozenset(changed.split())))


def _records(data, frame, share=(0, 1)):
    feed = data.iterator_factory(frame, share)(Position(1), 1 << 62)
    found = []
    while (given := feed.next()) is not None:
        found.append(given.values[0])
    return found


def test_a_file_is_looked_for_in_the_folder_of_its_spec(tmp_path):
    (tmp_path / "inner").mkdir()
    np.save(tmp_path / "inner/a.npy", np.arange(4))
    data = _data(FileSource("npy", Text(("a.npy",)), "inner"), Field("x", ""))
    with Bench(str(tmp_path)) as bench:
        assert data.open(bench.frame)
        assert not data.open(bench.frame)
        assert data.length == 4
        assert _records(data, bench.frame, (1, 2)) == [2, 3]


def test_blobs_are_taken_as_they_are_when_a_run_begins():
    source = BlobSource((("x", Name("X")), ("y", Const(3))))
    with Bench(X=np.arange(3)) as bench:
        data = _data(source)
        data.open(bench.frame)
        assert _records(data, bench.frame) == [0, 1, 2]
        bench.blobs["X"] = np.arange(5)
        assert data.open(bench.frame)
        assert data.length == 5


def test_blobs_of_different_lengths_are_told():
    source = BlobSource((("x", Name("X")), ("y", Name("Y"))))
    with Bench(X=np.arange(3), Y=np.arange(4)) as bench, pytest.raises(JobrunError) as caught:
        _data(source, Field("x", "x"), Field("y", "y")).open(bench.frame)
    assert caught.value.faults[0].code == "E288"


def test_how_long_a_counter_is_is_known_if_it_ends():
    with Bench() as bench:
        ends, endless = _data(CounterSource(0, 5)), _data(CounterSource())
        ends.open(bench.frame)
        endless.open(bench.frame)

    assert (ends.length, endless.length) == (5, -1)


def test_a_class_gets_its_arguments_and_what_its_signature_names(tmp_path):
    (tmp_path / "rows_for_sources.py").write_text(
        "def rows(n, node):\n    return iter([(n, node)] * 2)\n"
    )
    source = CallSource("rows_for_sources:rows", (("n", Const(5)),))
    data = _data(source, Field("a", "a"), Field("b", "b"))
    with Bench(str(tmp_path)) as bench:
        assert not data.open(bench.frame)
        feed = data.iterator_factory(bench.frame, (0, 1))(Position(1), 9)
        assert feed.next().values == (5, "local")


def test_each_share_must_have_a_row():
    with Bench() as bench:
        data = _data(CounterSource(0, 2))
        data.open(bench.frame)
        with pytest.raises(JobrunError, match="2 rows for 3 shares"):
            data.iterator_factory(bench.frame, (0, 3))


def test_readers_side_by_side_have_no_data_of_their_own():
    with Bench() as bench, pytest.raises(TypeError):
        _data(ZipSource(())).open(bench.frame)
