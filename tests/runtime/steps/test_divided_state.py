from __future__ import annotations

import numpy as np
import pytest

from jobrun.checkpoint.write.writer import write_state
from jobrun.core.errors import CheckpointError
from jobrun.graph.steps import FilePart, Rows
from jobrun.runtime.steps.checkpoint_files import read_parts
from jobrun.values.compare import same_bits


@pytest.fixture
def parts(tmp_path):
    def write(dtype="<f8"):
        rows = np.arange(20.0).reshape(10, 2).astype(dtype)
        collected = []
        for node, (first, stop) in {"a": (0, 3), "b": (3, 10)}.items():
            path = str(tmp_path / f"{node}-{len(list(tmp_path.iterdir()))}.h5")
            values = {"U": rows[first:stop].copy(), "V": 1.5}
            stored = write_state(path, node=node, epoch=4, run_id="r", values=values)
            collected.append(FilePart(path, node, stored.digest, ()))
        return rows, collected

    return write


def _with(part, *blobs):
    return FilePart(part.file, part.node, part.digest, blobs)


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<i2", "<c16"])
def test_rows_of_two_files_are_put_together_bit_for_bit(parts, dtype):
    rows, (a, b) = parts(dtype)
    chosen = [_with(a, Rows("U", 1, 3)), _with(b, Rows("U", 0, 4))]

    assert same_bits(read_parts(chosen, 4, "r")["U"], rows[1:7])


def test_rows_keep_the_axis_order_of_their_files(tmp_path):
    whole, collected = np.arange(60.0).reshape(10, 6), []
    for node, (first, stop) in {"a": (0, 4), "b": (4, 10)}.items():
        path = str(tmp_path / f"{node}.h5")
        values = {"U": np.asfortranarray(whole[first:stop])}
        stored = write_state(path, node=node, epoch=4, run_id="r", values=values)
        collected.append(FilePart(path, node, stored.digest, (Rows("U", 1, 4),)))

    created = read_parts(collected, 4, "r")["U"]

    assert created.flags.f_contiguous
    assert created.flags.owndata
    assert np.array_equal(created, whole[[1, 2, 3, 5, 6, 7]])


def test_a_share_owns_its_memory_and_can_be_written(parts):
    _, (_, b) = parts()
    created = read_parts([_with(b, Rows("U", 2, 4))], 4, "r")["U"]

    assert created.flags.owndata
    assert created.flags.writeable


def test_a_share_may_have_no_rows(parts):
    rows, (a, _) = parts()

    assert same_bits(read_parts([_with(a, Rows("U", 0, 0))], 4, "r")["U"], rows[:0])


def test_a_whole_value_is_read_as_it_was_written(parts):
    _, (a, _) = parts()
    value = read_parts([_with(a, Rows("V"))], 4, "r")["V"]

    assert type(value) is float
    assert value == 1.5


def test_a_file_of_another_epoch_is_refused(parts):
    _, (a, _) = parts()
    with pytest.raises(CheckpointError) as caught:
        read_parts([_with(a, Rows("V"))], 5, "r")

    assert caught.value.faults[0].code == "E304"
