"""Files whose digests are all right, and which jobrun has not made."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import inspect_state, read_state
from jobrun.checkpoint.hdf5.index_parser import index_span
from jobrun.checkpoint.hdf5.metadata_template import BLOBS_TYPE
from jobrun.checkpoint.read.verified_file import open_state
from jobrun.core.errors import CheckpointError
from jobrun.testing.stores import RUN_ID
from tests.support.checkpoints import resealed, write
from tests.support.limits import no_larger_than

FORGERIES = {}


def forgery(words):
    def register(function):
        FORGERIES[function.__name__] = (function, words)
        return function

    return register


def table(data, fields):
    """The table of blobs, as an array that changes the file."""
    _, end = index_span_of(fields)
    count = fields["parts"]["blobs"]
    raw = np.frombuffer(data, np.uint8)[end - count * BLOBS_TYPE.itemsize : end]
    return raw.view(BLOBS_TYPE)


def index_span_of(fields):
    from jobrun.checkpoint.hdf5.user_block import Parts  # noqa: PLC0415

    return index_span(Parts(**fields["parts"]))


def retype(data, fields, old, new):
    """Replace a part of the text of the index by another one of the same length."""
    begin = fields["parts"]["index"]
    end = begin + fields["parts"]["layout_bytes"]
    text = bytes(data[begin:end])
    assert len(old) == len(new)
    assert old in text
    data[begin:end] = text.replace(old, new)


@forgery("not inside")
def a_blob_behind_the_end(data, fields):
    table(data, fields)["offset"][1] = 1 << 40


@forgery("not inside")
def a_blob_whose_end_wraps_around(data, fields):
    table(data, fields)["offset"][1] = (1 << 64) - 8


@forgery("not inside")
def a_blob_in_the_header(data, fields):
    table(data, fields)["offset"][1] = 0


@forgery("overlap")
def two_blobs_in_one_place(data, fields):
    rows = table(data, fields)
    rows["offset"][0] = rows["offset"][1]


@forgery("size of its dtype")
def another_size(data, fields):
    table(data, fields)["size"][1] = 8


@forgery("type that is not there")
def another_type(data, fields):
    table(data, fields)["type"][1] = 77


@forgery("size of its dtype")
def endless_memory(data, fields):
    retype(data, fields, b"[6]", b"9e9"[:3])


@forgery("size of its dtype")
def a_larger_shape(data, fields):
    retype(data, fields, b"[6]", b"[9]")


@forgery("no dtype")
def objects(data, fields):
    retype(data, fields, b"<f8", b"|O8")


@forgery("no kind")
def another_kind(data, fields):
    retype(data, fields, b"array", b"pickl")


@forgery("cannot be read")
def no_json(data, fields):
    retype(data, fields, b"{", b"[")


@forgery("tail does not fit")
def another_tail(data, fields):
    fields["parts"]["blocks"] += 1


@forgery("index does not fit")
def an_index_behind_the_end(data, fields):
    fields["parts"]["index"] = 1 << 40


@forgery("index does not fit")
def endless_names(data, fields):
    fields["parts"]["blobs"] = 1 << 60


@forgery("do not fit together")
def a_name_less(data, fields):
    begin = fields["parts"]["index"] + -(-fields["parts"]["layout_bytes"] // 8) * 8
    assert bytes(data[begin : begin + 3]) == b"k\nw"
    data[begin + 1] = ord("x")


@forgery("epoch is 3")
def another_epoch_in_the_header(data, fields):
    fields["epoch"] = 4


FORGERIES["endless_memory"] = (FORGERIES["endless_memory"][0], "shape|cannot be read")


@pytest.mark.parametrize("name", FORGERIES)
def test_rows_55_to_58_what_jobrun_never_writes_is_refused(tmp_path, name):
    change, words = FORGERIES[name]
    write(tmp_path)
    path = tmp_path / "n.h5"
    resealed(path, change)

    with pytest.raises(CheckpointError, match=words) as caught, no_larger_than(1 << 28):
        inspect_state(str(path))

    assert [fault.code for fault in caught.value.faults] == ["E306"]


def test_a_forged_file_that_changes_nothing_is_read(tmp_path):
    # The forgeries fail for what they change, not for how they are made.
    stored = write(tmp_path)
    resealed(tmp_path / "n.h5", lambda *_: None)

    identity = {"node": "n", "epoch": 3, "run_id": RUN_ID, "digest": stored.digest}
    assert read_state(str(tmp_path / "n.h5"), names=("k",), **identity) == {"k": 4}


def test_index_describes_all_blobs(tmp_path):
    write(tmp_path, {"w": np.zeros((2, 3), np.float32), "a/b": "text", "e": np.zeros(0)})

    with open_state(str(tmp_path / "n.h5")) as file:
        index = file.index
        kinds = {name: index.type_of(row) for name, row in index.rows.items()}

    assert set(index.names) == {"w", "a/b", "e"}
    assert (kinds["w"].kind, kinds["w"].dtype, kinds["w"].shape) == ("array", "<f4", (2, 3))
    assert kinds["a/b"].kind == "text"
    assert json.loads(json.dumps(index.names)) == index.names
