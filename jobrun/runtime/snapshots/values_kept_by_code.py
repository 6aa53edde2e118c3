"""Detect changes of values that a callable has kept after it returned them or had them lent.

A blob is a value of its own: of what a callable keeps a reference to, the blob gets a copy. In
plain Python the two are one, and a change of what was kept is one of the blob. So what is kept is
remembered with its digest, only where more references to it are counted than the call accounts
for, and is refused when it changes while the blob still is what it was bound to then.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.big_integers import key_text
from jobrun.values import container_flattening as trees
from jobrun.values import dataclasses_and_tuples
from jobrun.values.adapters.registry import Path, find_adapter
from jobrun.values.blob_kinds import Value, describe, is_object
from jobrun.values.change_detection import digest_value

Parts = list[tuple[Path, Any]]

# So many values that were kept of one blob, epoch after epoch, are looked at.
_MOST_PARTS = 16
# All of large arrays is read at saves only, for this share of the time at most.
_MOST_TIME = 0.02
_WITHOUT_PARTS: frozenset[type] = frozenset({bool, int, float, complex, str, bytes, type(None)})


def count_others(owner: dict[str, Any] | list[Any], key: Any) -> int:
    """Count the references to an item of a dict or list that code keeps: not the container's.

    It is asked by its place: from Python 3.14 on, a variable that is only looked at, or handed on
    to a function, counts or does not, as the compiler sees fit. To take an item out of a container
    makes a reference, in every version.
    """
    return sys.getrefcount(owner[key]) - _of_owner


_of_owner = 0
_of_owner = count_others([np.empty(0)], 0)


def count_owner_references(values: Mapping[str, Value]) -> dict[str, int]:
    """Count references to the array behind each value that is a view; code may keep some."""
    return {
        name: sys.getrefcount(value.base)
        for name, value in values.items()
        if type(value) is np.ndarray and value.base is not None
    }


def find_kept(value: Value, *, is_kept: bool, arrays: bool = True) -> Parts:
    """Find parts of a blob's value to which user code still refers, but no parts of such parts.

    Args:
        value: The value.
        is_kept: Something else refers to the value itself.
        arrays: Look at arrays, too.
    """
    if is_kept:
        return [((), value)]
    found = _collect_parts(value, arrays=arrays)
    views = Counter(id(one.thing.base) for one in found.values() if _is_view(one.thing))
    kept = [
        (one.path, one.thing)
        for one in found.values()
        if sys.getrefcount(one.thing) > _ONE + one.count + views[id(one.thing)]
        or (
            _is_view(one.thing)
            and id(one.thing.base) not in found
            and sys.getrefcount(one.thing.base) > _NONE + views[id(one.thing.base)]
        )
    ]
    outermost: dict[Path, Any] = {}
    for path, part in sorted(kept, key=lambda one: len(one[0])):
        if not any(path[:length] in outermost for length in range(len(path))):
            outermost[path] = part
    return list(outermost.items())


@dataclass(slots=True)
class _Found:
    """A mutable part of a value, and how often the value refers to it."""

    thing: Any
    path: Path
    count: int = 1


def _is_view(value: Any) -> bool:
    """Return whether an array is a view, whose memory a callable may have kept."""
    return isinstance(value, np.ndarray) and not isinstance(value.base, bytes | None)


def _collect_parts(value: Value, *, arrays: bool) -> dict[int, _Found]:
    """Collect by ``id`` the mutable objects in a value, to which code may keep references."""
    found: dict[int, _Found] = {}
    if arrays and isinstance(value, np.ndarray):
        # The caller has counted the references to the array itself.
        found[id(value)] = _Found(value, (), sys.maxsize >> 1)
    rest: list[tuple[Path, Any]] = [((), value)]
    for path, one in rest:
        for step, part in _inside(one):
            if isinstance(part, np.generic) or (not arrays and isinstance(part, np.ndarray)):
                continue
            if id(part) in found:
                found[id(part)].count += 1
                continue
            place = (*path, key_text(step))
            found[id(part)] = _Found(part, place)
            rest.append((place, part))
    return found


def _inside(value: Any) -> Iterable[tuple[Any, Any]]:
    if type(value) in (list, tuple):
        parts: Iterable[tuple[Any, Any]] = (
            () if _WITHOUT_PARTS.issuperset(map(type, value)) else enumerate(value)
        )
    elif isinstance(value, dict):
        parts = value.items()
    elif trees.is_record(value):
        parts = dataclasses_and_tuples.record_items(value).items()
    else:
        return ()
    return [(step, part) for step, part in parts if type(part) not in _WITHOUT_PARTS]


def _references_of_one() -> int:
    only = _Found(np.empty(0), ())
    return sys.getrefcount(only.thing)


# How many references this interpreter counts to what one other thing refers to, and none.
_ONE = _references_of_one()
_NONE = _ONE - 1


@dataclass(slots=True)
class _Part:
    """A part of a value that a callable keeps, as it was when the call ended.

    Attributes:
        digest: Of all of it.
        sample: Of samples of its large arrays; the same digest if it has none.
        looked: When all of it was read last.
        seconds: How long that took.
    """

    value: Any
    path: Path
    title: str
    digest: bytes
    sample: bytes
    looked: float
    seconds: float

    @property
    def is_kept(self) -> bool:
        """Return whether user code still keeps a reference to this part of a blob's value."""
        if sys.getrefcount(self.value) > _ONE:
            return True
        return _is_view(self.value) and sys.getrefcount(self.value.base) > _ONE

    def is_changed(self, *, wholly: bool) -> bool:
        """Return whether a part that a callable has kept differs from when it was recorded."""
        if digest_value(self.value, sampled=True) != self.sample:
            return True
        started = time.perf_counter()
        has_time = wholly and self.seconds <= _MOST_TIME * (started - self.looked)
        if self.sample == self.digest or not has_time:
            return False
        is_changed = digest_value(self.value) != self.digest
        self.looked = time.perf_counter()
        self.seconds = self.looked - started
        return is_changed


