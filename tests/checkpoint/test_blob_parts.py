from __future__ import annotations

import numpy as np
import pytest

from jobrun.checkpoint import blob_parts as parts
from jobrun.checkpoint.blob_parts import capture_object, flatten_value, flatten_values, unflatten
from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.hdf5.dataset_names import dataset_path, path_in_blob
from jobrun.cli.run_command import invoke
from jobrun.core.errors import CheckpointError, TaskFailedError
from jobrun.testing.stores import RUN_ID
from jobrun.values.object_state import ObjectState
from tests.support.checkpoints import write


class Broken:
    def __init__(self, state):
        self.state = state

    def state_dict(self):
        if self.state is None:
            raise RuntimeError("no state yet")
        return self.state

    def load_state_dict(self, state):
        self.state = state


def links(parts):
    return {dataset_path(name): value for name, value in parts.items()}


def test_a_part_is_called_as_its_place_in_the_container():
    found = links(flatten_value("net", {"0.weight": 1, "a/b": [None, "t"], "": {".": 2}}))

    assert set(found) == {"net/:structure", "net/0.weight", "net/a%2Fb/1", "net/%/%2E"}
    assert path_in_blob("net/a%2Fb/1", "net") == ("a/b", "1")
    assert path_in_blob("net/%/%2E", "net") == ("", ".")


@pytest.mark.parametrize("name", ["net", "readers/x", "a%b"])
def test_parts_are_joined_to_what_they_were(name):
    value = {"a": [1, None, b"x"], ":structure": {"x": 1.5}}

    assert unflatten(name, links(flatten_value(name, value))) == value


def test_object_is_loaded_as_its_state():
    state = ObjectState("lib.Model", {"w": 1})

    assert unflatten("m", links(flatten_value("m", state))) == state


def test_single_values_are_left_as_they_are():
    values = {"w": np.zeros(2), "n": 1, "t": "text", "s": np.float32(1)}

    assert flatten_values(values) is values
    assert set(map(dataset_path, flatten_values({**values, "c": ()}))) == {
        "w",
        "n",
        "t",
        "s",
        "c/:structure",
    }


@pytest.mark.parametrize(
    ("state", "part"),
    [
        ({"f": {"g": lambda: 0}}, "'net/f/g'"),
        ({"s": object()}, "class object"),
        (None, "RuntimeError: no state yet"),
    ],
)
def test_unsavable_value_is_reported_by_name_and_path(state, part):
    with pytest.raises(TaskFailedError) as caught:
        flatten_values({"net": capture_object("net", Broken(state))})

    (fault,) = caught.value.faults
    assert fault.code == "E241"
    assert "'net'" in fault.message
    assert part in fault.message
    assert "Broken" in fault.message


@pytest.mark.parametrize("form", ["{", "[]", '{"tree":{"dict":[["a","value"]]}}', "{}"])
def test_foreign_structure_is_refused(form):
    with pytest.raises(ValueError, match=r"structure|line 1|Expecting"):
        unflatten("net", {"net/:structure": form})


def test_a_structure_of_5000_nested_lists_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "exact_json", lambda _: "[" * 5000 + "]" * 5000)
    stored = write(tmp_path, {"nested": [1, [2.0]]})
    monkeypatch.undo()

    with pytest.raises(CheckpointError, match=r"n\.h5.*'nested'.*deeper than 800 levels"):
        read_state(
            str(tmp_path / "n.h5"),
            node="n",
            epoch=3,
            run_id=RUN_ID,
            digest=stored.digest,
            names=["nested"],
        )
    assert invoke(["inspect-checkpoint", str(tmp_path / "n.h5"), "--values"]) == 0
