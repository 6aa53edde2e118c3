"""Adapters of a user's own: what they must give, and what is said when they do not."""

from __future__ import annotations

import collections
import gc
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

import jobrun
from jobrun.core.errors import CheckpointError, TaskFailedError
from jobrun.runtime.snapshots.node_objects import load_object_state
from jobrun.testing.adapters import Adapted, AdapterContract
from jobrun.values import container_flattening
from jobrun.values.adapters import registry
from jobrun.values.blob_kinds import check_storable, is_object
from jobrun.values.compare import same_bits
from jobrun.values.container_flattening import flatten, is_tree, unflatten
from jobrun.values.copies import detach
from jobrun.values.object_state import ObjectState


class Walk:
    def __init__(self, at, total=0):
        self.at = np.array(at, dtype=float)
        self.total = total

    def step(self, number):
        self.at += number
        self.total += 1
        return self.at.copy()


class Value(Walk):
    pass


class Forgetful(Walk):
    pass


class Other:
    pass


def dict_of(value):
    return dict(vars(value))


def walk_state(walk):
    return {"at": walk.at, "total": walk.total}


def set_walk(walk, tree):
    walk.at, walk.total = tree["at"], tree["total"]


def advance(walk, step):
    shown = walk.step(step)
    return walk, [shown, walk.total]


jobrun.adapt(Walk, get=walk_state, set=set_walk)
jobrun.adapt(Value, get=walk_state, make=lambda tree: Value(tree["at"], tree["total"]))
jobrun.adapt(Forgetful, get=walk_state, make=lambda tree: Forgetful(tree["at"]))


class TestObjects(AdapterContract):
    @pytest.fixture
    def adapted(self):
        return Adapted(lambda: Walk([1, 2]), advance)


class TestValues(AdapterContract):
    @pytest.fixture
    def adapted(self):
        return Adapted(lambda: Value([1, 2]), advance)


class TestOneObject(AdapterContract):
    @pytest.fixture
    def adapted(self):
        def make():
            return jobrun.adapt(
                Other(), get=dict_of, set=lambda value, tree: vars(value).update(tree)
            )

        def count(item, step):
            item.n = getattr(item, "n", 0) + step + 1
            return item, item.n

        return Adapted(make, count)


class Tracker:
    """A class of a library, say: attributes, parts of other classes, functions by name."""

    def __init__(self, size):
        self.at, self.inverse = np.zeros(size), np.linalg.inv
        self.history = collections.deque(maxlen=2)
        # One array at two places, and a way back.
        self.last, self.part = self.at, Part(self)


class Part:
    def __init__(self, owner):
        self.owner, self.count = owner, 0


jobrun.adapt(Tracker)
jobrun.adapt(Part)


def _make_class():
    class Number:
        def __init__(self, at):
            self.at = at

    return Number


Number = jobrun.adapt(_make_class())


class TestOfAClassThatItsNameDoesNotLeadTo(AdapterContract):
    """As of ``mpmath.mpf``, which a function of the library makes."""

    @pytest.fixture
    def adapted(self):
        def advance(number, step):
            number.at += step + 1
            return number, number.at

        return Adapted(lambda: Number(3), advance)


class TestByAttributes(AdapterContract):
    @pytest.fixture
    def adapted(self):
        def advance(tracker, step):
            tracker.at += step + 1
            tracker.part.owner.part.count += 1
            tracker.history.append(float(tracker.last.sum()))
            return tracker, [tracker.last, tracker.part.count, list(tracker.history)]

        return Adapted(lambda: Tracker(3), advance)


def test_a_class_alone_whose_values_hold_a_lambda_is_refused_by_its_name():
    tracker = Tracker(2)
    tracker.inverse = lambda x: x

    with pytest.raises(TaskFailedError, match="lambda"):
        detach(tracker)


def test_a_generator_that_has_begun_is_refused_with_what_to_do():
    fault = check_storable({"steps": (value for value in "ab")}, "state")

    assert "let an epoch run it to its end" in fault.message


