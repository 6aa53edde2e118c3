"""All values of one kind in a graph, whatever they stand in: found, or replaced in a copy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from jobrun.core.origin import Origin

_Graph = TypeVar("_Graph")
_Part = TypeVar("_Part")


def rewritten(graph: _Graph, kind: type[_Part], change: Callable[[_Part], Any]) -> _Graph:
    """The graph with ``change`` made to every value of a kind in it; shared where unchanged.

    A value of the kind is not searched for others inside it.
    """
    copy: _Graph = _rewritten(graph, kind, change)
    return copy


def parts_of(graph: Any, kind: type[_Part]) -> Iterator[_Part]:
    """Every value of a kind in a graph, outer before inner."""
    if isinstance(graph, kind):
        yield graph
    if isinstance(graph, tuple):
        for item in graph:
            yield from parts_of(item, kind)
    elif is_dataclass(graph) and not isinstance(graph, type | Origin):
        for one in fields(graph):
            yield from parts_of(getattr(graph, one.name), kind)


def _rewritten(value: Any, kind: type[Any], change: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        parts = tuple(_rewritten(part, kind, change) for part in value)
        return parts if any(a is not b for a, b in zip(parts, value, strict=True)) else value
    if not is_dataclass(value) or isinstance(value, type | Origin):
        return value
    changed = {}
    for one in fields(value):
        old = getattr(value, one.name)
        new = _rewritten(old, kind, change)
        if new is not old:
            changed[one.name] = new
    return replace(value, **changed) if changed else value
