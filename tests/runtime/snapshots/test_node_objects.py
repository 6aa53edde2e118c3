from __future__ import annotations

import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import inspect_state
from jobrun.checkpoint.hdf5.dataset_names import display_name
from jobrun.core.errors import CheckpointError, TaskFailedError
from jobrun.graph.steps import SaveState
from jobrun.runtime.snapshots.node_objects import (
    collect_state,
    copy_object_state,
    load_object_state,
    restore_object_state,
)
from jobrun.runtime.snapshots.snapshot import Snapshots
from jobrun.values.object_state import ObjectState


class Model:
    """As a module of PyTorch: what it takes in is copied into what it has."""

    def __init__(self, **parts):
        self.parts = {name: np.array(value, float) for name, value in parts.items()}

    def state_dict(self):
        return self.parts

    def load_state_dict(self, state):
        for name, value in state.items():
            self.parts[name][...] = value

    def named_parameters(self):
        return self.parts.items()


class Anything:
    def __init__(self, state=None, fails=False, rounds=False):
        self.state = state or {}
        self.fails = fails
        self.rounds = rounds

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = {n: round(v, 1) if self.rounds else v for n, v in state.items()}
        if self.fails:
            raise KeyError("momentum")


def test_state_blobs_and_the_states_of_objects_are_held():
    model = Model(w=[1, 2])
    values, parts = collect_state(("n",), ("model", "X"), {"n": 1, "model": model, "X": np.ones(2)})

    assert {display_name(name) for name in values} == {"n", "model/:structure", "model/w"}
    assert {display_name(name) for name in parts} == {"model/:structure", "model/w"}
    assert next(v for n, v in values.items() if display_name(n) == "model/w") is model.parts["w"]


def test_without_containers_and_objects_nothing_has_parts():
    values, parts = collect_state(("n", "w"), ("X",), {"n": 1, "w": np.ones(2), "X": 3})

    assert list(values) == ["n", "w"]
    assert parts == frozenset()


def test_an_object_that_nothing_makes_anew_is_refused():
    with pytest.raises(TaskFailedError) as caught:
        collect_state(("model",), (), {"model": Model()})

    (fault,) = caught.value.faults
    assert fault.code == "E242"
    assert "rebuild: true" in fault.mend


def test_a_stored_state_goes_into_the_object_that_is_there():
    model = Model(w=[0, 0])

    load_object_state("model", model, ObjectState("x", {"w": np.array([3.0, 4.0])}))

    assert model.parts["w"].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("stored", "part"),
    [
        ({"w": np.zeros(3)}, "'w' is float64 3 in the checkpoint and float64 2 here"),
        ({"w": np.zeros(2, np.float32)}, "'w' is float32 2 in the checkpoint"),
        ({"w": np.zeros(2), "b": np.zeros(1)}, "'b' is in the checkpoint only"),
        ({}, "'w' is not in the checkpoint"),
    ],
)
def test_a_model_of_another_form_is_told_and_untouched(stored, part):
    model = Model(w=[1, 2])

    with pytest.raises(CheckpointError) as caught:
        load_object_state("model", model, ObjectState("x", stored))

    (fault,) = caught.value.faults
    assert fault.code == "E325"
    assert "'model'" in fault.message
    assert part in fault.message
    assert model.parts["w"].tolist() == [1, 2]


def test_an_object_that_refuses_has_its_own_state_again():
    thing = Anything({"a": 1.0}, fails=True)

    with pytest.raises(CheckpointError, match=r"KeyError: 'momentum'"):
        load_object_state("thing", thing, ObjectState("x", {"a": 2.0}))

    assert thing.state == {"a": 1.0}


def test_an_object_that_makes_something_else_of_it_is_found():
    with pytest.raises(CheckpointError, match=r"something else of it: 'a'"):
        load_object_state("thing", Anything(rounds=True), ObjectState("x", {"a": 0.123}))


def test_what_is_no_object_any_more_takes_nothing_in():
    with pytest.raises(CheckpointError, match="no object"):
        load_object_state("model", np.zeros(2), ObjectState("x", {}))


def test_a_kept_state_is_given_back_any_number_of_times():
    thing = Anything({"a": [1, 2]})
    kept = copy_object_state("thing", thing)

    for _ in range(2):
        thing.state["a"].append(3)
        restore_object_state(thing, kept)
        assert thing.state == {"a": [1, 2]}


def test_a_save_has_the_state_of_its_moment_whatever_the_object_does_next(tmp_path):
    model, blobs = Model(w=[1, 2]), {"c": {"n": np.zeros(2)}}
    blobs["model"] = model
    savings = Snapshots()
    step = SaveState("n.h5", ("c",), "run", "checkpoint/save", objects=("model",))
    ticket = savings.begin(step, "n", 4, blobs)
    # Nobody says that anything is changed.
    savings.protect([ticket], ({},), {})
    savings.gates({})
    model.parts["w"] += 10
    blobs["c"]["n"] += 10

    savings.persist(ticket, str(tmp_path))

    found = {one.name: one.value for one in inspect_state(str(tmp_path / "n.h5")).blobs}
    assert found["model/w"].tolist() == [1, 2]
    assert found["c/n"].tolist() == [0, 0]
    savings.close()
