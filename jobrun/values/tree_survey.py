"""Survey a tree of Python objects at the speed of C: its classes, its arrays, who refers to it.

An epoch whose state is a tree of thousands of small objects must not pay for each of them in
Python. The garbage collector's own traversal (``gc.get_referents``) lists a level of the tree at a
time; what is asked is answered from these lists as wholes: which classes there are, whether all
arrays are in boundary form, and, by comparing counts of references, whether anything outside the
tree refers to a part of it. Where that is so, or a class is not known to be traversed wholly, the
answer is None, and the walks in Python decide.
"""

from __future__ import annotations

import copyreg
import gc
import sys
from collections import defaultdict, deque
from types import BuiltinFunctionType
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from jobrun.values.adapters.registry import find_adapter, find_name
from jobrun.values.axis_order import is_dense
from jobrun.values.kinds import record as records
from jobrun.values.kinds.builtin import SCALARS

_CONTAINERS: frozenset[type] = frozenset({list, dict, tuple, set, frozenset, deque, defaultdict})
# A load makes another one at each place, so nothing depends on who refers to them.
_IMMUTABLE: frozenset[type] = frozenset({tuple, frozenset})
_MOST_DEPTH = 200
_HEAP_TYPE, _HAS_GC = 1 << 9, 1 << 14
# Methods of a class that pickle calls, which may do anything; a plain class has those of object.
_PICKLE_HOOKS = ("__reduce__", "__reduce_ex__", "__getstate__")
_NEW_ARGUMENTS = ("__getnewargs__", "__getnewargs_ex__")


class Survey(Struct, frozen=True):
    """What a tree consists of, all of it of kinds that can be kept.

    Attributes:
        classes: Of its parts.
        is_exclusive: Nothing outside the tree refers to a mutable part of it, but its root.
        root_references: How often the tree refers to its own root.
    """

    classes: frozenset[type]
    is_exclusive: bool
    root_references: int

    def may_be_pickled(self) -> bool:
        """Return whether a pickle in memory shows each change of the tree, and runs no code."""
        return all(map(_is_pickled_plainly, self.classes))


def survey(tree: Any) -> Survey | None:
    """Return what a tree consists of, and who refers to it; None where only a walk can tell.

    Otherwise the tree is in boundary form, whose arrays own dense memory, and is made of classes
    that a checkpoint can hold. A part that cannot be kept for what is in it is refused by a save.
    """
    try:
        classes = _traverse_unshared(tree)
        return None if classes is None else Survey(frozenset(classes), True, 0)
    except _SharedPartsError:
        pass
    traversal = _Traversal(tree)
    if not traversal.run():
        return None
    is_exclusive = traversal.is_exclusive()
    return Survey(frozenset(traversal.classes), is_exclusive, traversal.root_references)


class _SharedPartsError(Exception):
    """More than one reference leads to a part of a tree, from inside or outside."""


def _traverse_unshared(tree: Any) -> set[type] | None:
    """Collect the classes of a tree in which each part has one reference, its container's.

    No part needs to be looked up then: none is met twice.

    Raises:
        _SharedPartsError: There is a part with more references, or an immutable one that has parts.
    """
    classes = {type(tree)}
    if not (type(tree) in _CONTAINERS or _is_traversed(type(tree))):
        return None
    level: list[Any] = [tree]
    for _ in range(_MOST_DEPTH):
        below = gc.get_referents(*level)
        new = set(map(type, below)) - SCALARS
        if not new:
            return classes
        roles = {kind: _role(kind) for kind in new}
        if None in roles.values():
            return None
        classes |= new
        if "named" in roles.values():
            named = {part for part in below if roles.get(type(part)) == "named"}
            if not all(map(_is_known_by_name, named)):
                raise _SharedPartsError
        mutable = frozenset(filter(_is_mutable, new))
        if not _IMMUTABLE.isdisjoint(new) and not all(
            SCALARS.issuperset(map(type, part)) for part in below if type(part) in _IMMUTABLE
        ):
            raise _SharedPartsError
        # The list and the tree are all that refers to each.
        below = [part for part in below if type(part) in mutable]
        if not all(map((_LISTED + 1).__ge__, map(sys.getrefcount, below))):
            raise _SharedPartsError
        if np.ndarray in new and not all(map(_is_settled, below)):
            return None
        level = [part for part in below if roles[type(part)] == "node"]
        if not level:
            return classes
    return None


