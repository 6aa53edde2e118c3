"""Find mutable parts that values share, at two places: memory, generators, objects.

A checkpoint stores each value by itself. What is one thing at two places is found here, so that it
is kept, or refused by name.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from jobrun.core.text.big_integers import key_text
from jobrun.values import object_state as objects
from jobrun.values.adapters.registry import find_adapter
from jobrun.values.estimators import is_estimator
from jobrun.values.kinds import Steps
from jobrun.values.kinds import tensor as tensors
from jobrun.values.kinds.array import is_structured_scalar
from jobrun.values.kinds.builtin import SCALARS
from jobrun.values.overlapping_arrays import Memory, Pair, Path, can_see, held_memory
from jobrun.values.traversal import by_levels, depth_first, find_kind

_PASSED = (type, ModuleType, np.generic, FunctionType, BuiltinFunctionType, MethodType)
_SKIPPED = (*SCALARS, type, ModuleType, np.ndarray, np.generic)
# All that they refer to are their items.
_CONTAINERS = (list, tuple, set, frozenset, Mapping)


def find_shared_parts(roots: Mapping[str, Any]) -> tuple[list[Pair], list[tuple[Path, Any]]]:
    """Find random generators and objects that several values share; return pairs of their paths.

    Args:
        roots: Objects by name. Followed are the attributes of objects, and what is in containers.

    Returns:
        For each way but the first in the alphabet, the first one and this one; and the values met
        whose adapters say over which memory they are, as ``find_overlapping`` takes them.
    """
    memory_owners: list[tuple[Path, Any]] = []
    groups: dict[int, list[Path]] = {}
    keep_alive: list[Any] = []
    estimators: set[Path] = set()
    level = [((name,), root) for name, root in roots.items()]
    for path, part in by_levels(level, _shared_parts, again=True):
        adapter = find_adapter(type(part))
        if adapter is not None and adapter.memory is not None:
            memory_owners.append((path, part))
        key = _identity(part)
        if is_estimator(part):
            estimators.add(path)
        if key is None:
            continue
        # Kept, so that nothing else gets its number meanwhile.
        keep_alive.append(key)
        paths = groups.setdefault(id(key), [])
        # An estimator's state keeps that two of its attributes are one, under the first of them.
        if path[:-1] not in estimators or all(other[:-1] != path[:-1] for other in paths):
            paths.append(path)
    ways = map(sorted, groups.values())
    return [(paths[0], path) for paths in ways for path in paths[1:]], memory_owners


def render_place(path: Path) -> str:
    """Render the path to a shared part in a blob's value as text, such as ``'k'.random_state``."""
    name, *steps = path
    return ".".join((f"'{name}'", *steps))


def _identity(part: Any) -> Any:
    """Return what identifies a random generator or object among shared parts; else None."""
    if _is_random(part, "Generator"):
        return part.bit_generator
    if _is_random(part, "RandomState"):
        # The bit generator that it may share with a Generator.
        return getattr(part, "_bit_generator", part)
    if _is_random(part, "BitGenerator") or isinstance(part, random.Random):
        return part
    return part if objects.is_object(part) else None


def _is_random(part: Any, name: str) -> bool:
    kind = objects.random_class(name)
    return kind is not None and isinstance(part, kind)


def _shared_parts(value: Any) -> Steps:
    return [(step, part) for step, part in _references(value) if not _is_passed_over(part)]


def _is_passed_over(part: Any) -> bool:
    return (
        isinstance(part, _SKIPPED)
        or tensors.is_tensor(part)
        or (callable(part) and not objects.is_object(part))
    )


