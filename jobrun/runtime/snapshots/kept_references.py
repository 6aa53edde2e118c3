"""Detect changes of values that a callable has kept after it returned them or had them lent.

A blob is a value of its own: of what a callable keeps a reference to, the blob gets a copy. In
plain Python the two are one, and a change of one is a change of the other. So what is kept is
remembered with its digest, only where more references to it are counted than the call accounts
for, and is compared after each call while the blob still is what it was bound to then. A blob that
differs from what is kept is refused when it is read next; a call that returns what a blob has been
made of, after a step has changed that blob, is refused at once.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
from msgspec import Struct, field

from jobrun.core.errors import TaskFailedError
from jobrun.core.text.big_integers import key_text
from jobrun.values import container_flattening as trees
from jobrun.values.adapters.registry import AdaptedKind, Path, attributes_of, find_adapter
from jobrun.values.blob_kinds import Value, describe, is_object
from jobrun.values.change_detection import digest_value
from jobrun.values.kinds import Steps
from jobrun.values.traversal import find_kind

Parts = list[tuple[Path, Any]]
# A workspace, by ``id``, and a blob in it.
KeptPlace = tuple[int, str]


class Workspace(Protocol):
    """The blobs of a node or a task by name, of which there can be weak references."""

    def get(self, name: str, /) -> Value:
        """Return a blob of the workspace, or None."""

    def __contains__(self, name: object, /) -> bool:
        """Return whether the workspace has a blob."""

    def refuse(self, name: str, value: Value, error: TaskFailedError) -> None:
        """Delete a blob, which has this value; to read it raises an error from now on."""


# So often all of what is kept is compared after a call.
_FIRST_LOOKS = 64
# Later for this share of the time, and so many seconds, at most; what is left is compared later,
# and all before the run ends.
_MOST_TIME = 0.05
_CALL_S = 0.0002
# Of so few parts of an argument, samples are compared after each call.
_FEW_PARTS = 16
_SAVE_S = 0.001


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
    """Find parts of a blob's value to which something else refers, the outer before the inner.

    That may be the call itself, which refers to its arguments until it ends; so what is inside of
    such parts is listed, too.

    Args:
        value: The value.
        is_kept: Something else refers to the value itself.
        arrays: Look at arrays, too.
    """
    whole: Parts = [((), value)] if is_kept else []
    if whole and isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return whole
    references = _collect_parts(value, arrays=arrays)
    views = Counter(
        id(reference.thing.base) for reference in references.values() if _is_view(reference.thing)
    )
    retained = [
        (reference.path, reference.thing)
        for reference in references.values()
        if sys.getrefcount(reference.thing) > _ONE + reference.count + views[id(reference.thing)]
        or (
            _is_view(reference.thing)
            and id(reference.thing.base) not in references
            and sys.getrefcount(reference.thing.base) > _NONE + views[id(reference.thing.base)]
        )
    ]
    return whole + sorted(retained, key=lambda item: len(item[0]))


class _Found(Struct):
    """A mutable part of a value, and how often the value refers to it."""

    thing: Any
    path: Path
    count: int = 1


def _is_view(value: Any) -> bool:
    """Return whether an array is a view, whose memory a callable may have kept."""
    return isinstance(value, np.ndarray) and not isinstance(value.base, bytes | None)


def _collect_parts(value: Value, *, arrays: bool) -> dict[int, _Found]:
    """Collect by ``id`` the mutable objects in a value, to which code may keep references."""
    references: dict[int, _Found] = {}
    if arrays and isinstance(value, np.ndarray):
        # The caller has counted the references to the array itself.
        references[id(value)] = _Found(value, (), sys.maxsize >> 1)
    unvisited: list[tuple[Path, Any]] = [((), value)]
    for path, parent in unvisited:
        for step, part in _inside(parent):
            if isinstance(part, np.generic) or (not arrays and isinstance(part, np.ndarray)):
                continue
            if id(part) in references:
                references[id(part)].count += 1
                continue
            part_path = (*path, key_text(step))
            references[id(part)] = _Found(part, part_path)
            unvisited.append((part_path, part))
    return references


def _inside(value: Any) -> Steps:
    """List the steps to what a value refers to that can change, and that."""
    kind = find_kind(type(value))
    if isinstance(kind, AdaptedKind) and not isinstance(value, dict):
        # Nothing else refers to what its adapter makes of it, which is new.
        parts = () if kind.adapter.immutable or kind.adapter.by_name else _attributes(value)
    else:
        parts = kind.parts(value)
    return [(step, part) for step, part in parts if not find_kind(type(part)).is_fixed(part)]


def _attributes(value: Any) -> Steps:
    """List what a value that has an adapter refers to: its items, and attributes of known kinds."""
    items = enumerate(value) if isinstance(value, list | tuple | deque) else ()
    named = attributes_of(value)
    # Others are the library's own, and its values may share them.
    watched = (
        (name, attribute)
        for name, attribute in named.items()
        if _is_array(attribute) or is_watched(attribute)
    )
    return [*items, *watched]


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _part_at(value: Any, path: Path) -> Any:
    """Return the part of a blob's value to which a path leads, or None."""
    for step in path:
        value = next((part for at, part in _inside(value) if key_text(at) == step), None)
    return value


