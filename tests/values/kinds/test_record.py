from __future__ import annotations

import json
import sys
import types
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.blob_kinds import describe
from jobrun.values.compare import same_bits
from jobrun.values.container_flattening import flatten, unbound_classes, unflatten
from jobrun.values.copies import detach
from jobrun.values.kinds import record as records
from jobrun.values.kinds.record import UnboundRecord
from tests.support.tables import each_case

Pair = namedtuple("Pair", "left right")


class Point(NamedTuple):
    x: float
    y: Any = None


class Named(namedtuple("Named", "a")):  # noqa: SLOT002 - with a dict of its own
    pass


@dataclass
class Plain:
    a: int
    b: list[Any] = field(default_factory=list)
    kind: ClassVar[str] = "plain"


@dataclass(frozen=True)
class Frozen:
    a: Any
    late: int = field(init=False, default=3)


@dataclass(slots=True)
class Slotted:
    a: Any


@dataclass
class Child(Plain):
    c: float = 0.5


@dataclass
class Strict:
    a: int

    def __post_init__(self):
        raise AssertionError("code of the class runs")


@dataclass
class Stateful:
    a: int

    def state_dict(self):
        return {"a": self.a}

    def load_state_dict(self, state):
        self.a = state["a"]


@dataclass
class Both(dict):
    a: int = 1


def back(value):
    parts = flatten(value)
    return unflatten(json.loads(json.dumps(parts.structure)), parts.leaves)


@each_case(
    "value",
    [
        Pair(1, 2.0), Point(0.5), Point(1.0, Pair([], None)), Named(1), Plain(2**70, [1]),
        Frozen("a"), Slotted({"b": (1,)}), Child(1, [None], -0.0), {"a": [Pair(1, Plain(2))]},
        [Slotted(None), Slotted(None)],
    ],
)  # fmt: skip
def test_a_record_comes_back_as_it_was(value):
    again = back(value)

    assert type(again) is type(value)
    assert again == value
    assert same_bits(again, value)


def test_what_is_shared_in_a_record_stays_shared_and_may_contain_itself():
    items = [1]
    knot = Plain(1, [])
    knot.b.append(knot)

    again, knotted = back(Pair(items, {"a": items})), back(knot)

    assert again.left is again.right["a"]
    assert knotted.b[0] is knotted


def test_no_code_of_a_class_runs():
    strict = object.__new__(Strict)
    strict.a = 1

    assert back(strict).a == 1


def test_a_value_that_was_never_set_is_not_set_afterwards():
    unset = object.__new__(Plain)
    unset.a = 1

    assert vars(back(unset)) == {"a": 1}


def test_the_attributes_keep_the_order_that_they_have_in_the_instance():
    value = Plain(1)
    value.a = vars(value).pop("a")

    assert list(vars(value)) == ["b", "a"]
    assert list(vars(back(value))) == ["b", "a"]


def test_a_class_that_is_not_loaded_is_shown_without_it(monkeypatch):
    module = types.ModuleType("not_loaded_here")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Pair = namedtuple("Pair", "left right", module=module.__name__)
    parts = flatten({"p": module.Pair(1, np.zeros(2))})
    monkeypatch.delitem(sys.modules, module.__name__)

    actual = unflatten(parts.structure, parts.leaves)

    assert isinstance(actual["p"], UnboundRecord)
    assert unbound_classes(actual) == ["not_loaded_here:Pair"]
    assert describe(actual["p"]) == "named tuple Pair of 2"
    assert flatten(actual).structure == parts.structure
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert type(back(actual)["p"]) is module.Pair


@pytest.mark.parametrize("value", [{Point(1, 5): 1, Point(2, 5): 2}, [{Point(1, 5), Point(2, 5)}]])
def test_a_key_whose_class_is_not_loaded_is_made_when_it_is(monkeypatch, value):
    parts = flatten(value)
    monkeypatch.setattr(records, "find_class", lambda _: None)
    unbound = unflatten(parts.structure, parts.leaves)

    assert unbound_classes(unbound)
    monkeypatch.undo()
    assert same_bits(detach(unbound), value)


def test_a_class_with_other_fields_is_refused(monkeypatch):
    parts = flatten(Plain(1))
    parts.structure["fields"][0][0] = "other"
    with pytest.raises(ValueError, match="has the fields a, b"):
        unflatten(
            parts.structure,
            {(("other",) if p == ("a",) else p): v for p, v in parts.leaves.items()},
        )


@pytest.mark.parametrize(
    "name", ["os:system", "builtins:eval", "jobrun.values.kinds.record:find_class"]
)
def test_what_a_file_names_is_never_called(name):
    actual = unflatten({"class": name, "tuple": [["a", "value"]]}, {("a",): "echo"})

    assert isinstance(actual, UnboundRecord)


def _with_more():
    plain = Plain(1)
    plain.more = 2
    return plain


def _local():
    @dataclass
    class Inner:
        a: int

    return Inner(1)


def _named_with_more():
    named = Named(1)
    named.tag = 1
    return named


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_with_more, "the attribute 'more', which is no field"),
        (_named_with_more, "the attribute 'tag', which is no field"),
        (_local, "cannot be found again"),
        (lambda: Both(1), "also something else"),
        (lambda: Stateful(1), "Stateful"),
    ],
)
def test_what_would_lose_something_is_refused(make, words):
    with pytest.raises(UnsavableError, match=words):
        flatten({"a": make()})
