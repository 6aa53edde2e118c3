from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import write_state
from jobrun.core.errors import CheckpointError
from jobrun.tools.diff.checkpoint_diff import (
    BlobDifference,
    ValueDifference,
    align_columns,
    compare_states,
    compare_stored,
    compare_values,
    render_difference,
    render_differences,
)
from jobrun.tools.inspection import inspect
from jobrun.tools.lazy_blobs import find_stored_epoch
from tests.support.sample_runs import make_run


def test_each_blob_of_either_is_told(tmp_path):
    first, second = (inspect(f"{make_run(tmp_path).path}@{epoch}", tmp_path) for epoch in (1, 2))

    (blob,) = compare_states(first, second)

    assert (blob.node, blob.name) == ("local", "x")
    assert blob.apart.largest == 2.0


def test_a_blob_that_one_side_lacks_is_told_in_words(tmp_path):
    path = make_run(tmp_path).path
    whole, empty = inspect(str(path), tmp_path), inspect(str(path), tmp_path)
    object.__setattr__(empty, "files", ())

    assert compare_states(whole, empty)[0].apart.words == "Python float | not there"
    assert compare_states(empty, whole)[0].apart.words == "not there | Python float"


def test_a_difference_says_how_many_how_far_and_how_far_in_steps_of_the_type():
    how = compare_values(np.array([1.0, 2.0]), np.array([1.0, np.nextafter(2.0, 3.0)]))

    assert render_difference(how).startswith("1 of 2 differ, max ")
    assert ", 1 ULP, relative norm " in render_difference(how)


def test_a_type_that_differs_is_said_in_words():
    assert "float32" in render_difference(compare_values(np.zeros(2), np.zeros(2, np.float32)))


def test_equal_blobs_are_counted_and_shown_only_when_asked_for():
    blobs = [
        BlobDifference("a", "x", ValueDifference(equal=True)),
        BlobDifference("a", "long", ValueDifference(equal=False, words="1 | 2")),
    ]

    assert render_differences(blobs) == ["  long  1 | 2", "  1 of 2 blobs have the same bits"]
    assert render_differences(blobs, equal_too=True)[0] == "  x     the same bits"


def test_of_several_nodes_the_node_is_named():
    blobs = [
        BlobDifference(node, "x", ValueDifference(equal=False, words="1 | 2")) for node in "ab"
    ]

    assert render_differences(blobs) == ["  a.x  1 | 2", "  b.x  1 | 2"]


def test_columns_line_up():
    assert align_columns([("a", "1"), ("bbb", "2")]) == ["  a    1", "  bbb  2"]


def stored(folder, name, **values):
    path = folder / f"{name}.h5"
    write_state(str(path), node="local", epoch=1, run_id="r", values=values)
    return find_stored_epoch(str(path), Path("runs"))


def found(first, second):
    return {blob.name: blob for blob in compare_stored(first, second)}


def test_each_kind_of_difference_is_told(tmp_path):
    first = stored(tmp_path, "a", same=np.arange(3), w=np.zeros(4), d=np.zeros(2), s=1.0, gone=1)
    second = stored(
        tmp_path, "b", same=np.arange(3), w=np.full(4, 0.5), d=np.zeros(2, "f4"), s=1, new="x"
    )

    by_name = found(first, second)

    assert by_name["same"].apart.equal
    assert (by_name["w"].apart.count, by_name["w"].apart.largest) == (4, 0.5)
    assert "float32" in by_name["d"].apart.words
    assert by_name["s"].apart.words
    assert (by_name["gone"].only_in, by_name["new"].only_in) == ("first", "second")
    assert list(by_name)[-1] == "new"


def test_one_blob_is_in_memory_at_a_time(tmp_path):
    values = {f"b{n}": np.full(250_000, float(n)) for n in range(16)}
    first, second = stored(tmp_path, "a", **values), stored(tmp_path, "b", **values)

    tracemalloc.start()
    count = sum(blob.apart.equal for blob in compare_stored(first, second))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert count == 16
    # 32 MB on each side; a blob has two, and reading and comparing take a few times that.
    assert most < 20_000_000


def test_damage_is_an_error_not_a_difference(tmp_path):
    first = stored(tmp_path, "a", w=np.zeros(100_000))
    stored(tmp_path, "b", w=np.zeros(100_000))
    path = tmp_path / "b.h5"
    data = bytearray(path.read_bytes())
    data[500_000] ^= 1
    path.write_bytes(data)

    with pytest.raises(CheckpointError, match="E303"):
        found(first, find_stored_epoch(str(path), Path("runs")))
