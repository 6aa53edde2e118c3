"""Two checkpoints on disk, blob by blob."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.hdf5 import write_state
from jobrun.core.errors import CheckpointError
from jobrun.tools.comparing.checkpoints import stored_apart
from jobrun.tools.stored import find_stored


def stored(folder, name, **values):
    path = folder / f"{name}.h5"
    write_state(str(path), node="local", epoch=1, run_id="r", values=values)
    return find_stored(str(path), Path("runs"))


def found(first, second):
    return {blob.name: blob for blob in stored_apart(first, second)}


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
    count = sum(blob.apart.equal for blob in stored_apart(first, second))
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
        found(first, find_stored(str(path), Path("runs")))
