"""Classes without an adapter: all of a value are listed at once, and one line admits them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jobrun
from jobrun.core.errors import TaskFailedError
from jobrun.values.adapters import registry
from jobrun.values.blob_kinds import check_storable
from jobrun.values.compare import same_bits
from jobrun.values.container_flattening import flatten
from jobrun.values.copies import boundary_form, detach, take_over
from jobrun.values.left_out_attributes import LeftOutAttributes


class Gene:
    __slots__ = ("weight",)

    def __init__(self, weight):
        self.weight = weight


class Genome:
    def __init__(self):
        self.genes = {0: Gene(0.5), (0, 1): Gene(1.5)}


class Counting:
    """As in neat-python: to ask it for its state changes it."""

    def __init__(self):
        self.numbers = itertools.count(3, 2)

    def __getstate__(self):
        return {"next": next(self.numbers)}

    def __setstate__(self, state):
        self.numbers = itertools.count(state["next"], 2)


class Storage:
    """As in Optuna: it has a lock, which its own methods leave out and make again."""

    def __init__(self):
        self.lock = threading.RLock()
        self.trials = [np.arange(3.0)]

    def __getstate__(self):
        return {name: var for name, var in vars(self).items() if name != "lock"}

    def __setstate__(self, state):
        vars(self).update(state)
        self.lock = threading.RLock()


class Sampler(list[Any]):
    def __init__(self, items, scale):
        super().__init__(items)
        self.scale = scale


class Made:
    def __init__(self, size):
        self.size = size

    def __reduce__(self):
        return make, (self.size,)


def make(size):
    return Made(size)


@dataclass
class Study:
    name: str
    storage: Storage


class Population:
    def __init__(self):
        self.genomes = [Genome(), Genome()]
        self.counting = Counting()
        self.study = Study("s", Storage())
        self.sampler = Sampler([1, Gene(2.0)], 0.5)
        self.made = Made(3)
        self.me = [self]


@pytest.fixture
def admit() -> Iterator[Any]:
    yield registry.admit
    registry.admit(())


def test_all_classes_of_a_value_are_listed_with_the_line_that_admits_them(admit):
    fault = check_storable(Population(), "p")

    assert fault is not None
    assert fault.code == "E202"
    for kind in (Population, Genome, Gene, Counting, Storage, Sampler, Made):
        assert f"{__name__}.{kind.__name__}, at 'p" in fault.message, kind
    assert fault.message.count("Genome, at") == 1
    assert "adapt: [tests]" in fault.mend

    admit(["tests"])
    assert check_storable(Population(), "p") is None


@pytest.mark.parametrize("name", ["tests", __name__, f"{__name__}.Gene"])
def test_a_package_a_module_and_a_class_are_admitted(name, admit):
    assert check_storable([Gene(1.0)], "g") is not None
    admit([name])
    assert detach([Gene(1.0)])[0].weight == 1.0
    admit(["tests.values.adapter"])
    assert check_storable([Gene(1.0)], "g") is not None


def test_what_is_admitted_is_kept_with_all_that_it_refers_to(admit):
    admit([__name__])
    before = Population()
    next(before.counting.numbers)
    copy = detach(before)

    assert copy.me[0] is copy
    assert next(copy.counting.numbers) == 5
    # To look at it has not changed it.
    assert next(before.counting.numbers) == 5
    assert next(iter(copy.sampler)) == 1
    assert copy.sampler.scale == 0.5
    assert copy.made.size == 3
    assert copy.study.storage.lock.acquire(blocking=False)
    assert same_bits(copy.genomes, before.genomes)


def test_what_no_class_can_be_admitted_for_is_listed_with_its_reason():
    class Local:
        pass

    gene = Gene(lambda: 0)
    fault = check_storable({"gene": gene, "lock": threading.Lock(), "local": Local()}, "b")

    assert fault is not None
    assert "Gene, at 'b/gene'" in fault.message
    assert "<lambda>, which is not found by its name" in fault.message
    assert "at 'b/gene/weight'" in fault.message
    assert "cannot pickle '_thread.lock' object, at 'b/lock'" in fault.message
    assert "Local, a class that cannot be found again by its name" in fault.message
    assert "get=…, make=…" in fault.mend


def test_a_chain_of_many_objects_is_refused_and_not_a_crash(admit):
    admit([__name__])
    chain = Gene(None)
    for _ in range(3000):
        chain = Gene(chain)

    fault = check_storable(chain, "c")
    assert fault is not None
    assert "deep" in fault.message


def test_a_counter_of_itertools_continues_where_it_was():
    numbers = itertools.count(2.5, 0.5)
    next(numbers)

    assert next(detach([numbers])[0]) == 3.0
    assert next(numbers) == 3.0


class Calculator:
    def __init__(self, positions):
        self.positions = positions
        self.lock = threading.Lock()
        self.neighbours: Any = None

    def energy(self):
        if self.neighbours is None:
            self.neighbours = self.positions.argsort()
        return float(self.positions[self.neighbours].sum())


def _get(calculator):
    return calculator.positions


@pytest.fixture
def left_out() -> Iterator[list[str]]:
    jobrun.adapt(Calculator, get=_get, make=Calculator)
    yield []
    del registry._own[Calculator]
    registry._found.clear()


def test_what_nothing_else_refers_to_stays_the_same_object(left_out):
    value = {"c": Calculator(np.arange(3.0))}
    value["c"].energy()

    assert take_over(value) is value
    assert boundary_form(value) is value
    assert value["c"].neighbours is not None


def test_an_array_beside_an_adapted_object_that_has_gaps_is_copied(left_out):
    value = {"c": Calculator(np.arange(3.0)), "x": np.arange(6.0)[::2]}

    assert boundary_form(value)["x"].flags.c_contiguous


def test_attributes_that_an_adapter_leaves_out_are_named_once_they_differ(left_out):
    compare = LeftOutAttributes(left_out.append).compare
    value = [Calculator(np.arange(3.0))]
    boundary_form(value, "atoms", compare)
    assert left_out == []

    value[0].energy()
    for _ in range(3):
        boundary_form(value, "atoms", compare)
    (text,) = left_out
    assert "'atoms'" in text
    assert "Calculator does not keep 'neighbours'" in text
    assert "lock" not in text


def test_attributes_that_are_left_out_on_purpose_are_not_named(left_out):
    jobrun.adapt(Calculator, get=_get, make=Calculator, leaves_out=["neighbours"])
    value = [Calculator(np.arange(3.0))]
    value[0].energy()
    boundary_form(value, "atoms", LeftOutAttributes(left_out.append).compare)

    assert left_out == []


def test_gaps_of_arrays_in_an_adapted_object_are_kept(left_out):
    value = [Calculator(np.arange(6.0)[::-2])]

    assert detach(value)[0].positions.strides == (-16,)
    assert flatten(detach(value)).structure == flatten(value).structure


def test_an_adapter_that_makes_another_value_is_refused_though_the_object_stays(left_out):
    jobrun.adapt(Calculator, get=_get, make=lambda tree: Calculator(tree + 1))

    with pytest.raises(TaskFailedError, match="what its adapter makes of it"):
        boundary_form([Calculator(np.zeros(2))], "c")