class _Traversal:
    """A traversal by levels that collects the parts of a tree, and counts references to them.

    Attributes:
        classes: Of its parts.
        root_references: How often the tree refers to its own root.
    """

    def __init__(self, tree: Any) -> None:
        self.classes: set[type] = {type(tree)}
        self.root_references = 0
        self._root = tree
        self._parts: dict[int, Any] = {id(tree): tree}
        # To parts that can change.
        self._references = 0

    def run(self) -> bool:
        """Visit all parts; return whether all of them are of kinds that can be kept."""
        kind = type(self._root)
        if kind not in _CONTAINERS and not _is_traversed(kind):
            return False
        level = [self._root]
        for _ in range(_MOST_DEPTH):
            below = self._visit(level)
            if not below:
                return below is not None
            level = below
        return False

    def _visit(self, level: list[Any]) -> list[Any] | None:
        """Visit what a level refers to; return the new parts that have parts; None if not known."""
        below = gc.get_referents(*level)
        new = set(map(type, below)) - SCALARS
        roles = {kind: _role(kind) for kind in new}
        if None in roles.values():
            return None
        self.classes |= new
        below = [part for part in below if type(part) not in SCALARS]
        if "named" in roles.values():
            named = {
                id(part): part
                for part in below
                if roles[type(part)] == "named" and not _is_bound(part)
            }
            if not all(map(_is_known_by_name, named.values())):
                return None
            below = [part for part in below if id(part) not in named]
        if np.ndarray in new and not all(map(_is_settled, below)):
            return None
        immutable = frozenset(kind for kind in new if not _is_mutable(kind))
        self._references += len(below)
        if immutable:
            self._references -= sum(type(part) in immutable for part in below)
        numbers = list(map(id, below))
        self.root_references += numbers.count(id(self._root))
        distinct = dict(zip(numbers, below, strict=True))
        again = distinct.keys() & self._parts.keys()
        if again and not all(_may_be_met_again(distinct[number]) for number in again):
            return None
        for number in again:
            del distinct[number]
        self._parts |= distinct
        if "leaf" not in roles.values():
            return list(distinct.values())
        return [part for part in distinct.values() if roles[type(part)] != "leaf"]

    def is_exclusive(self) -> bool:
        """Return whether all references to the mutable parts but the root are those in the tree.

        Each part has as many as were met, or more: where the sums are equal, so is each.
        """
        # The caller knows who refers to the root.
        del self._parts[id(self._root)]
        mutable = frozenset(filter(_is_mutable, self.classes))
        numbers = [number for number, part in self._parts.items() if type(part) in mutable]
        # Each in one list alone, so that the interpreter counts no other reference of ours.
        listed = list(map(self._parts.pop, numbers))
        expected = self._references - self.root_references + _LISTED * len(listed)
        return sum(map(sys.getrefcount, listed)) <= expected


def _role(kind: type) -> Literal["node", "leaf", "named"] | None:
    """Return whether objects of a class have parts, or are known by name; None if not known."""
    if kind in _CONTAINERS:
        return "node"
    if kind is np.ndarray or issubclass(kind, np.number | np.bool_):
        return "leaf"
    adapter = find_adapter(kind)
    if adapter is not None and adapter.by_name:
        return "named"
    if adapter is not None and adapter.immutable and adapter.memory is None:
        return "leaf"
    return "node" if _is_traversed(kind) else None


def _is_traversed(kind: type) -> bool:
    """Return whether the collector sees all that an instance of a class of Python refers to."""
    if not kind.__flags__ & _HEAP_TYPE or not kind.__flags__ & _HAS_GC:
        return False
    bases = {base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE}
    form = records.record_form(kind)
    if form is not None:
        is_found = records.find_class(records.class_name(kind)) is kind
        return is_found and bases <= {object, tuple}
    adapter = find_adapter(kind)
    is_value = adapter is not None and adapter.make is not None and adapter.set is None
    return is_value and adapter is not None and adapter.memory is None and bases <= {object}


def _is_bound(part: Any) -> bool:
    """Return whether a part is a method of a container, such as views of networkx have."""
    return type(part) is BuiltinFunctionType and type(part.__self__) in _CONTAINERS


def _is_known_by_name(value: Any) -> bool:
    return bool(find_name(value)) or (isinstance(value, type) and _is_traversed(value))


def _is_settled(part: Any) -> bool:
    """Return whether an array in a tree, if this is one, is in boundary form."""
    if type(part) is not np.ndarray:
        return True
    flags, dtype = part.flags, part.dtype
    is_plain = dtype.isbuiltin == 1 and not dtype.metadata and not dtype.hasobject
    return bool(is_plain and flags.behaved and flags.owndata and is_dense(part))


def _may_be_met_again(part: Any) -> bool:
    """Return whether a part may contain itself, or cannot: anything but what is made at once."""
    kind = type(part)
    if kind in (list, dict, np.ndarray) or isinstance(part, np.generic):
        return True
    if kind in _CONTAINERS:
        return SCALARS.issuperset(map(type, part))
    if records.record_form(kind) is not None:
        return records.record_form(kind) == "fields"
    adapter = find_adapter(kind)
    return adapter is not None and (adapter.immutable or adapter.fill is not None)


def _is_mutable(kind: type) -> bool:
    if kind in _IMMUTABLE or issubclass(kind, np.generic) or kind is type(None):
        return False
    adapter = None if kind in _CONTAINERS else find_adapter(kind)
    return adapter is None or not adapter.immutable


def _is_pickled_plainly(kind: type) -> bool:
    if kind in (np.ndarray, set):
        # Their memory, and the order in which a set grows, are not in a pickle.
        return False
    if kind in _CONTAINERS or kind in SCALARS or issubclass(kind, np.generic):
        return True
    adapter = find_adapter(kind)
    if adapter is not None and adapter.immutable:
        return True
    plain: Any = object
    return (
        kind not in copyreg.dispatch_table
        and not any(hasattr(kind, name) for name in _NEW_ARGUMENTS)
        and all(getattr(kind, name) is getattr(plain, name, None) for name in _PICKLE_HOOKS)
    )


# How many references this interpreter counts to what nothing but a list refers to.
_LISTED = next(map(sys.getrefcount, [[]]))
