"""Find arrays that share memory, and lay copies of them out in common memory in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.values.adapters.registry import find_adapter, package_of
from jobrun.values.kinds.array import is_structured_scalar

Array = np.ndarray[Any, Any]
Path = tuple[str, ...]
Pair = tuple[Path, Path]
# Bytes, and of each array in them its path, the offset of its first item, and its strides.
Layout = list[Any]

# From so many arrays on, pairs are not compared one by one.
_MANY = 32
# So many times its arrays common memory may be large: a few numbers in a file must not ask for all.
_MOST_GAPS = 1 << 16


class Memory(Struct, frozen=True):
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
    memories = [memory for path, value in held for memory in held_memory(path, value)]
    if not memories and not identical and not any(map(_is_view, arrays.values())):
        return []
    has_views = bool(memories)
    first_paths: dict[int, Path] = {}
    pairs: list[Pair] = []
    for path, leaf in sorted(arrays.items(), key=itemgetter(0)):
        array = np.asarray(leaf) if is_structured_scalar(leaf) else leaf
        if type(array) is not np.ndarray or not array.size:
            continue
        if id(leaf) in first_paths:
            if identical:
                pairs.append((first_paths[id(leaf)], path))
            continue
        first_paths[id(leaf)] = path
        # The memory of bytes never changes; equal ones may be one.
        base: Any = array.base
        if type(base) is not bytes:
            has_views = has_views or not array.flags.owndata
            memories.append(Memory(path, array, None, not array.flags.writeable))
    # Two arrays that own their memory have none in common.
    return [*pairs, *_in_common(memories)] if has_views else pairs


def held_memory(path: Path, value: Any) -> Iterator[Memory]:
    """Yield the arrays in a value, as its adapter lists them, to find shared memory."""
    adapter = find_adapter(type(value))
    if adapter is None or adapter.memory is None:
        return
    owner = package_of(type(value)) if adapter.copies_on_write else id(value)
    for array in adapter.memory(value):
        if array.size:
            yield Memory(path, array, owner, adapter.immutable)


def _is_view(value: Any) -> bool:
    if is_structured_scalar(value):
        return value.base is not None
    return type(value) is np.ndarray and not value.flags.owndata


def common_layouts(leaves: Mapping[Path, Any], pairs: Iterable[Pair]) -> list[Layout]:
    """Describe how arrays lie in the memory that they share, for JSON.

    Args:
        leaves: By path.
        pairs: Of the paths of arrays that overlap, as ``find_overlapping`` returns them.
    """
    groups: dict[Path, list[Path]] = {}
    for pair in pairs:
        first, second = (groups.setdefault(path, [path]) for path in pair)
        if first is not second:
            first += second
            groups.update(dict.fromkeys(second, first))
    layouts = []
    for group in {id(one): one for one in groups.values()}.values():
        arrays = {path: np.asarray(leaves[path]) for path in sorted(group)}
        bounds = [_bounds(array) for array in arrays.values()]
        begin = min(low for low, _ in bounds)
        members = [
            [list(path), array.__array_interface__["data"][0] - begin, list(array.strides)]
            for path, array in arrays.items()
        ]
        layouts.append([max(high for _, high in bounds) - begin, members])
    return sorted(layouts, key=itemgetter(1))


def lay_out(layouts: Iterable[Layout], leaves: Mapping[Path, Any]) -> dict[Path, Any]:
    """Copy arrays into common memory, so that they overlap as ``common_layouts`` has described.

    Raises:
        ValueError: The two do not belong together.
    """
    placed: dict[Path, Any] = {}
    for extent, members in layouts:
        arrays = {tuple(path): np.asarray(leaves[tuple(path)]) for path, _, _ in members}
        if extent > _MOST_GAPS * max(1 << 10, sum(array.nbytes for array in arrays.values())):
            raise ValueError("arrays that share memory leave too large gaps")
        memory = np.zeros(extent, np.uint8)
        for path, offset, strides in members:
            array = arrays[tuple(path)]
            view: Array = np.ndarray(array.shape, array.dtype, memory, offset, strides)
            view[...] = array
            is_array = isinstance(leaves[tuple(path)], np.ndarray)
            placed[tuple(path)] = view if is_array else view[()]
    return placed


def _in_common(memories: list[Memory]) -> list[Pair]:
    spans = [(*_bounds(member.array), at) for at, member in enumerate(memories)]
    spans.sort()
    pairs: list[Pair] = []
    group: list[int] = []
    end = 0
    for low, high, at in spans:
        if low >= end:
            pairs += _group_pairs(sorted((memories[index] for index in group), key=_place_of))
            group = []
        group.append(at)
        end = max(end, high)
    return [*pairs, *_group_pairs(sorted((memories[index] for index in group), key=_place_of))]


def _place_of(memory: Memory) -> Path:
    return memory.place


def _group_pairs(group: list[Memory]) -> list[Pair]:
    """Find pairs of arrays that share memory, among arrays whose address ranges overlap."""
    if len(group) > _MANY and all(memory.owner is None for memory in group):
        return _marked_pairs([(memory.place, memory.array) for memory in group])
    pairs: list[Pair] = []
    for at, memory in enumerate(group):
        other = next((earlier for earlier in group[:at] if can_see(memory, earlier)), None)
        if other is not None:
            pairs.append((other.place, memory.place))
    return pairs


def can_see(memory: Memory, other: Memory) -> bool:
    """Return whether two arrays share memory so that a change of one alters the other."""
    if memory.owner is not None and memory.owner == other.owner:
        return False
    # Two read-only views may have a writable array below them, which is compared itself.
    is_fixed = (
        memory.fixed and other.fixed and (memory.owner is not None or other.owner is not None)
    )
    return not is_fixed and _shares(memory.array, other.array)


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
