"""Find the kind of a value, and go through all that is in it by steps that the caller finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jobrun.core.text.big_integers import key_text
from jobrun.values.adapters.registry import AdaptedKind, OtherKind, Path, UnboundKind
from jobrun.values.kinds import SELF, Kind, Steps, known_kinds
from jobrun.values.kinds.array import ArrayKind, NumpyScalarKind
from jobrun.values.kinds.builtin import DictKind, ScalarKind, SequenceKind
from jobrun.values.kinds.counter import CounterKind
from jobrun.values.kinds.record import RecordKind
from jobrun.values.kinds.tensor import TensorKind

# Limits of the search inside objects: depth, and number of parts.
_MOST_DEPTH = 12
_MOST_PARTS = 20_000
# The first one that matches a class is its kind.
KINDS: list[type[Kind]] = [
    ScalarKind, SequenceKind, DictKind, ArrayKind, NumpyScalarKind, CounterKind, TensorKind,
    RecordKind, UnboundKind, AdaptedKind,
]  # fmt: skip


def find_kind(value_class: type) -> Kind:
    """Return the kind of the values of a class."""
    try:
        return known_kinds[value_class]
    except KeyError:
        pass
    kind_class = next((kind for kind in KINDS if kind.matches(value_class)), OtherKind)
    kind = known_kinds[value_class] = kind_class(value_class)
    return kind


def depth_first(root: Any, inside: Callable[[Any], Steps]) -> Iterator[tuple[Path, Any, bool]]:
    """Yield a value and all parts of it in their order: its path, and whether it is met first.

    Args:
        root: The value.
        inside: Returns the parts of a value, which is asked when the value is met first.
    """
    # Held, so that nothing else gets its number.
    seen: dict[int, Any] = {}
    unvisited: list[tuple[Path, Any]] = [((), root)]
    while unvisited:
        path, value = unvisited.pop()
        is_new = id(value) not in seen
        yield path, value, is_new
        if is_new:
            seen[id(value)] = value
            unvisited += reversed(
                [
                    (path if step is SELF else (*path, key_text(step)), part)
                    for step, part in inside(value)
                ]
            )


def by_levels(
    level: Iterable[tuple[Path, Any]], inside: Callable[[Any], Steps], *, again: bool
) -> Iterator[tuple[Path, Any]]:
    """Yield parts of values with their paths, short paths first, up to a depth and a number.

    Args:
        level: The parts to begin with.
        inside: Returns the parts of a value, which is asked when the value is met first.
        again: Yield, and count, a part at each path that leads to it, not only at the first.
    """
    seen: dict[int, Any] = {}
    count = 0
    for _ in range(_MOST_DEPTH):
        below: list[tuple[Path, Any]] = []
        for path, value in level:
            is_new = id(value) not in seen
            if not (is_new or again):
                continue
            count += 1
            if count > _MOST_PARTS:
                return
            yield path, value
            if is_new:
                seen[id(value)] = value
                below += (((*path, key_text(step)), part) for step, part in inside(value))
        level = below