def _references_of_one() -> int:
    only = _Found(np.empty(0), ())
    return sys.getrefcount(only.thing)


# How many references this interpreter counts to what one other thing refers to, and none.
_ONE = _references_of_one()
_NONE = _ONE - 1


class _Part(Struct):
    """A part of a value that a callable keeps, as it was when the call ended.

    Attributes:
        digest: Of all of it.
        sample: Of samples of its large arrays; the same digest if it has none.
        copied: Digest of what the blob has of it; None if none can be compared.
        seconds: How long it took to read all of it.
        looks: How often it was looked at after a call.
        compared: The number of calls that had ended when all of it was compared last.
    """

    value: Any
    path: Path
    title: str
    digest: bytes = b""
    sample: bytes = b""
    copied: bytes | None = None
    seconds: float = 0.0
    looks: int = 0
    compared: int = 0

    def begin(self, bound: Value, calls: int) -> bool:
        """Record what it is now; return whether it can be watched."""
        started = time.perf_counter()
        digest = digest_value(self.value)
        self.seconds = time.perf_counter() - started
        sample = digest_value(self.value, sampled=True)
        if digest is None or sample is None:
            return False
        self.digest, self.sample, self.compared = digest, sample, calls
        copied = digest_value(_part_at(bound, self.path))
        # Tensors count their changes; and the order of a set is its own.
        self.copied = copied if copied == digest else None
        return True

    @property
    def is_kept(self) -> bool:
        """Return whether user code still keeps a reference to this part of a blob's value."""
        if sys.getrefcount(self.value) > _ONE:
            return True
        return _is_view(self.value) and sys.getrefcount(self.value.base) > _ONE

    def is_changed(self, calls: int, *, wholly: bool = True) -> bool:
        """Return whether a part that a callable has kept differs from when it was recorded."""
        if wholly or self.sample == self.digest:
            started = time.perf_counter()
            is_changed = digest_value(self.value) != self.digest
            self.seconds = time.perf_counter() - started
            self.compared = calls
            return is_changed
        return digest_value(self.value, sampled=True) != self.sample

    def is_changed_in(self, bound: Value) -> bool:
        """Return whether a step has changed what the blob has of this part."""
        return self.copied is not None and digest_value(_part_at(bound, self.path)) != self.copied


class _Entry(Struct):
    """What is kept of a blob that is bound to a value.

    Attributes:
        workspace: Where the blob is; gone after its group.
        bound: The value that the blob had then; another one is no concern of who keeps the parts.
        parts: First those that were not looked at often yet.
        error: Says how a part has changed; then the workspace refuses to read the blob.
    """

    workspace: weakref.ref[Workspace]
    bound: Value
    parts: deque[_Part] = field(default_factory=deque)
    error: TaskFailedError | None = None

    def is_current(self, blob: str) -> bool:
        """Return whether the blob still has the value of which something is kept."""
        workspace = self.workspace()
        if workspace is None:
            return False
        if self.error is not None and blob not in workspace:
            return True
        return workspace.get(blob) is self.bound


