from __future__ import annotations

import random
import sys
from types import ModuleType

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.testing.adapters import through_checkpoint
from jobrun.values.blob_kinds import check_storable, describe, require_storable
from jobrun.values.change_detection import fingerprint
from jobrun.values.copies import boundary_form, detach
from jobrun.values.object_state import ObjectState, class_name, is_object, put_state, take_state


class Sampler:
    def __init__(self):
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class OneWay:
    def state_dict(self):
        return {}


def test_what_has_both_methods_is_an_object():
    assert is_object(Sampler())
    assert not is_object(OneWay())
    assert not is_object(Sampler)
    assert not any(map(is_object, (1, "a", {}, np.zeros(2), lambda: 0, None)))


def test_its_state_goes_out_and_in():
    sampler, other = Sampler(), Sampler()
    sampler.at = 5

    put_state(other, take_state(sampler))

    assert other.at == 5
    assert take_state(sampler) == ObjectState(class_name(sampler), {"at": 5})


@pytest.mark.parametrize(
    "make",
    [
        lambda: random.Random(1),
        lambda: np.random.RandomState(1),
        lambda: np.random.default_rng(1),
        lambda: np.random.Generator(np.random.MT19937(1)),
    ],
)
def test_generators_are_objects(make):
    first, other = make(), make()
    first.random()
    put_state(other, take_state(first))

    assert first.random() == other.random()


@pytest.mark.parametrize("bits", ["PCG64", "MT19937", "Philox"])
def test_a_generator_keeps_how_many_children_it_has_spawned(bits, tmp_path):
    def make():
        return np.random.Generator(getattr(np.random, bits)([7, 8]))

    single = make()
    single.spawn(2)
    loaded = through_checkpoint(single, make, tmp_path / "state.h5")

    assert loaded.spawn(1)[0].random(3).tolist() == single.spawn(1)[0].random(3).tolist()
    assert loaded.random() == single.random()


def test_a_blob_can_hold_one_as_it_is():
    sampler = Sampler()

    assert check_storable(sampler, "x") is None
    assert require_storable(sampler, "x") is sampler
    assert boundary_form(sampler, "x") is sampler
    assert describe(sampler).endswith("Sampler")


def test_there_is_no_copy_of_one():
    with pytest.raises(TaskFailedError) as caught:
        detach(Sampler(), "model")

    (fault,) = caught.value.faults
    assert fault.code == "E240"
    assert "'model'" in fault.message
    assert "inout" in fault.mend


def test_a_lambda_and_a_half_object_are_refused_with_the_mend():
    for value in (lambda: 0, OneWay()):
        fault = check_storable(value, "model")
        assert fault is not None
        assert fault.code == "E202"
        assert "'model'" in fault.message
    assert "state_dict() and load_state_dict()" in check_storable(OneWay(), "model").mend


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (
            {"names": ["x", "y"], "formats": ["<i2", "<f4"], "offsets": [1, 8], "itemsize": 16},
            [1, 2, 8, 9, 10, 11],
        ),
        (np.dtype([("x", [("u", "i1"), ("v", "f8")])], align=True), [0, *range(8, 16)]),
        (np.longdouble, range(10)),
        (np.clongdouble, [*range(10), *range(16, 26)]),
        (np.dtype(np.longdouble).newbyteorder(), range(6, 16)),
    ],
    ids=str,
)
def test_padding_of_arrays_is_no_part_of_a_fingerprint(dtype, number):
    """It was whatever memory held, so that each look at a turned array was a change."""

    class Holder:
        def __init__(self, padding):
            self.bytes = np.full((2, 3, np.dtype(dtype).itemsize), padding, np.uint8)
            self.bytes[..., list(number)] = 0

        def state_dict(self):
            return {"value": self.bytes.view(dtype)[..., 0].T}

        def load_state_dict(self, state):
            raise NotImplementedError

    holder, other = Holder(0), Holder(255)

    assert fingerprint(holder) == fingerprint(other)
    other.bytes[1, 2, list(number)[-1]] = 1
    assert fingerprint(holder) != fingerprint(other)


def test_a_module_of_random_generators_that_is_being_imported_is_none_yet(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy.random", ModuleType("numpy.random"))

    assert not is_object([1])
