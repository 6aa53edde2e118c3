"""Find mutable parts that values share, at two places: memory, generators, objects.

A checkpoint stores each value by itself. What is one thing at two places is found here, so that it
is kept, or refused by name.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.big_integers import key_text
from jobrun.values import container_flattening as trees
from jobrun.values import dataclasses_and_tuples, pytorch
from jobrun.values import object_state as objects
from jobrun.values.adapters.registry import find_adapter, package_of
from jobrun.values.atomic_counter import Counter
from jobrun.values.estimators import is_estimator
from jobrun.values.structured_dtypes import is_structured_scalar

Array = np.ndarray[Any, Any]
Path = tuple[str, ...]
Pair = tuple[Path, Path]

# So deep, and at so many things, is looked for what an object holds.
_MOST_DEPTH = 12
_MOST_THINGS = 20_000
# From so many arrays on, pairs are not compared one by one.
_MANY = 32
_PLAIN = frozenset({str, bytes, bool, int, float, complex, type(None)})
_PASSED = (type, ModuleType, np.generic, FunctionType, BuiltinFunctionType, MethodType)
_SKIPPED = (type, ModuleType, str, bytes, bool, int, float, complex, np.ndarray, np.generic)


@dataclass(frozen=True, slots=True)
class _Memory:
    """Memory at a place in a value, as an array.

    Attributes:
        place: Where it is.
        array: Over the memory.
        owner: Memory of one owner may overlap: no change of one place is seen at another.
        fixed: Nothing can change it by way of this place.
    """

    place: Path
    array: Array
    owner: object = None
    fixed: bool = False


def find_overlapping(
    arrays: Mapping[Path, Any],
    held: Iterable[tuple[Path, Any]] = (),
    *,
    identical: bool = True,
) -> list[Pair]:
    """Find arrays that share memory in values; return the two paths of each such pair.

    One sweep over the beginnings of all arrays, and a closer look where they reach into each other.

    Args:
        arrays: By place; what is no array is passed over.
        held: Values whose adapters say over which memory they are, with their places.
        identical: Count one array at two places, too, beside views of one memory.
    """
    found = [memory for place, value in held for memory in _held_memory(place, value)]
    if not found and not identical and not any(map(_is_view, arrays.values())):
        return []
    has_views = bool(found)
    at: dict[int, Path] = {}
    pairs: list[Pair] = []
    for place, one in sorted(arrays.items(), key=itemgetter(0)):
        array = np.asarray(one) if is_structured_scalar(one) else one
        if type(array) is not np.ndarray or not array.size:
            continue
        if id(one) in at:
            if identical:
                pairs.append((at[id(one)], place))
            continue
        at[id(one)] = place
        # The memory of bytes never changes; equal ones may be one.
        base: Any = array.base
        if type(base) is not bytes:
            has_views = has_views or not array.flags.owndata
            found.append(_Memory(place, array, None, not array.flags.writeable))
    # Two arrays that own their memory have none in common.
    return [*pairs, *_in_common(found)] if has_views else pairs


def _held_memory(place: Path, value: Any) -> Iterator[_Memory]:
    """Yield the arrays in a value, as its adapter lists them, to find shared memory."""
    adapter = find_adapter(type(value))
    if adapter is None or adapter.memory is None:
        return
    owner = package_of(type(value)) if adapter.copies_on_write else id(value)
    for array in adapter.memory(value):
        if array.size:
            yield _Memory(place, array, owner, adapter.immutable)


def _is_view(value: Any) -> bool:
    if is_structured_scalar(value):
        return value.base is not None
    return type(value) is np.ndarray and not value.flags.owndata


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
        thing is None
        or isinstance(thing, _SKIPPED)
        or pytorch.is_tensor(thing)
        or (callable(thing) and not objects.is_object(thing))
    )


def _in_common(found: list[_Memory]) -> list[Pair]:
    spans = [(*_bounds(one.array), at) for at, one in enumerate(found)]
    spans.sort()
    pairs: list[Pair] = []
    group: list[int] = []
    end = 0
    for low, high, at in spans:
        if low >= end:
            pairs += _group_pairs(sorted((found[one] for one in group), key=_place_of))
            group = []
        group.append(at)
        end = max(end, high)
    return [*pairs, *_group_pairs(sorted((found[one] for one in group), key=_place_of))]


def _place_of(one: _Memory) -> Path:
    return one.place


def _group_pairs(group: list[_Memory]) -> list[Pair]:
    """Find pairs of arrays that share memory, among arrays whose address ranges overlap."""
    if len(group) > _MANY and all(one.owner is None for one in group):
        return _marked_pairs([(one.place, one.array) for one in group])
    pairs: list[Pair] = []
    for at, one in enumerate(group):
        other = next((earlier for earlier in group[:at] if _is_seen(one, earlier)), None)
        if other is not None:
            pairs.append((other.place, one.place))
    return pairs


def _is_seen(one: _Memory, other: _Memory) -> bool:
    """Return whether two arrays share memory so that a change of one alters the other."""
    if one.owner is not None and one.owner == other.owner:
        return False
    # Two read-only views may have a writable array below them, which is compared itself.
    is_fixed = one.fixed and other.fixed and (one.owner is not None or other.owner is not None)
    return not is_fixed and _shares(one.array, other.array)


def _shares(first: Array, second: Array) -> bool:
    compare: Any = np.shares_memory
    try:
        return bool(compare(first, second, max_work=10_000))
    except np.exceptions.TooHardError:
        return True


def _marked_pairs(group: list[tuple[Path, Array]]) -> list[Pair]:
    """Find arrays that share memory by marking the bytes of each in a map of all addresses."""
    bounds = [_bounds(array) for _, array in group]
    begin = min(low for low, _ in bounds)
    marks = np.zeros(max(high for _, high in bounds) - begin, np.int32)
    pairs: list[Pair] = []
    for number, (place, array) in enumerate(group, 1):
        first = array.__array_interface__["data"][0] - begin
        size = marks.itemsize
        seen = np.lib.stride_tricks.as_strided(
            marks[first:],
            (*array.shape, array.itemsize),
            (*(step * size for step in array.strides), size),
        )
        other = int(seen.max(initial=0))
        if other:
            pairs.append((group[other - 1][0], place))
        seen[...] = number
    return pairs


def _bounds(array: Array) -> tuple[int, int]:
    """Return the addresses at which an array's memory begins and ends, to find shared memory."""
    begin: int = array.__array_interface__["data"][0]
    if array.flags.c_contiguous:
        return begin, begin + array.nbytes
    steps = [step * (n - 1) for step, n in zip(array.strides, array.shape, strict=True)]
    low = begin + sum(step for step in steps if step < 0)
    return low, begin + sum(step for step in steps if step > 0) + array.itemsize


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
                if np.may_share_memory(one.array, other.array) and _is_seen(one, other):
                    return one.place, place
    return None


