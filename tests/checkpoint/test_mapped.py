from __future__ import annotations

import numpy as np
import pytest

from jobrun.blobs.values import same_bits
from jobrun.checkpoint.mapped import open_mapped
from jobrun.checkpoint.writer import NodeWriter
from jobrun.core.errors import CheckpointError
from tests.support.checkpoints import RUN_ID, VALUES, write


def test_every_value_is_there(tmp_path):
    write(tmp_path, VALUES)

    with open_mapped(str(tmp_path / "n.h5")) as state:
        assert set(state) == set(VALUES)
        assert len(state) == len(VALUES)
        assert all(same_bits(state[name], VALUES[name]) for name in VALUES)
        with pytest.raises(KeyError):
            state["none"]


def test_an_array_is_a_view_of_the_file(tmp_path):
    write(tmp_path, {"w": np.arange(100_000.0)})

    with open_mapped(str(tmp_path / "n.h5")) as state:
        first, second = state["w"], state["w"]

    assert np.shares_memory(first, second)
    assert not first.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_compressed_blobs_are_read(tmp_path):
    values = {"w": np.arange(100_000)}
    NodeWriter("n", (("*", "deflate"),)).write(
        str(tmp_path / "n.h5"), epoch=1, run_id=RUN_ID, values=values
    )

    with open_mapped(str(tmp_path / "n.h5")) as state:
        assert same_bits(state["w"], values["w"])


def test_damage_is_told_when_the_blob_is_asked_for(tmp_path):
    write(tmp_path, {"a": np.zeros(100_000), "b": np.zeros(100_000)})
    path = tmp_path / "n.h5"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 300_000)
        file.write(b"x")

    with open_mapped(str(path)) as state:
        assert state["a"][0] == 0
        with pytest.raises(CheckpointError, match="damaged"):
            state["b"]
