"""Adapt set and frozenset so that they iterate, grow and pop after a resume as before it.

The order in which a set is iterated over is that of its hash table: it depends on the hashes of
the items, on the order in which they were added, on the size of the table, and on what was
removed. CPython says none of that, so the table is read from memory, and a set with the same table
is made by adding the items, and placeholders for those that were removed, in an order that puts
each where it was. What has been made is compared with the original before it is saved, so a set
whose table cannot be made again is refused by name, never loaded in another order.

The table is described in ``Include/cpython/setobject.h`` and ``Objects/setobject.c`` of CPython.
"""

from __future__ import annotations

import operator
import struct
import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, MethodType
from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.values.adapters.registry import Adapter, UnsavableError, class_text

AnySet = set[Any] | frozenset[Any]

_SMALLEST = 8  # slots of a new set's table
_NEIGHBOURS = 9  # slots after the first one that are tried before the next jump
_FIELDS = struct.Struct("8n")  # references, class, fill, used, mask, table, hash, finger
_ENTRY = 16  # bytes of a slot: the key's address, and its hash
_MASK64 = (1 << 64) - 1
_PLACEHOLDERS = 1 << 60  # hashes of placeholders, which are those of no small integer
_FARTHEST = 1 << 22  # slots; a set from which as many were popped is not kept
_BY_ADDRESS: Any = object.__hash__


class _Table(Struct, frozen=True):
    """The hash table of a set.

    Attributes:
        items: In the order of their slots, which is that of iteration.
        slots: Of each of the items.
        gaps: Slots of items that were removed; they stay occupied until the table grows.
        size: Number of slots, a power of two.
        finger: The slot at which ``pop`` begins to search.
    """

    items: list[Any]
    slots: list[int]
    gaps: list[int]
    size: int
    finger: int

    def places(self) -> tuple[list[int], list[int], int, int]:
        """Return the layout of a set's hash table: used slots, gaps, size, start of ``pop``."""
        return self.slots, self.gaps, self.size, self.finger


class _Placeholder:
    """Occupies the slot of a removed item while a table is filled."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def __hash__(self) -> int:
        return _PLACEHOLDERS + self.slot


def _tree(value: AnySet) -> Any:
    """Convert a set to a list if this keeps its order, or else to a dict of its hash table.

    Raises:
        UnsavableError: The table cannot be made again, or another process has other hashes.
    """
    items = list(value)
    if len(items) > 1:
        for item in items:
            _check_hash(item)
    elif isinstance(value, frozenset):
        return items
    table = _read_table(value)
    if table is None:
        if len(items) > 1 and list(type(value)(items)) != items:
            raise UnsavableError((), f"{_name(value)} whose order cannot be kept")
        return items
    if not table.gaps and not table.finger:
        for order in (items, _filling_order(table)):
            if _has(type(value)(order), table):
                return order
    tree: dict[str, Any] = {"gaps": table.gaps, "size": table.size, "finger": table.finger}
    if isinstance(value, frozenset):
        tree |= {"items": _filling_order(table), "late": []}
    else:
        first, late = _split(table)
        order = [item for item, _ in first + late]
        tree |= {"items": order, "late": [slot for _, slot in late]}
    if table.finger > _FARTHEST or not _has(_make(type(value), tree), table):
        raise UnsavableError((), f"{_name(value)} whose order cannot be kept")
    return tree


def _make(kind: type, tree: Any) -> Any:
    """Rebuild a set or frozenset in its saved order, from the saved list or hash table.

    An item that does not have the slot of its hash is ``late``: it takes the slot of a placeholder
    that is removed, when all slots that it tries before are occupied.
    """
    if isinstance(tree, list):
        return kind(tree)
    if tree["finger"] > _FARTHEST:
        raise ValueError("a set's finger is farther than any that is saved")
    late = [_Placeholder(slot) for slot in tree["late"]]
    gaps = [_Placeholder(slot) for slot in tree["gaps"]]
    early = len(tree["items"]) - len(late)
    order = [*late, *gaps, *tree["items"][:early]]
    stages = _stages(order, tree["size"])
    if kind is frozenset:
        full = frozenset().union(*stages)
        return frozenset(gaps).symmetric_difference(full) if gaps else full
    rebuilt = _empty_with_finger(tree["finger"])
    if tree["size"] == 2 * _SMALLEST and len(order) == 2:
        # What is left when most of a set is removed at once.
        removed = [_Placeholder(slot) for slot in range(_SMALLEST)]
        rebuilt.update(dict.fromkeys(removed), order)
        rebuilt.difference_update(removed)
    else:
        rebuilt.update(*stages)
    for placeholder, item in zip(late, tree["items"][early:], strict=True):
        rebuilt.discard(placeholder)
        rebuilt.add(item)
    for gap in gaps:  # one by one, which leaves the table as large as it is
        rebuilt.discard(gap)
    return rebuilt


def _check_hash(item: Any) -> None:
    """Refuse to save a set's item whose hash, or that of an item inside, is a memory address."""
    if isinstance(item, (tuple, frozenset)):
        for part in item:
            _check_hash(part)
    elif (
        isinstance(item, (MethodType, BuiltinFunctionType))
        or type(item).__hash__ is _BY_ADDRESS
        or (item is None and sys.version_info < (3, 12))
        or item != item  # noqa: PLR0124 - NaN, whose hash is its address
    ):
        subject = "nan" if isinstance(item, float) else class_text(item)
        raise UnsavableError((), f"a set with {subject}, by whose address it is ordered")


