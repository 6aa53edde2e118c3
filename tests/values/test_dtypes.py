"""Dtypes that == does not tell apart, and those that cannot be kept whole."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.hdf5.dtypes import dtype_text, parse_dtype
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.values.blob_kinds import check_storable, explain_unsavable_dtype
from jobrun.values.kinds.array import same_dtype
from tests.support.tables import each_case

PLAIN = np.dtype([("a", "i1"), ("b", "f8")])
ALIGNED = np.dtype([("a", "i1"), ("b", "f8")], align=True)
WIDE = np.dtype({"names": ["a"], "formats": ["i2"], "offsets": [4], "itemsize": 24})
DTYPES = {
    "plain": PLAIN,
    "record": np.dtype((np.record, PLAIN)),
    "aligned": ALIGNED,
    "aligned record": np.dtype((np.record, ALIGNED)),
    "titles": np.dtype([(("the title", "a"), "f8"), ("b", "i4")]),
    "gaps": WIDE,
    "metadata": np.dtype("f8", metadata={"unit": "m"}),
    "metadata of a record": np.dtype(PLAIN, metadata={"n": 1}),
    "metadata of a field": np.dtype([("a", np.dtype("f8", metadata={"unit": "s"}))]),
    "record in a record": np.dtype([("r", np.dtype((np.record, PLAIN)), (2,)), ("w", WIDE)]),
    "metadata of text": np.dtype("S3", metadata={"h5py_encoding": "utf-8"}),
}


@each_case("name", DTYPES)
def test_a_dtype_is_the_same_as_itself_alone(name):
    same = [other for other in DTYPES if same_dtype(DTYPES[name], DTYPES[other])]

    assert same == [name]
    assert same_dtype(DTYPES[name], parse_dtype(dtype_text(DTYPES[name])))


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_and_scalars_come_back_with_their_whole_dtype(tmp_path, name):
    array = np.zeros((2, 3), DTYPES[name], order="F")
    path = str(tmp_path / "n.h5")
    writer = NodeWriter("n")
    # A layout that is like it, but for what == does not tell.
    for epoch, values in enumerate(
        ({"a": np.zeros((2, 3), PLAIN)}, {"a": array, "s": array[0, 0]})
    ):
        writer.write(path, epoch=epoch, run_id="r", values=values)
        back = read_state(path, node="n", epoch=epoch, run_id="r", digest="", names=values)
        assert same_dtype(back["a"].dtype, values["a"].dtype)
        (tmp_path / "n.h5").unlink()
    assert type(back["s"]) is type(array[0, 0])


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (np.dtype("f8", metadata={"hook": print}), "the metadata"),
        (np.dtype([(((1, 2), "a"), "f8")]), "which is not a text"),
        (np.dtype([("r", np.dtype([(((1, 2), "a"), "f8")]))]), "which is not a text"),
    ],
)
def test_what_no_checkpoint_can_keep_is_refused_where_it_is_made(dtype, words):
    fault = check_storable(np.zeros(2, dtype), "x")

    assert words in explain_unsavable_dtype(dtype)
    assert fault is not None
    assert fault.code == "E202"
    assert words in fault.message
    assert "astype" in fault.mend
    inside = check_storable({"a": [np.zeros(2, dtype)]}, "x")
    assert inside is not None
    assert "'x/a/0'" in inside.message


def test_thirty_three_dimensions_are_refused_where_they_are_made():
    fault = check_storable(np.zeros((1,) * 33), "x")

    assert fault is not None
    assert "33 dimensions" in fault.message
    assert check_storable(np.zeros((1,) * 32), "x") is None
