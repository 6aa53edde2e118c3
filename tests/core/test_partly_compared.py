from __future__ import annotations

import pickle
from typing import ClassVar

from jobrun.core.partly_compared import PartlyCompared


class Step(PartlyCompared, frozen=True):
    name: str
    origin: str = ""


class Saved(PartlyCompared, frozen=True):
    uncompared: ClassVar[tuple[str, ...]] = ("seconds",)

    name: str
    seconds: float = 0.0


class Twin(Step, frozen=True):
    pass


def test_fields_that_are_not_compared_count_neither_for_equality_nor_for_the_hash():
    assert Step("a", "here") == Step("a", "there")
    assert hash(Step("a", "here")) == hash(Step("a", "there"))
    assert Saved("a", 1.0) == Saved("a", 2.0)
    assert {Saved("a", 1.0): 1}[Saved("a", 2.0)] == 1


def test_all_other_fields_count():
    assert Step("a") != Step("b")
    assert hash(Step("a")) != hash(Step("b"))
    assert Step("a") != ("a", "")


def test_an_instance_of_a_subclass_is_another_value():
    assert Twin("a") != Step("a")
    assert Twin("a", "here") == Twin("a", "there")


def test_a_copy_through_pickle_is_equal_and_keeps_what_is_not_compared():
    copy = pickle.loads(pickle.dumps(Step("a", "here")))
    assert copy == Step("a")
    assert copy.origin == "here"