def _name(value: AnySet) -> str:
    return "a frozenset" if isinstance(value, frozenset) else "a set"


def _has(value: AnySet, table: _Table) -> bool:
    """Return whether a set has the given hash table: the same items and gaps in the same slots."""
    other = _read_table(value)
    return (
        other is not None
        and other.places() == table.places()
        and all(map(operator.is_, other.items, table.items))
    )


def _read_table(value: AnySet) -> _Table | None:
    """Read the hash table of a set from memory; None if it is not laid out as in CPython."""
    import ctypes  # noqa: PLC0415 - few jobs have sets

    small = id(value) + _FIELDS.size
    _, kind, fill, used, mask, where, _, finger = _FIELDS.unpack(
        ctypes.string_at(id(value), _FIELDS.size)
    )
    size = mask + 1
    known = kind == id(type(value)) and used == len(value) and used <= fill <= mask
    more = 0 if where == small else size * _ENTRY
    if not known or size & mask or value.__sizeof__() != type(value)().__sizeof__() + more:
        return None
    entries = np.frombuffer(ctypes.string_at(where, size * _ENTRY), np.intp).reshape(size, 2)
    gaps = np.flatnonzero(entries[:, 1] == -1)
    taken = np.flatnonzero((entries[:, 0] != 0) & (entries[:, 1] != -1))
    items = list(value)
    if entries[taken, 0].tolist() != [id(item) for item in items] or len(gaps) != fill - used:
        return None
    return _Table(items, taken.tolist(), gaps.tolist(), size, finger)


def _split(table: _Table) -> tuple[list[tuple[Any, int]], list[tuple[Any, int]]]:
    """Split a set's items by slot: items in the slot of their own hash, and displaced items."""
    parts: tuple[list[tuple[Any, int]], list[tuple[Any, int]]] = ([], [])
    for item, slot in zip(table.items, table.slots, strict=True):
        parts[hash(item) & (table.size - 1) != slot].append((item, slot))
    return parts


def _filling_order(table: _Table) -> list[Any]:
    """Order a set's items so that each gets its slot in the hash table when added in turn.

    First those whose hash says their slot. Each of the others needs all slots occupied that it
    tries before its own.
    """
    mask = table.size - 1
    first, displaced = _split(table)
    order = [item for item, _ in first]
    taken = {*table.gaps, *(slot for _, slot in first)}
    while displaced:
        waiting = []
        for item, slot in displaced:
            if next(free for free in _tried(hash(item), mask) if free not in taken) == slot:
                order.append(item)
                taken.add(slot)
            else:
                waiting.append((item, slot))
        if len(waiting) == len(displaced):  # items were removed, and their slots used again
            return order + [item for item, _ in waiting]
        displaced = waiting
    return order


def _tried(hashed: int, mask: int) -> Iterator[int]:
    """Yield, in order, the slots of a set's hash table that CPython tries for a hash value."""
    slot, perturbation = hashed & mask, hashed & _MASK64
    while True:
        yield from range(slot, slot + 1 + (_NEIGHBOURS if slot + _NEIGHBOURS <= mask else 0))
        perturbation >>= 5
        slot = (slot * 5 + 1 + perturbation) & mask


def _stages(order: list[Any], size: int) -> list[Iterable[Any]]:
    """Split a set's items into ``update`` calls that rebuild a hash table of the saved size.

    Room is made for a dict before its keys are added: a table gets more than twice as many slots
    as there are items and keys together, also where some keys are items already.
    """
    if size == _SMALLEST:
        return [order]
    counted = max(size // 4, 5)
    if len(order) >= counted:
        return [dict.fromkeys(order[:counted]), order[counted:]]
    twice = order[: counted - len(order)]
    smaller = _SMALLEST
    while len(twice) * 5 >= (smaller - 1) * 3:
        smaller *= 2
    return [*_stages(twice, smaller), dict.fromkeys(order)]


def _empty_with_finger(finger: int) -> set[Any]:
    """Make an empty set whose ``pop`` begins its search at a given slot of the hash table."""
    rebuilt: set[Any] = set()
    if finger:
        count = max(5, 1 << finger.bit_length() - 1)
        rebuilt.update(dict.fromkeys(_Placeholder(finger - 1 + number) for number in range(count)))
        rebuilt.pop()
        rebuilt.clear()
    return rebuilt


SET = Adapter(_tree, _make)
# Its items may be changed in no way that a copy would show: all are hashable.
FROZENSET = Adapter(_tree, _make, immutable=True)
