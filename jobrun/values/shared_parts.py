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
    held: list[tuple[Path, Any]] = []
    groups: dict[int, list[Path]] = {}
    kept: list[Any] = []
    estimators: set[Path] = set()
    for place, thing in _parts(roots):
        adapter = find_adapter(type(thing))
        if adapter is not None and adapter.memory is not None:
            held.append((place, thing))
        key = _identity(thing)
        if is_estimator(thing):
            estimators.add(place)
        if key is None:
            continue
        # Kept, so that nothing else gets its number meanwhile.
        kept.append(key)
        places = groups.setdefault(id(key), [])
        # An estimator's state keeps that two of its attributes are one, under the first of them.
        if place[:-1] not in estimators or all(one[:-1] != place[:-1] for one in places):
            places.append(place)
    ways = map(sorted, groups.values())
    return [(places[0], place) for places in ways for place in places[1:]], held


def render_place(place: Path) -> str:
    """Render the path to a shared part in a blob's value as text, such as ``'k'.random_state``."""
    name, *steps = place
    return ".".join((f"'{name}'", *steps))


def _identity(thing: Any) -> Any:
    """Return what identifies a random generator or object among shared parts; else None."""
    if _is_random(thing, "Generator"):
        return thing.bit_generator
    if _is_random(thing, "RandomState"):
        # The bit generator that it may share with a Generator.
        return getattr(thing, "_bit_generator", thing)
    if _is_random(thing, "BitGenerator") or isinstance(thing, random.Random):
        return thing
    return thing if objects.is_object(thing) else None


def _is_random(thing: Any, name: str) -> bool:
    kind = objects.random_class(name)
    return kind is not None and isinstance(thing, kind)


