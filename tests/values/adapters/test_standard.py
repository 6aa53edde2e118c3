"""Values of the standard library and of numpy, each through the contract of adapters."""

from __future__ import annotations

import array
import datetime
import enum
import functools
import math
import random
import subprocess
import sys
import types
import uuid
import zoneinfo
from collections import Counter, UserDict, UserList, UserString, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.testing.adapters import Adapted, AdapterContract
from jobrun.values.adapters import registry
from jobrun.values.adapters.registry import UnsavableError, adapt, find_adapter
from jobrun.values.compare import same_bits
from jobrun.values.container_flattening import flatten
from jobrun.values.copies import detach


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Right(enum.IntFlag):
    READ = 1
    WRITE = 2


def advance_deque(queue, step):
    queue.append(np.arange(step))
    return queue, list(queue)


def advance_bytes(held, step):
    held.append(step)
    return held, bytes(held)


def advance_set(items, step):
    items.add(f"item {step}")
    items.discard(f"item {step - 2}")
    return items, list(items)


def advance_table(table, step):
    table[step, "x"].append(step)
    return table, [list(table), list(table.values())]


def advance_generators(held, step):
    generator, legacy, python = held["generators"]
    drawn = [generator.normal(size=3), legacy.normal(size=3), python.gauss(0, 1)]
    if step == 2:
        drawn.append(generator.spawn(1)[0].integers(1000))
    return held, drawn


def generators():
    return {
        "generators": (
            np.random.Generator(np.random.Philox(5)), np.random.RandomState(3), random.Random(4),
        )
    }  # fmt: skip


def later(value, more):
    return lambda: value, lambda value, _: (value + more, value)


UTC = datetime.UTC
ZURICH = zoneinfo.ZoneInfo("Europe/Zurich")
CASES = {
    "deque": (lambda: deque([1.0, None], maxlen=4), advance_deque),
    "set": (lambda: {"a", 3, (1, 2.5), frozenset("xy")}, advance_set),
    "defaultdict": (lambda: defaultdict(list, {(0, "x"): []}), advance_table),
    "bytearray": (lambda: bytearray(b"a"), advance_bytes),
    "generators": (generators, advance_generators),
    "frozenset": (lambda: frozenset(range(5)), lambda old, step: (old | {step * 7}, list(old))),
    "Decimal": later(Decimal("1.10"), Decimal("0.1")),
    "Fraction": later(Fraction(1, 3), Fraction(1, 7)),
    "datetime": later(datetime.datetime(2026, 10, 25, 2, 30, tzinfo=UTC), datetime.timedelta(1)),
    "zone": later(datetime.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZURICH),
                  datetime.timedelta(hours=1)),
    "date": later(datetime.date(2026, 1, 1), datetime.timedelta(40)),
    "timedelta": later(datetime.timedelta(-1, 3, 4), datetime.timedelta(0, 1)),
    "Path": (lambda: Path("a"), lambda value, step: (value / str(step), value)),
    "Enum": (lambda: Colour.RED, lambda value, _: (Colour.BLUE, value)),
    "Flag": (lambda: Right.READ, lambda value, _: (value ^ (Right.READ | Right.WRITE), value)),
    "UUID": (lambda: uuid.UUID(int=7), lambda value, step: (uuid.UUID(int=step), value)),
    "range": (lambda: range(0, 9, 2), lambda value, _: (value[1:], list(value))),
    "array": (lambda: array.array("d", [1.0]), lambda row, step: (row + array.array("d", [step]),
                                                                  row.tolist())),
}  # fmt: skip


class TestStandardValues(AdapterContract):
    @pytest.fixture(params=CASES)
    def adapted(self, request):
        return Adapted(*CASES[request.param])


@pytest.mark.parametrize(
    "value",
    [
        {"keys": {(1, 2): 3, None: 4, 2.5: [5], True: 6, Colour.RED: 7}},
        {"functions": [np.tanh, len, Path, detach, np.linalg.eigh, np.random.RandomState(1).rand]},
        {"partial": functools.partial(detach, name="x"), "slice": slice(1, None), "…": ...},
        [np.array([None, "text", {"a": 1}], dtype=object).reshape(3, 1)],
        {"time": datetime.time(3, 4, 5, 6, tzinfo=UTC)},
    ],
    ids=["keys", "functions", "partial", "objects", "time"],
)
def test_a_part_of_a_container_comes_back_as_it_was(value):
    again = detach(value)

    assert same_bits(again, value)
    assert str(type(again)) == str(type(value))


def test_what_is_one_thing_at_two_places_stays_one():
    queue: deque[object] = deque()
    generator = np.random.default_rng(3)
    again = detach({"a": queue, "b": [queue], "g": generator, "h": [generator]})

    assert again["a"] is again["b"][0]
    assert again["g"] is again["h"][0]
    assert again["g"] is not generator


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"f": lambda: 0}, "the function .*<lambda>, which is not found by its name"),
        ([defaultdict(lambda: 0)], "<lambda>"),
        ([Right(0)], None),
        ([{1, detach}], "a set with a value of class function, by whose address it is ordered"),
        ([frozenset([math.nan, 1.0])], "a set with nan, by whose address"),
        ([functools.lru_cache(detach)], "lru_cache"),
    ],
)
def test_what_has_no_name_is_refused_by_it(value, words):
    if words is None:
        assert same_bits(detach(value), value)
        return
    with pytest.raises(UnsavableError, match=words):
        flatten(value)


