"""Find mutable parts that values share, at two places: memory, generators, objects.

A checkpoint stores each value by itself. What is one thing at two places is found here, so that it
is kept, or refused by name.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from jobrun.core.text.big_integers import key_text
from jobrun.values import container_flattening as trees
from jobrun.values import object_state as objects
from jobrun.values.adapters.registry import find_adapter
from jobrun.values.estimators import is_estimator
from jobrun.values.kinds import record as records
from jobrun.values.kinds import tensor as tensors
from jobrun.values.kinds.counter import Counter
from jobrun.values.kinds.scalar import SCALARS
from jobrun.values.kinds.structured_dtype import is_structured_scalar
from jobrun.values.overlapping_arrays import Memory, Pair, Path, can_see, held_memory

# So deep, and at so many things, is looked for what an object holds.
_MOST_DEPTH = 12
_MOST_THINGS = 20_000
_PASSED = (type, ModuleType, np.generic, FunctionType, BuiltinFunctionType, MethodType)
_SKIPPED = (*SCALARS, type, ModuleType, np.ndarray, np.generic)


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
    for path, part in _parts(roots):
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


def _parts(roots: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield each part of the values with its path, short paths first, to find shared parts."""
    # An object is looked into once; each path to it is found.
    seen: set[int] = set()
    keep_alive: list[Any] = []
    level: list[tuple[Path, Any]] = [((name,), root) for name, root in roots.items()]
    count = 0
    for _ in range(_MOST_DEPTH):
        below: list[tuple[Path, Any]] = []
        for path, value in level:
            yield path, value
            count += 1
            if count > _MOST_THINGS:
                return
            if id(value) in seen:
                continue
            seen.add(id(value))
            keep_alive.append(value)
            below += (((*path, step), part) for step, part in _inside(value))
        level = below


def _inside(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        parts: Iterable[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        parts = enumerate(value)
    else:
        parts = list(getattr(value, "__dict__", {}).items())
    return [(key_text(step), part) for step, part in parts if not _is_passed_over(part)]


def _is_passed_over(part: Any) -> bool:
    return (
        isinstance(part, _SKIPPED)
        or tensors.is_tensor(part)
        or (callable(part) and not objects.is_object(part))
    )


def find_common_part(first: Any, second: Any) -> Pair | None:
    """Find a mutable part that two values share, and return the path to it in each value.

    None where there is nothing: no array or tensor over one memory, and no container that both
    have. Of an object is looked at what its attributes hold, so deep and at so many things as is
    set above; of two objects nothing (``find_shared_parts``).
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
    theirs = _held(second) if has_objects[1] else _changeable(second)
    known = {id(part): path for path, part in ours if not _is_immutable(part)}
    memory = [view for path, part in ours for view in _memory(path, part)]
    for path, part in theirs:
        if id(part) in known:
            return known[id(part)], path
        for other_view in _memory(path, part) if memory else ():
            for view in memory:
                if np.may_share_memory(view.array, other_view.array) and can_see(view, other_view):
                    return view.place, path
    return None


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
    seen: set[int] = set()
    keep_alive: list[Any] = []
    unvisited: list[tuple[Path, Any]] = [((), value)]
    while unvisited:
        path, parent = unvisited.pop()
        is_memory = isinstance(parent, np.ndarray | Counter) or is_structured_scalar(parent)
        inside: Iterable[tuple[Any, Any]]
        if is_memory or tensors.is_tensor(parent):
            yield path, parent
            if type(parent) is np.ndarray and parent.dtype.hasobject and id(parent) not in seen:
                seen.add(id(parent))
                inside = enumerate(parent.reshape(-1).tolist())
                unvisited += reversed([((*path, key_text(step)), part) for step, part in inside])
            continue
        if type(parent) in (list, tuple):
            # Long lists of numbers are passed over quickly.
            inside = () if SCALARS.issuperset(map(type, parent)) else enumerate(parent)
        elif isinstance(parent, dict):
            inside = () if SCALARS.issuperset(map(type, parent.values())) else parent.items()
        elif trees.is_record(parent):
            inside = records.record_items(parent).items()
        elif (adapter := find_adapter(type(parent))) is None:
            continue
        elif adapter.immutable:
            if adapter.memory is not None:
                yield path, parent
            continue
        else:
            inside = ()
            if id(parent) not in seen:
                keep_alive.append(adapter.get(parent))
                unvisited.append((path, keep_alive[-1]))
        if id(parent) in seen:
            continue
        seen.add(id(parent))
        if not isinstance(parent, tuple):
            yield path, parent
        unvisited += reversed([((*path, key_text(step)), part) for step, part in inside])


def _held(root: Any) -> Iterator[tuple[Path, Any]]:
    """Yield arrays and containers held by an object, with their paths, to find shared parts."""
    seen: set[int] = set()
    keep_alive: list[Any] = []
    level: list[tuple[Path, Any]] = [((), root)]
    count = 0
    for _ in range(_MOST_DEPTH):
        below: list[tuple[Path, Any]] = []
        for path, parent in level:
            for step, part in _attributes(parent):
                kind = type(part)
                is_row = is_structured_scalar(part)
                if (
                    kind in SCALARS
                    or id(part) in seen
                    or (issubclass(kind, _PASSED) and not is_row)
                ):
                    continue
                count += 1
                if count > _MOST_THINGS:
                    return
                # Kept, so that nothing else gets its number meanwhile.
                seen.add(id(part))
                keep_alive.append(part)
                part_path = (*path, key_text(step))
                if is_row or isinstance(part, np.ndarray) or tensors.is_tensor(part):
                    yield part_path, part
                    gradient = getattr(part, "grad", None)
                    if gradient is not None:
                        yield (*part_path, "grad"), gradient
                    continue
                adapter = find_adapter(kind)
                if isinstance(part, dict | list) or (adapter and adapter.memory):
                    yield part_path, part
                below.append((part_path, part))
        level = below


def _attributes(parent: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(parent, Mapping):
        return list(parent.items())
    if isinstance(parent, list | tuple | set | frozenset):
        return enumerate(parent)
    slots = (kind.__dict__.get("__slots__", ()) for kind in type(parent).__mro__)
    names = [name for entry in slots for name in ((entry,) if isinstance(entry, str) else entry)]
    return [
        *getattr(parent, "__dict__", {}).items(),
        *((name, getattr(parent, name)) for name in names if hasattr(parent, name)),
    ]