def _parts(roots: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield each part of the values with its path, short paths first, to find shared parts."""
    # An object is looked into once; each path to it is found.
    seen: set[int] = set()
    kept: list[Any] = []
    level: list[tuple[Path, Any]] = [((name,), one) for name, one in roots.items()]
    count = 0
    for _ in range(_MOST_DEPTH):
        below: list[tuple[Path, Any]] = []
        for place, thing in level:
            yield place, thing
            count += 1
            if count > _MOST_THINGS:
                return
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            kept.append(thing)
            below += (((*place, step), part) for step, part in _inside(thing))
        level = below


def _inside(thing: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        held: Iterable[tuple[Any, Any]] = list(thing.items())
    elif isinstance(thing, list | tuple | set | frozenset):
        held = enumerate(thing)
    else:
        held = list(getattr(thing, "__dict__", {}).items())
    return [(key_text(step), part) for step, part in held if not _is_passed_over(part)]


def _is_passed_over(thing: Any) -> bool:
    return (
        isinstance(thing, _SKIPPED)
        or tensors.is_tensor(thing)
        or (callable(thing) and not objects.is_object(thing))
    )


def find_common_part(first: Any, second: Any) -> Pair | None:
    """Find a mutable part that two values share, and return the path to it in each value.

    None where there is nothing: no array or tensor over one memory, and no container that both
    have. Of an object is looked at what its attributes hold, so deep and at so many things as is
    set above; of two objects nothing (``find_shared_parts``).
    """
    has_objects = [objects.is_object(one) for one in (first, second)]
    if all(has_objects):
        return None
    if has_objects[0]:
        found = find_common_part(second, first)
        return found and (found[1], found[0])
    ours = list(_changeable(first))
    if not ours:
        return None
    theirs = _held(second) if has_objects[1] else _changeable(second)
    known = {id(thing): place for place, thing in ours if not _is_immutable(thing)}
    memory = [one for place, thing in ours for one in _memory(place, thing)]
    for place, thing in theirs:
        if id(thing) in known:
            return known[id(thing)], place
        for other in _memory(place, thing) if memory else ():
            for one in memory:
                if np.may_share_memory(one.array, other.array) and can_see(one, other):
                    return one.place, place
    return None


def mutable_parts(value: Any) -> dict[int, Any]:
    """Return the mutable parts of a value by ``id``, such as containers, arrays and tensors."""
    # What adapters return is here only while it is looked at, and is no part.
    return {id(one): one for _, one in _changeable(value)}


def _is_immutable(thing: Any) -> bool:
    adapter = find_adapter(type(thing))
    return adapter is not None and adapter.immutable


def _memory(place: Path, thing: Any) -> Iterable[Memory]:
    """Return views of the memory of an array, tensor or adapted value, to find shared parts."""
    if isinstance(thing, np.ndarray) or is_structured_scalar(thing):
        array = np.asarray(thing)
        return (Memory(place, array, None, not array.flags.writeable),) if thing.size else ()
    if not tensors.is_tensor(thing):
        return held_memory(place, thing)
    if thing.device.type != "cpu":
        return ()
    tensor = thing.detach()
    if not tensor.numel() or tensors.explain_unsavable(tensor):
        return ()
    return [Memory(place, array) for array in tensors.to_arrays([tensor])]


def _changeable(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the mutable parts of a value that another value could share, each with its path."""
    seen: set[int] = set()
    kept: list[Any] = []
    rest: list[tuple[Path, Any]] = [((), value)]
    while rest:
        place, thing = rest.pop()
        is_memory = isinstance(thing, np.ndarray | Counter) or is_structured_scalar(thing)
        inside: Iterable[tuple[Any, Any]]
        if is_memory or tensors.is_tensor(thing):
            yield place, thing
            if type(thing) is np.ndarray and thing.dtype.hasobject and id(thing) not in seen:
                seen.add(id(thing))
                inside = enumerate(thing.reshape(-1).tolist())
                rest += reversed([((*place, key_text(step)), part) for step, part in inside])
            continue
        if type(thing) in (list, tuple):
            # Long lists of numbers are passed over quickly.
            inside = () if SCALARS.issuperset(map(type, thing)) else enumerate(thing)
        elif isinstance(thing, dict):
            inside = () if SCALARS.issuperset(map(type, thing.values())) else thing.items()
        elif trees.is_record(thing):
            inside = records.record_items(thing).items()
        elif (adapter := find_adapter(type(thing))) is None:
            continue
        elif adapter.immutable:
            if adapter.memory is not None:
                yield place, thing
            continue
        else:
            inside = ()
            if id(thing) not in seen:
                kept.append(adapter.get(thing))
                rest.append((place, kept[-1]))
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if not isinstance(thing, tuple):
            yield place, thing
        rest += reversed([((*place, key_text(step)), part) for step, part in inside])


def _held(root: Any) -> Iterator[tuple[Path, Any]]:
    """Yield arrays and containers held by an object, with their paths, to find shared parts."""
    seen: set[int] = set()
    kept: list[Any] = []
    level: list[tuple[Path, Any]] = [((), root)]
    count = 0
    for _ in range(_MOST_DEPTH):
        below: list[tuple[Path, Any]] = []
        for place, thing in level:
            for step, part in _attributes(thing):
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
                kept.append(part)
                at = (*place, key_text(step))
                if is_row or isinstance(part, np.ndarray) or tensors.is_tensor(part):
                    yield at, part
                    gradient = getattr(part, "grad", None)
                    if gradient is not None:
                        yield (*at, "grad"), gradient
                    continue
                adapter = find_adapter(kind)
                if isinstance(part, dict | list) or (adapter and adapter.memory):
                    yield at, part
                below.append((at, part))
        level = below


def _attributes(thing: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(thing, Mapping):
        return list(thing.items())
    if isinstance(thing, list | tuple | set | frozenset):
        return enumerate(thing)
    slots = (kind.__dict__.get("__slots__", ()) for kind in type(thing).__mro__)
    names = [name for one in slots for name in ((one,) if isinstance(one, str) else one)]
    return [
        *getattr(thing, "__dict__", {}).items(),
        *((name, getattr(thing, name)) for name in names if hasattr(thing, name)),
    ]