class Walker:
    def __init__(self):
        self.steps = 0

    def step(self):
        self.steps += 1

    def undecorated(self):
        return self.step

    @classmethod
    def make(cls):
        return cls()


class Runner(Walker):
    def step(self):
        self.steps += 100

    def slow_step(self):
        return super().step

    run = functools.partialmethod(step)


def plain(function):
    def step(self):
        return function(self)

    return step


def step(self):
    self.steps += 1000


Runner.hop = plain(Walker.step)
adapt(Walker)
adapt(Runner)


def test_a_bound_method_is_kept_only_if_its_name_gives_it_again():
    runner, replaced = Runner(), Walker()
    replaced.step = types.MethodType(step, replaced)
    for value in (runner.step, runner.undecorated(), Runner.make, runner.make, Walker().step):
        copy = detach([value])[0]
        assert copy.__func__ is value.__func__

    for lost in (runner.slow_step(), runner.hop, replaced.step, types.MethodType(step, runner)):
        with pytest.raises(UnsavableError, match=r"the bound method .*, which is"):
            flatten([lost])


def test_a_legacy_and_a_new_generator_of_one_bit_generator_stay_so():
    bits = np.random.MT19937(5)
    legacy = np.random.RandomState(bits)
    legacy.normal()
    pair = [legacy, np.random.Generator(bits), np.random.RandomState(7)]
    copies = detach(pair)

    for _ in range(3):
        for first, other in zip(pair, copies, strict=True):
            assert first.normal() == other.normal()


def test_a_legacy_generator_that_was_saved_by_its_state_is_made_again():
    legacy = np.random.RandomState(3)
    legacy.normal()
    adapter = find_adapter(np.random.RandomState)
    created = adapter.make(np.random.RandomState, legacy.get_state(legacy=False))

    assert created.normal() == legacy.normal()
    assert created.normal() == legacy.normal()


def test_views_of_an_array_of_python_objects_are_refused_beside_it():
    whole = np.array([[1, None], ["a", 2]], object)
    assert detach([whole, whole])[0].tolist() == whole.tolist()

    with pytest.raises(TaskFailedError, match=r"'\?/1' shares memory with '\?/0'") as caught:
        detach([whole, whole[0]])

    assert caught.value.faults[0].code == "E258"


def test_what_the_attrs_of_a_frame_share_stays_shared():
    pandas = pytest.importorskip("pandas")
    frame, rate = pandas.DataFrame({"a": [1.0]}), [1.0]
    frame.attrs["rate"] = rate

    copy, shared = detach([frame, rate])

    assert copy.attrs["rate"] is shared
    assert shared is not rate


def test_a_value_that_contains_itself_is_refused():
    queue: deque[object] = deque()
    queue.append([queue])

    with pytest.raises(UnsavableError, match="deque that contains itself"):
        flatten([queue])


PROGRAM = """\
import sys
from jobrun.values.copies import detach

def grow(items, first):
    for number in range(first, first + 400):
        items.add(f"{number} {number * 7919 % 1000}")
        if number % 3 == 0:
            items.discard(f"{number // 2} {number // 2 * 7919 % 1000}")
    return items if sys.argv[1] == "plain" else detach(items)

items = grow(grow(set(), 0), 400)
if sys.argv[1] == "loaded":
    items = detach(items)
print(list(grow(items, 800)))
"""


def test_a_loaded_set_is_iterated_over_in_the_order_that_plain_python_gives():
    orders = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, value],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": "7"},
        ).stdout
        for value in ("plain", "whole", "loaded")
    ]

    assert orders[0] == orders[1] == orders[2]
    assert orders[0].count("'") > 600


@pytest.mark.parametrize("value", [UserDict(x=1), UserList([1, [2]]), UserString("a")])
def test_classes_of_collections_that_are_not_kept_can_be_adapted(monkeypatch, value):
    monkeypatch.setattr(registry, "_own", {})
    with pytest.raises(UnsavableError):
        flatten([value])

    adapt(type(value))
    try:
        copy = detach([value])[0]
        assert type(copy) is type(value)
        assert copy.data == value.data
        assert copy.data is not value.data or isinstance(value.data, str)
    finally:
        registry._found.clear()


def test_classes_that_are_kept_are_not_adapted():
    for kind in (dict, Counter, deque, np.ndarray):
        with pytest.raises(TypeError, match="kept without an adapter"):
            adapt(kind)


def test_the_missing_value_of_pandas_is_kept():
    pandas = pytest.importorskip("pandas")

    assert detach([pandas.NA])[0] is pandas.NA
