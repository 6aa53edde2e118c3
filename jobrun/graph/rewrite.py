"""All values of one kind in a graph, whatever they stand in: found, or replaced in a copy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar

from jobrun.core.origin import Origin

_Graph = TypeVar("_Graph")
_Part = TypeVar("_Part")

# Fields of these types are not looked into: a pull on each of n nodes names all n of them.
_PLAIN = frozenset(
    ("str", "int", "float", "bool", "Origin", "int | None", "tuple[str, ...]",
     "tuple[tuple[str, str], ...]")
)  # fmt: skip


def rewritten(graph: _Graph, kind: type[_Part], change: Callable[[_Part], Any]) -> _Graph:
    """The graph with ``change`` made to every value of a kind in it; shared where unchanged.

    A value of the kind is not searched for others inside it.
    """
    copy: _Graph = _rewritten(graph, kind, change)
    return copy


def parts_of(graph: Any, kind: type[_Part]) -> Iterator[_Part]:
    """Every value of a kind in a graph, outer before inner; no plain value is a part."""
    if isinstance(graph, kind):
        yield graph
    if isinstance(graph, tuple):
        for item in graph:
            yield from parts_of(item, kind)
    else:
        for name in _parts(graph.__class__):
            yield from parts_of(getattr(graph, name), kind)


def _rewritten(value: Any, kind: type[Any], change: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        parts = tuple(_rewritten(part, kind, change) for part in value)
        return parts if any(a is not b for a, b in zip(parts, value, strict=True)) else value
    changed = {}
    for name in _parts(value.__class__):
        old = getattr(value, name)
        new = _rewritten(old, kind, change)
        if new is not old:
            changed[name] = new
    return replace(value, **changed) if changed else value


@cache
def _parts(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a value of the graph that may hold others, as their types are written.

    A place in a file, or a plain value, has none.
    """
    if not is_dataclass(kind) or issubclass(kind, Origin):
        return ()
    return tuple(one.name for one in fields(kind) if one.type not in _PLAIN)
