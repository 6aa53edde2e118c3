from __future__ import annotations

import numpy as np

from jobrun.runtime.context.frame import Blobs
from jobrun.session.threads.retry_snapshots import restore_snapshot, take_snapshot
from jobrun.session.threads.session import copy_for_reading
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter
from jobrun.values.object_state import ObjectFacts


def test_values_changed_in_place_are_copied_and_others_shared():
    big, small = np.arange(4.0), np.zeros(2)
    workspaces = {"a": Blobs(big=big, small=small)}

    take_snapshot(workspaces, {"a": {"small"}})

    assert workspaces["a"]["big"] is big
    assert workspaces["a"]["small"] is not small


def test_each_attempt_starts_from_the_same_bits_in_a_value_of_the_same_form():
    first = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    workspaces = {"a": Blobs(x=first, n=Counter(3))}
    snapshot = take_snapshot(workspaces, {"a": {"x", "n"}})
    forms = []
    for _ in range(3):
        x = workspaces["a"]["x"]
        forms.append((x.strides, x.tobytes(), workspaces["a"]["n"].value))
        x[...] = -1
        workspaces["a"]["n"].value = 0
        workspaces["a"]["more"] = 1

        restore_snapshot(snapshot, workspaces)

    assert forms == [(first.strides, first.tobytes(), 3)] * 3
    assert set(workspaces["a"]) == {"x", "n"}


def test_deleted_or_rebound_names_are_restored():
    workspaces = {"a": Blobs(x=1.5, y="text"), "b": Blobs()}
    snapshot = take_snapshot(workspaces, {})
    del workspaces["a"]["x"]
    workspaces["a"]["y"] = 2
    workspaces["b"]["z"] = 3

    restore_snapshot(snapshot, workspaces)

    assert same_bits(workspaces["a"]["x"], 1.5)
    assert workspaces == {"a": {"x": 1.5, "y": "text"}, "b": {}}


class Model:
    def __init__(self):
        self.state = {"w": [1, 2]}

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def test_an_object_stays_the_same_one_and_has_its_state_again():
    model = Model()
    workspaces = {"a": Blobs(model=model)}
    snapshot = take_snapshot(workspaces, {"a": {"model"}})
    for _ in range(2):
        model.state["w"].append(3)

        restore_snapshot(snapshot, workspaces)

        assert workspaces["a"]["model"] is model
        assert model.state == {"w": [1, 2]}


def test_reading_an_object_returns_its_facts():
    facts = copy_for_reading(Model(), "model")

    assert isinstance(facts, ObjectFacts)
    assert facts.class_name.endswith("Model")
    assert copy_for_reading({"a": [1]}, "c") == {"a": [1]}
