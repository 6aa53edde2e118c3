from __future__ import annotations

import numpy as np
import pytest

from jobrun.blobs.objects import ObjectState
from jobrun.checkpoint.names import link, path_of
from jobrun.checkpoint.parts import captured, differing, joined, parts_of, taken_apart
from jobrun.core.errors import TaskFailedError


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
    return {link(name): value for name, value in parts.items()}


def test_a_part_is_called_as_its_place_in_the_container():
    found = links(parts_of("net", {"0.weight": 1, "a/b": [None, "t"], "": {".": 2}}))

    assert set(found) == {"net/:structure", "net/0.weight", "net/a%2Fb/1", "net/%/%2E"}
    assert path_of("net/a%2Fb/1", "net") == ("a/b", "1")
    assert path_of("net/%/%2E", "net") == ("", ".")


@pytest.mark.parametrize("name", ["net", "readers/x", "a%b"])
def test_parts_are_joined_to_what_they_were(name):
    value = {"a": [1, None, b"x"], ":structure": {"x": 1.5}}

    assert joined(name, links(parts_of(name, value))) == value


def test_an_object_comes_back_as_its_state():
    state = ObjectState("lib.Model", {"w": 1})

    assert joined("m", links(parts_of("m", state))) == state


def test_single_values_are_left_as_they_are():
    values = {"w": np.zeros(2), "n": 1, "t": "text", "s": np.float32(1)}

    assert taken_apart(values) is values
    assert set(map(link, taken_apart({**values, "c": ()}))) == {"w", "n", "t", "s", "c/:structure"}


@pytest.mark.parametrize(
    ("state", "part"),
    [
        ({"f": {"g": lambda: 0}}, "'net/f/g'"),
        ({"s": object()}, "class object"),
        (None, "RuntimeError: no state yet"),
    ],
)
def test_what_cannot_be_saved_is_told_by_name_and_place(state, part):
    with pytest.raises(TaskFailedError) as caught:
        taken_apart({"net": captured("net", Broken(state))})

    (fault,) = caught.value.faults
    assert fault.code == "E241"
    assert "'net'" in fault.message
    assert part in fault.message
    assert "Broken" in fault.message


@pytest.mark.parametrize("form", ["{", "[]", '{"tree":{"dict":[["a","value"]]}}', "{}"])
def test_a_structure_of_someone_elses_is_refused(form):
    with pytest.raises(ValueError, match=r"structure|line 1|Expecting"):
        joined("net", {"net/:structure": form})


def test_the_first_difference_of_two_states_is_told():
    one = ObjectState("x", {"a": 1, "b": np.zeros(2)})

    assert differing(one, ObjectState("y", {"b": np.zeros(2), "a": 1})) == ""
    assert "'b'" in differing(one, ObjectState("x", {"a": 1, "b": np.ones(2)}))
    assert "'b' is not there" in differing(one, ObjectState("x", {"a": 1}))
    assert "'c' is there" in differing(one, ObjectState("x", {**one.tree, "c": 1}))