def find_common_part(first: Any, second: Any) -> Pair | None:
    """Find a mutable part that two values share, and return the path to it in each value.

    None where there is nothing: no array or tensor over one memory, and no container that both
    have. Of an object is looked at what its attributes hold, as deep as ``by_levels`` goes; of two
    objects nothing (``find_shared_parts``).
    """
    has_objects = [objects.is_object(value) for value in (first, second)]
    if all(has_objects):
        return None
    if has_objects[0]:
        pair = find_common_part(second, first)
        return pair and (pair[1], pair[0])
    ours = list(_changeable(first))
    if not ours:
        return None
    # An outer part is named rather than what is in it.
    known = {
        number: path
        for path, part in reversed(ours)
        if not _is_immutable(part)
        for number in _numbers(part)
    }
    theirs = chain([((), second)], _held(second)) if has_objects[1] else _changeable(second)
    memory = [view for path, part in ours for view in _memory(path, part)]
    for path, part in theirs:
        for number in _numbers(part):
            if number in known:
                return known[number], path
        for other_view in _memory(path, part) if memory else ():
            for view in memory:
                if np.may_share_memory(view.array, other_view.array) and can_see(view, other_view):
                    return view.place, path
    return None


def _numbers(part: Any) -> set[int]:
    """Return the ``id`` of a mutable part, and that of the bit generator which it draws from."""
    drawn_from = None if type(part) in (list, dict, np.ndarray) else _identity(part)
    return {id(part)} if drawn_from is None else {id(part), id(drawn_from)}


def mutable_parts(value: Any) -> dict[int, Any]:
    """Return the mutable parts of a value by ``id``, such as containers, arrays and tensors."""
    # What adapters return is here only while it is looked at, and is no part.
    return {id(part): part for _, part in _changeable(value)}


def _is_immutable(part: Any) -> bool:
    adapter = find_adapter(type(part))
    return adapter is not None and adapter.immutable


def _memory(path: Path, part: Any) -> Iterable[Memory]:
    """Return views of the memory of an array, tensor or adapted value, to find shared parts."""
    if isinstance(part, np.ndarray) or is_structured_scalar(part):
        array = np.asarray(part)
        return (Memory(path, array, None, not array.flags.writeable),) if part.size else ()
    if not tensors.is_tensor(part):
        return held_memory(path, part)
    if part.device.type != "cpu":
        return ()
    tensor = part.detach()
    if not tensor.numel() or tensors.explain_unsavable(tensor):
        return ()
    return [Memory(path, array) for array in tensors.to_arrays([tensor])]


def _changeable(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the mutable parts of a value that another value could share, each with its path."""
    for path, part, is_new in depth_first(value, lambda part: find_kind(type(part)).parts(part)):
        kind = find_kind(type(part))
        if kind.is_mutable(part) and (is_new or kind.is_memory):
            yield path, part


def _held(root: Any) -> Iterator[tuple[Path, Any]]:
    """Yield arrays and containers held by an object, with their paths, to find shared parts."""
    level = [((key_text(step),), part) for step, part in _held_parts(root)]
    for path, part in by_levels(level, _held_parts, again=False):
        if _is_memory(part):
            yield path, part
            gradient = getattr(part, "grad", None)
            if gradient is not None:
                yield (*path, "grad"), gradient
            continue
        adapter = find_adapter(type(part))
        if (
            isinstance(part, dict | list)
            or (adapter and adapter.memory)
            or _identity(part) is not None
        ):
            yield path, part


def _held_parts(value: Any) -> Steps:
    if _is_memory(value):
        return ()
    has_items = isinstance(value, _CONTAINERS)
    return [
        (step, part)
        for step, part in (*_references(value), *(() if has_items else _slots(value)))
        if type(part) not in SCALARS and (_is_memory(part) or not isinstance(part, _PASSED))
    ]


def _is_memory(part: Any) -> bool:
    """Return whether a part is an array, a tensor, or a numpy scalar with fields."""
    return isinstance(part, np.ndarray) or is_structured_scalar(part) or tensors.is_tensor(part)


def _references(value: Any) -> Steps:
    """Return all that a Python object refers to: its items, or its attributes."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, _CONTAINERS):
        return enumerate(value)
    return list(getattr(value, "__dict__", {}).items())


def _slots(value: Any) -> Steps:
    entries = [base.__dict__.get("__slots__", ()) for base in type(value).__mro__]
    names = [name for entry in entries for name in ((entry,) if isinstance(entry, str) else entry)]
    return ((name, getattr(value, name)) for name in names if hasattr(value, name))
