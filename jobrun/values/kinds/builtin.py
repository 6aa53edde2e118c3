"""Describe plain values, lists, tuples and dicts of Python as kinds of values."""

from __future__ import annotations

from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from jobrun.values.kinds import Kind, Steps

NUMBERS: frozenset[type] = frozenset({bool, int, float, complex, type(None)})
SCALARS: frozenset[type] = NUMBERS | {str, bytes}
# Those that are no containers for a checkpoint: immutable, so a copy is never needed.
PLAIN_KINDS: frozenset[type] = SCALARS - {bytes, type(None)}

DICTS: dict[str, type] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Tally}
DICT_NAMES = {cls: name for name, cls in DICTS.items()}
# Keys of dicts that name leaves.
NAMES: frozenset[type] = frozenset({str, int})


class ScalarKind(Kind):
    """Plain values."""

    @staticmethod
    def matches(value_class: type) -> bool:
        return value_class in SCALARS

    def is_fixed(self, value: Any) -> bool:
        return True


class SequenceKind(Kind):
    """Lists and tuples, not of subclasses."""

    @staticmethod
    def matches(value_class: type) -> bool:
        return value_class in (list, tuple)

    def parts(self, value: Any) -> Steps:
        return () if SCALARS.issuperset(map(type, value)) else enumerate(value)

    def is_mutable(self, value: Any) -> bool:
        return self.value_class is list

    def is_fixed(self, value: Any) -> bool:
        return self.value_class is tuple and SCALARS.issuperset(map(type, value))


class DictKind(Kind):
    """Dicts, and the two kinds of them that a checkpoint holds without an adapter."""

    @staticmethod
    def matches(value_class: type) -> bool:
        return value_class in DICT_NAMES

    def parts(self, value: Any) -> Steps:
        return dict_parts(value)

    def saved_parts(self, value: Any) -> Iterable[Any]:
        return [*value.values(), *(() if NAMES.issuperset(map(type, value)) else value)]

    def is_mutable(self, value: Any) -> bool:
        return True


def dict_parts(value: Any) -> Steps:
    """Return the items of a dict, or of a subclass, by their keys."""
    return () if SCALARS.issuperset(map(type, value.values())) else value.items()