@dataclass(slots=True)
class _Entry:
    """What is kept of a blob that is bound to a value.

    Attributes:
        bound: The value that the blob had then; another one is no concern of who keeps the parts.
    """

    bound: Value
    parts: deque[_Part] = field(default_factory=lambda: deque(maxlen=_MOST_PARTS))


class KeptValues:
    """The values of the blobs of one process' nodes that callables keep."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._entries)

    def note(
        self, node: str, blob: str, bound: Value, parts: Parts, title: str, *, is_new: bool
    ) -> None:
        """Record parts of a blob's value to which user code keeps references after a ``call``.

        Args:
            node: Whose blob it is.
            blob: Its name.
            bound: Its value now.
            parts: What may be kept; emptied.
            title: Says when that was, for a message.
            is_new: The blob has nothing to do with its value before.
        """
        noted: list[_Part] = []
        while parts:
            one = _Part(*parts.pop()[::-1], title, b"", b"", 0.0, 0.0)
            if not one.is_kept or is_object(one.value):
                continue
            started = time.perf_counter()
            digest, sample = digest_value(one.value), digest_value(one.value, sampled=True)
            if digest is not None and sample is not None:
                one.digest, one.sample = digest, sample
                one.looked = time.perf_counter()
                one.seconds = one.looked - started
                noted.append(one)
        with self._lock:
            entry = self._entries.get((node, blob))
            if entry is None or is_new:
                self._entries.pop((node, blob), None)
                entry = _Entry(bound)
            entry.bound = bound
            entry.parts.extend(noted)
            if entry.parts:
                self._entries[node, blob] = entry

    def follow(self, node: str, blob: str, before: Value, after: Value) -> None:
        """Continue to watch references kept to a blob's value after a copy has replaced it."""
        entry = self._entries.get((node, blob))
        if entry is not None and entry.bound is before:
            entry.bound = after

    def follow_all(
        self, node: str, before: Mapping[str, Value], after: Mapping[str, Value]
    ) -> None:
        """Continue to watch references kept to a node's blobs when an epoch copies them."""
        for other, blob in list(self._entries):
            if other == node and blob in before and blob in after:
                self.follow(node, blob, before[blob], after[blob])

    def require_same(
        self, node: str, blob: str, value: Value, when: str, *, wholly: bool = False
    ) -> None:
        """Raise an error if code changed a part of a blob's value by a reference that it kept.

        Args:
            node: Whose blob it is.
            blob: Its name.
            value: The blob's value.
            when: Says who has changed it, or when, for the message.
            wholly: Look at all of large arrays.

        Raises:
            TaskFailedError: E246.
        """
        entry = self._entries.get((node, blob))
        if entry is None:
            return
        with self._lock:
            if entry.bound is not value:
                self._entries.pop((node, blob), None)
                return
            for one in list(entry.parts):
                if one.is_changed(wholly=wholly):
                    self._entries.pop((node, blob), None)
                    raise _changed_error(blob, one, when)
                if not one.is_kept:
                    entry.parts.remove(one)
            if not entry.parts:
                self._entries.pop((node, blob), None)

    def require_all_same(self, node: str, blobs: Mapping[str, Value]) -> None:
        """Refuse a save if code changed parts of a node's blobs by references kept from a call.

        Raises:
            TaskFailedError: E246.
        """
        for other, blob in list(self._entries):
            if other == node and blob in blobs:
                when = "was changed before this save"
                self.require_same(node, blob, blobs[blob], when, wholly=True)


def _changed_error(blob: str, part: _Part, when: str) -> TaskFailedError:
    name = blob.rpartition(":")[2]
    place = "/".join((name, *part.path))
    return TaskFailedError.of(
        "E246",
        f"{describe(part.value)} that {part.title} as '{place}', and kept, {when}; the blob "
        "has a copy, so it has not changed with it",
        f"return a copy, or keep a copy; or let the step that changes '{name}' have it in 'inout'",
    )


def is_watched(value: Value) -> bool:
    """Return whether user code can keep a reference to a value, or its parts, and change it."""
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    adapter = find_adapter(type(value))
    return trees.is_tree(value) and not (adapter is not None and adapter.immutable)