class KeptValues:
    """The values of the blobs of one process' nodes that callables keep."""

    def __init__(self) -> None:
        self._entries: dict[KeptPlace, _Entry] = {}
        # What is kept by the memory that it has: of which blobs that is a part.
        self._owners: dict[int, dict[KeptPlace, _Part]] = {}
        # What code keeps of blobs that steps have changed since, and that are gone.
        self._left: dict[int, tuple[str, _Part]] = {}
        self._lock = threading.RLock()
        self._calls = 0
        self._looked = 0.0

    def __bool__(self) -> bool:
        return bool(self._entries or self._left)

    def note(
        self, workspace: Workspace, blob: str, parts: Parts, title: str, when: str, *, is_new: bool
    ) -> None:
        """Record parts of a blob's value to which user code keeps references after a ``call``.

        Args:
            workspace: Where the blob is.
            blob: Its name.
            parts: What may be kept, the outer before the inner; emptied.
            title: Says when that was, for a message.
            when: Says who returns what a blob was made of before, for a message.
            is_new: The blob has nothing to do with its value before.

        Raises:
            TaskFailedError: E246, a step has changed a blob that was made of such a part.
        """
        key, bound = (id(workspace), blob), workspace.get(blob)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and (is_new or entry.workspace() is not workspace):
                self._retire(key, entry)
                entry = None
            noted: list[_Part] = []
            outer: set[Path] = set()
            parts.reverse()
            while parts:
                part = _Part(*parts.pop()[::-1], title)
                if any(part.path[:length] in outer for length in range(len(part.path) + 1)):
                    continue
                if part.is_kept and not is_object(part.value):
                    outer.add(part.path)
                    self._require_not_left(part, when)
                    if part.begin(bound, self._calls):
                        noted.append(part)
            if entry is None and not noted:
                return
            if entry is None:
                entry = self._entries[key] = _Entry(weakref.ref(workspace), bound)
            entry.bound = bound
            entry.parts.extendleft(noted)
            for part in noted:
                self._owners.setdefault(_memory_of(part.value), {})[key] = part

    def follow(self, workspace: Workspace, blob: str, before: Value, after: Value) -> None:
        """Continue to watch references kept to a blob's value after a copy has replaced it.

        Raises:
            TaskFailedError: E246, the blob is refused already.
        """
        entry = self._entries.get((id(workspace), blob))
        if entry is None or entry.workspace() is not workspace:
            return
        if entry.error is not None and blob not in workspace:
            raise TaskFailedError(*entry.error.faults)
        if entry.bound is before:
            entry.bound = after

    def follow_all(
        self, workspace: Workspace, before: Mapping[str, Value], after: Mapping[str, Value]
    ) -> None:
        """Continue to watch references kept to a workspace's blobs when an epoch copies them."""
        for at, blob in list(self._entries):
            if at == id(workspace) and blob in before and blob in after:
                self.follow(workspace, blob, before[blob], after[blob])

    def restart(self) -> None:
        """Forget the blobs that are not what they were, since a group is run again."""
        with self._lock:
            for key, entry in list(self._entries.items()):
                if not entry.is_current(key[1]):
                    self._forget(key, entry)
            self._left.clear()

    def require_same_before_call(self, outputs: Collection[KeptPlace], when: str) -> None:
        """Compare what is kept of blobs that a call will bind, where it was not compared lately.

        Raises:
            TaskFailedError: E246.
        """
        with self._lock:
            for key in outputs:
                entry = self._entries.get(key)
                if entry is not None and entry.is_current(key[1]):
                    self._require_compared(key, entry, when)

    def require_same_after_call(
        self,
        arguments: Collection[KeptPlace],
        outputs: Collection[KeptPlace],
        when: str,
        *,
        wholly: bool = False,
    ) -> None:
        """Refuse blobs of which code changed a part by a reference that it kept.

        An argument of the call at once; another one when it is read next, if it ever is.

        Args:
            arguments: The blobs that the call was given.
            outputs: Those that it will bind.
            when: Says who has changed it, for the message.
            wholly: Compare everything, however long it takes.

        Raises:
            TaskFailedError: E246.
        """
        with self._lock:
            now = time.perf_counter()
            deadline = now + _CALL_S + _MOST_TIME * (now - self._looked)
            for key, entry in list(self._entries.items()):
                blob = key[1]
                if not entry.is_current(blob):
                    self._retire(key, entry)
                    continue
                if key in outputs and key not in arguments:
                    # It was compared before the call.
                    for kept_part in entry.parts:
                        kept_part.compared = self._calls + 1
                    continue
                if entry.error is not None:
                    continue
                # The next time others come first.
                self._entries[key] = self._entries.pop(key)
                sampled = key in arguments and len(entry.parts) <= _FEW_PARTS
                part = self._find_changed(entry, deadline, sampled=sampled, wholly=wholly)
                if part is not None:
                    error = self._refuse(key, entry, _changed_error(blob, part, when))
                    if key in arguments:
                        raise error
                elif not entry.parts:
                    self._forget(key, entry)
            for memory, (_, left_part) in list(self._left.items()):
                if not left_part.is_kept:
                    del self._left[memory]
            self._calls += 1
            self._looked = time.perf_counter()

    def require_all_same(
        self, workspace: Mapping[str, Value], when: str, *, wholly: bool = False
    ) -> None:
        """Refuse a save if code changed parts of a node's blobs by references kept from a call.

        Args:
            workspace: The node's.
            when: Says when that is, for the message.
            wholly: Compare everything, however long it takes.

        Raises:
            TaskFailedError: E246.
        """
        with self._lock:
            now = time.perf_counter()
            deadline = now + _SAVE_S + _MOST_TIME * (now - self._looked)
            for key, entry in list(self._entries.items()):
                if entry.workspace() is not None and key[0] != id(workspace):
                    continue
                if not entry.is_current(key[1]):
                    self._retire(key, entry)
                elif entry.error is not None:
                    raise TaskFailedError(*entry.error.faults)
                else:
                    part = self._find_changed(entry, deadline, sampled=True, wholly=wholly)
                    if part is not None:
                        raise self._refuse(key, entry, _changed_error(key[1], part, when))
                    if not entry.parts:
                        self._forget(key, entry)

    def _find_changed(
        self, entry: _Entry, deadline: float, *, sampled: bool, wholly: bool
    ) -> _Part | None:
        """Find a part that differs from what it was; drop those that are not kept any more.

        Args:
            entry: Of the blob.
            deadline: When to stop, unless parts are new.
            sampled: Look at samples of all parts.
            wholly: Compare all of it.
        """
        young: list[_Part] = []
        for _ in range(len(entry.parts)):
            part = entry.parts.popleft()
            is_young = part.looks < _FIRST_LOOKS
            has_time = time.perf_counter() + part.seconds < deadline
            if not (is_young or has_time or sampled or wholly):
                entry.parts.append(part)
                break
            part.looks += 1
            if part.is_changed(self._calls + 1, wholly=is_young or has_time or wholly):
                entry.parts.extendleft([part, *young])
                return part
            if part.is_kept:
                young.append(part) if is_young else entry.parts.append(part)
            elif part.compared == self._calls + 1 or not part.is_changed(self._calls + 1):
                self._disown(part)
            else:
                entry.parts.extendleft([part, *young])
                return part
        entry.parts.extendleft(young)
        return None

    def _require_compared(self, key: KeptPlace, entry: _Entry, when: str) -> None:
        """Compare parts that were not compared wholly after the last call.

        Raises:
            TaskFailedError: E246.
        """
        for part in entry.parts if entry.error is None else ():
            if part.compared < self._calls and part.is_changed(self._calls):
                self._forget(key, entry)
                raise _changed_error(key[1], part, when)

    def _retire(self, key: KeptPlace, entry: _Entry) -> None:
        """Stop to watch a blob that has another value; remember what steps have changed of it.

        Raises:
            TaskFailedError: E246, it is not known that it was the same until then.
        """
        self._require_compared(key, entry, "was changed, maybe before the blob got another value")
        for part in entry.parts:
            if part.is_kept and part.is_changed_in(entry.bound):
                self._left[_memory_of(part.value)] = (key[1], part)
        self._forget(key, entry)

    def _require_not_left(self, part: _Part, when: str) -> None:
        """Refuse a value of which a blob was made that a step has changed since.

        Raises:
            TaskFailedError: E246.
        """
        key = _memory_of(part.value)
        blob, changed_part = self._left.get(key, ("", part))
        for blob_key, owned_part in self._owners.get(key, {}).items():
            entry = self._entries.get(blob_key)
            if entry is not None and owned_part.is_changed_in(entry.bound):
                blob, changed_part = blob_key[1], owned_part
        if blob:
            raise _changed_error(blob, changed_part, f"{when} after a step had changed the blob")

    def _refuse(self, key: KeptPlace, entry: _Entry, error: TaskFailedError) -> TaskFailedError:
        entry.error = error
        workspace = entry.workspace()
        if workspace is not None:
            workspace.refuse(key[1], entry.bound, error)
        return TaskFailedError(*error.faults)

    def _forget(self, key: KeptPlace, entry: _Entry) -> None:
        self._entries.pop(key, None)
        for part in entry.parts:
            self._disown(part)

    def _disown(self, part: _Part) -> None:
        key = _memory_of(part.value)
        owners = self._owners.get(key, {})
        for blob_key, owned_part in list(owners.items()):
            if owned_part is part:
                del owners[blob_key]
        if not owners:
            self._owners.pop(key, None)


def _memory_of(value: Any) -> int:
    """Return a number of what a value is, or of the memory to which an array is a view."""
    while isinstance(value, np.ndarray) and value.base is not None:
        value = value.base
    return id(value)


def _changed_error(blob: str, part: _Part, when: str) -> TaskFailedError:
    name = blob.rpartition(":")[2]
    path = "/".join((name, *part.path))
    return TaskFailedError.of(
        "E246",
        f"{describe(part.value)} that {part.title} as '{path}', and kept, {when}; the blob "
        "has a copy, so it has not changed with it",
        f"return a copy, or keep a copy; or let the step that changes '{name}' have it in 'inout'",
    )


def is_watched(value: Value) -> bool:
    """Return whether user code can keep a reference to a value, or its parts, and change it."""
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    adapter = find_adapter(type(value))
    return trees.is_tree(value) and not (adapter is not None and adapter.immutable)