def test_an_object_is_adapted_as_long_as_it_lives():
    class Weak:
        pass

    single = jobrun.adapt(Weak(), get=vars, set=lambda *_: None)
    number = id(single)

    assert is_object(single)
    assert not is_tree(single)
    del single
    gc.collect()
    assert number not in registry._own_objects


def test_what_an_adapter_forgets_is_found_when_the_value_is_copied():
    with pytest.raises(TaskFailedError) as caught:
        detach(Forgetful([1], total=4), "walk")

    assert "'walk'" in caught.value.faults[0].message
    assert "total" in caught.value.faults[0].message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((Other, {}), "get and one of make and set"),
        ((Other, {"make": Other, "set": print}), "get and one of make and set"),
        ((dict, {"make": dict}), "without an adapter"),
        ((Other(), {"make": Other}), "give jobrun.adapt the class"),
    ],
)
def test_a_wrong_call_of_adapt_is_refused(arguments, words):
    case, inputs = arguments

    with pytest.raises(TypeError, match=words):
        jobrun.adapt(case, get=vars, **inputs)


def test_a_value_of_another_version_of_its_adapter_is_refused(monkeypatch):
    parts = flatten(Value([1]))
    adapter = registry.find_adapter(Value)
    newer = registry.Adapter(adapter.get, adapter.make, version=2)
    monkeypatch.setitem(registry._found, Value, newer)

    with pytest.raises(ValueError, match="version 1 of its adapter, and version 2 is here"):
        unflatten(parts.structure, parts.leaves)


def test_a_value_whose_class_is_not_loaded_is_passed_on_and_made_when_it_is(monkeypatch):
    value = {"a": [Value([1.0], 3)]}
    parts = flatten(value)
    monkeypatch.setattr(registry, "find_by_name", lambda _: None)
    unbound = unflatten(parts.structure, parts.leaves)

    assert container_flattening.unbound_classes(unbound) == [registry.class_name(Value)]
    assert flatten(unbound).structure == parts.structure
    assert "not loaded" in container_flattening.describe_tree(unbound["a"][0])
    monkeypatch.undo()
    assert same_bits(detach(unbound), value)


def test_a_value_made_of_a_function_that_is_not_loaded_is_made_when_it_is(monkeypatch):
    value = {"a": [defaultdict(count, b=1)]}
    parts = flatten(value)
    actual = registry.find_by_name
    monkeypatch.setattr(
        registry, "find_by_name", lambda name: None if "count" in name else actual(name)
    )
    unbound = unflatten(parts.structure, parts.leaves)

    assert container_flattening.unbound_classes(unbound)
    monkeypatch.undo()
    created = detach(unbound)["a"][0]
    assert created == {"b": 1}
    assert created["new"] == 3


def count():
    return 3


def test_an_entry_point_adapts_the_classes_of_its_package(monkeypatch):
    adapter = registry.Adapter(vars, lambda kind, tree: kind(**tree))
    package = Plugged.__module__.partition(".")[0]
    point = SimpleNamespace(load=lambda: lambda kind: adapter if kind is Plugged else None)
    monkeypatch.setattr(registry, "_points", {package: [point]})

    assert registry.find_adapter(Plugged) is adapter
    assert detach(Plugged(3)).number == 3
    registry._found.clear()


class Plugged:
    def __init__(self, number):
        self.number = number


def test_a_failing_adapter_is_named_with_its_class():
    class Broken:
        pass

    jobrun.adapt(Broken, get=lambda _: 1 / 0, make=lambda _: Broken())

    with pytest.raises(TaskFailedError, match=r"Broken.*adapter failed: ZeroDivisionError"):
        detach([Broken()], "b")


def test_a_state_with_a_class_that_is_not_loaded_is_not_set(monkeypatch):
    state = ObjectState("x.Walk", {"at": registry.UnboundValue("gone:Class", 1, None), "total": 1})

    with pytest.raises(CheckpointError, match="gone:Class"):
        load_object_state("walk", Walk([1]), state)
