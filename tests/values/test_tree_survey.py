"""What the collector's traversal of a tree answers: classes, boundary form, foreign references."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jobrun
from jobrun.values.kinds.counter import Counter
from jobrun.values.tree_survey import survey


@dataclass
class Point:
    """A record."""

    x: Any
    y: Any


class Cell:
    """An object that may refer to others of its class."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.next: Cell | None = None


class Slots:
    """An object without a dict."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Hooked(Cell):
    """An object whose pickle is made by code of its own."""

    def __getstate__(self) -> Any:
        return vars(self)


jobrun.adapt(Cell)
jobrun.adapt(Slots)
jobrun.adapt(Hooked)


def _ring() -> Cell:
    first, second = Cell(1), Cell([2])
    first.next, second.next = second, first
    return first


def _shared(part: Any) -> Any:
    return [part, {"again": part}]


def _tuple_in_itself(part: list[Any]) -> Any:
    part.append((part,))
    return part[0]


TREES = {
    "dict": lambda: {"a": [1, 2.0, None], "b": {"c": (1, [2])}},
    "keys": lambda: {(1, 2): [3], b"x": {4}},
    "shared": lambda: _shared([1]),
    "collections": lambda: [deque([[1]]), defaultdict(list, {"a": [1]}), {1, 2}, frozenset({3})],
    "arrays": lambda: [np.arange(3.0), {"m": np.asfortranarray(np.ones((2, 3)))}, np.float32(1)],
    "record": lambda: [Point([1], Point(2, {"a": 3}))],
    "objects": lambda: {"cells": [Cell([n]) for n in range(3)], "slots": Slots([1])},
    "ring": _ring,
    "named": lambda: {"function": np.mean, "class": Point, "built in": len},
}


@pytest.mark.parametrize("name", TREES)
def test_nothing_else_refers_to_the_parts_of_a_new_tree(name):
    surveyed = survey(TREES[name]())
    assert surveyed is not None
    assert surveyed.is_exclusive


def _first_part(tree: Any, kind: type) -> Any:
    rest = [tree]
    while rest:
        thing = rest.pop(0)
        if isinstance(thing, kind) and thing is not tree:
            return thing
        rest += thing.values() if isinstance(thing, dict) else ()
        rest += thing if isinstance(thing, list | tuple | deque) else ()
        rest += vars(thing).values() if isinstance(thing, Point | Cell) else ()
        rest += [thing.value] if isinstance(thing, Slots) else []
    raise AssertionError(kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dict", list), ("dict", dict), ("keys", list), ("shared", list), ("collections", list),
        ("collections", set), ("collections", deque), ("arrays", np.ndarray), ("record", Point),
        ("record", list), ("objects", Cell), ("objects", list), ("objects", Slots), ("ring", list),
    ],
)  # fmt: skip
def test_a_part_to_which_code_refers_is_seen(name, kind):
    tree = TREES[name]()
    part = _first_part(tree, kind)
    surveyed = survey(tree)
    assert surveyed is not None
    assert not surveyed.is_exclusive
    del part


def test_dict_of_attributes_to_which_code_refers_is_seen():
    tree = [Cell(1)]
    attributes = vars(tree[0])
    surveyed = survey(tree)
    assert surveyed is not None
    assert not surveyed.is_exclusive
    del attributes


def test_references_of_a_tree_to_its_own_root_are_counted():
    surveyed = survey(_ring())
    assert surveyed is not None
    assert surveyed.root_references == 1


def test_immutable_parts_may_be_referred_to():
    text, pair, flag = "t" * 50, (1, "a"), np.float64(2.5)
    surveyed = survey([text, pair, flag, frozenset({pair})])
    assert surveyed is not None
    assert surveyed.is_exclusive


BASE = np.arange(8.0)
UNKNOWN = {
    "a view": lambda: [BASE[2:4]],
    "array with gaps": lambda: [np.arange(8.0)[::2]],
    "read-only array": lambda: [np.frombuffer(b"12345678")],
    "array of objects": lambda: [np.array([[1], None], dtype=object)],
    "dtype with metadata": lambda: [np.zeros(2, np.dtype("f8", metadata={"a": 1}))],
    "lock": lambda: [Cell(threading.Lock())],
    "lambda": lambda: {"f": lambda: 0},
    "counter": lambda: [Counter(3)],
    "unknown class": lambda: [threading.Event()],
    "tuple in itself": lambda: _tuple_in_itself([]),
    "buffer": lambda: [bytearray(b"x")],
    "too deep": lambda: _nested(300),
}


def _nested(depth: int) -> list[Any]:
    tree: list[Any] = []
    for _ in range(depth):
        tree = [tree]
    return tree


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_the_collector_does_not_show_is_not_judged(name):
    assert survey(UNKNOWN[name]()) is None


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ([1, {"a": (2,)}], True), ([Cell(1), Slots(2), Point(1, 2)], True), ([Hooked(1)], False),
        ([{1}], False), ([np.zeros(2)], False), ([frozenset({1})], True),
    ],
)  # fmt: skip
def test_a_pickle_shows_each_change_of_plain_classes_only(tree, expected):
    surveyed = survey(tree)
    assert surveyed is not None
    assert surveyed.may_be_pickled() is expected
