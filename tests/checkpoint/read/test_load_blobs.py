from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import inspect_state, read_state
from jobrun.checkpoint.hdf5.dataset_names import blob_names, is_part_of
from jobrun.checkpoint.read.load import load_blobs
from jobrun.checkpoint.read.verified_file import open_state
from jobrun.checkpoint.write.writer import write_state
from jobrun.core.errors import CheckpointError
from jobrun.values.compare import same_bits
from jobrun.values.object_state import ObjectState

VALUES = {
    "w": np.arange(3.0),
    "readers/x": np.zeros((1, 2), np.int64),
    "net": ObjectState("lib.Net", {"0.weight": np.ones((2, 2), np.float32), "step": 3}),
    "conf": {"rates": [0.1, 0.2], "name": "a", "none": None, "raw": b"\0\1", "in": {"x": (1,)}},
    "empty": [],
}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "local.h5"
    write_state(str(file), node="local", epoch=1, run_id="run", values=VALUES)
    return str(file)


def read(path, names, **options):
    return read_state(path, node="local", epoch=1, run_id="run", digest="", names=names, **options)


def test_containers_and_states_round_trip(path):
    loaded = read(path, VALUES)

    assert list(loaded) == list(VALUES)
    assert same_bits(loaded["conf"], VALUES["conf"])
    assert loaded["net"].class_name == "lib.Net"
    assert same_bits(loaded["net"].tree, VALUES["net"].tree)
    assert loaded["empty"] == []
    assert same_bits(loaded["w"], VALUES["w"])


def test_in_the_file_they_are_groups(path):
    with h5py.File(path) as file:
        assert file["/blobs/net/0.weight"][()].tolist() == [[1, 1], [1, 1]]
        assert file["/blobs/conf/rates"][()].tolist() == [0.1, 0.2]
        assert file["/blobs/conf/in/x/0"][()] == 1
        assert file["/blobs/conf/name"].attrs["kind"] == b"text"
        assert "readers%2Fx" in file["/blobs"]


def test_people_see_the_parts_by_their_places(path):
    names = [blob.name for blob in inspect_state(path).blobs]

    assert {"net/0.weight", "net/:structure", "readers/x", "conf/in/x/0"} <= set(names)
    assert set(blob_names(names)) == set(VALUES)
    assert is_part_of("net/0.weight", "net")
    assert is_part_of("conf/in/x/0", "conf/in")
    assert not is_part_of("network", "net")


@pytest.mark.parametrize("key", ["a", "x"])
def test_container_and_blob_with_a_common_prefix_are_distinct(tmp_path, key):
    values = {"readers": {key: np.arange(3.0)}, "readers/x": np.ones((1, 2)), "50%": 1}
    path = str(tmp_path / "local.h5")
    write_state(path, node="local", epoch=1, run_id="run", values=values)

    back = read(path, values)
    facts = inspect_state(path)

    assert list(back) == list(values)
    assert all(same_bits(back[name], value) for name, value in values.items())
    assert set(facts.names) == set(values)
    shown = {blob.name: blob.shape for blob in facts.blobs}
    assert shown[f"readers/{key}"] == (3,)
    assert shown["readers/x" if key == "a" else "readers%2Fx"] == (1, 2)


def test_missing_blob_is_an_error_unless_partial(path):
    with pytest.raises(CheckpointError, match="netz"):
        read(path, ["netz"])
    assert set(read(path, ["netz", "net"], partial=True)) == {"net"}


def test_parts_without_a_matching_structure_are_refused(tmp_path):
    # Parts that nobody took apart.
    values = {"net\0/:structure": '{"tree": {"dict": [["a", "value"]]}}', "net\0/b": 1}
    path = str(tmp_path / "odd.h5")
    write_state(path, node="local", epoch=1, run_id="run", values=values)

    with open_state(path) as file, pytest.raises(CheckpointError) as caught:
        load_blobs(file, ["net"])

    assert caught.value.faults[0].code == "E306"
    assert "'net'" in caught.value.faults[0].message


def test_equal_values_give_equal_bytes_and_another_epoch_has_the_same_layout(path, tmp_path):
    again = tmp_path / "again.h5"
    write_state(str(again), node="local", epoch=1, run_id="run", values=VALUES)

    assert again.read_bytes() == Path(path).read_bytes()


def test_very_many_groups_and_parts_are_found_again(tmp_path):
    tree = {"state": {n: {"step": n, "exp_avg": np.full(3, n)} for n in range(700)}}
    path = str(tmp_path / "many.h5")
    write_state(path, node="local", epoch=1, run_id="run", values={"opt": tree})

    assert same_bits(read(path, ["opt"])["opt"], tree)
    with h5py.File(path) as file:
        assert len(file["/blobs/opt/state"]) == 700
        assert file["/blobs/opt/state/699/exp_avg"][0] == 699