def mutable_parts(value: Any) -> dict[int, Any]:
    """Return the mutable parts of a value by ``id``, such as containers, arrays and tensors."""
    # What adapters return is here only while it is looked at, and is no part.
    return {id(one): one for _, one in _changeable(value)}


def _is_immutable(thing: Any) -> bool:
    adapter = find_adapter(type(thing))
    return adapter is not None and adapter.immutable


def _memory(place: Path, thing: Any) -> Iterable[_Memory]:
    """Return views of the memory of an array, tensor or adapted value, to find shared parts."""
    if isinstance(thing, np.ndarray) or is_structured_scalar(thing):
        array = np.asarray(thing)
        return (_Memory(place, array, None, not array.flags.writeable),) if thing.size else ()
    if not pytorch.is_tensor(thing):
        return _held_memory(place, thing)
    if thing.device.type != "cpu":
        return ()
    tensor = thing.detach()
    if not tensor.numel() or pytorch.explain_unsavable(tensor):
        return ()
    return [_Memory(place, array) for array in pytorch.to_arrays([tensor])]


def _changeable(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the mutable parts of a value that another value could share, each with its path."""
    seen: set[int] = set()
    kept: list[Any] = []
    rest: list[tuple[Path, Any]] = [((), value)]
    while rest:
        place, thing = rest.pop()
        is_memory = isinstance(thing, np.ndarray | Counter) or is_structured_scalar(thing)
        inside: Iterable[tuple[Any, Any]]
        if is_memory or pytorch.is_tensor(thing):
            yield place, thing
            if type(thing) is np.ndarray and thing.dtype.hasobject and id(thing) not in seen:
                seen.add(id(thing))
                inside = enumerate(thing.reshape(-1).tolist())
                rest += reversed([((*place, key_text(step)), part) for step, part in inside])
            continue
        if type(thing) in (list, tuple):
            # Long lists of numbers are passed over quickly.
            inside = () if _PLAIN.issuperset(map(type, thing)) else enumerate(thing)
        elif isinstance(thing, dict):
            inside = () if _PLAIN.issuperset(map(type, thing.values())) else thing.items()
        elif trees.is_record(thing):
            inside = dataclasses_and_tuples.record_items(thing).items()
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
                if kind in _PLAIN or id(part) in seen or (issubclass(kind, _PASSED) and not is_row):
                    continue
                count += 1
                if count > _MOST_THINGS:
                    return
                # Kept, so that nothing else gets its number meanwhile.
                seen.add(id(part))
                kept.append(part)
                at = (*place, key_text(step))
                if is_row or isinstance(part, np.ndarray) or pytorch.is_tensor(part):
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
