"""Take a copy-on-write snapshot of a node's state, which is saved while the next group runs.

A save begins between two group runs, when every blob owns its memory, with nothing but
references: binding a blob to a new array leaves its old array as it was. Only what the next group
changes in place has to be copied, in the background; a block that changes such a blob waits at
its beginning until that copy is made, and makes it itself if no other thread has begun to. When
all copies are made, the file is written from values that no code can change any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from itertools import count
from operator import is_
from types import MappingProxyType
from typing import Any
from weakref import ref

import numpy as np
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES
from jobrun.checkpoint.task_groups import Ticket
from jobrun.checkpoint.write.array_types import ArrayTypes
from jobrun.checkpoint.write.snapshot_arena import Arena
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import JobrunError, TaskFailedError
from jobrun.graph.steps import SaveState
from jobrun.runtime.snapshots.kept_references import KeptValues
from jobrun.runtime.snapshots.node_objects import SharingTracker, collect_state
from jobrun.values.blob_kinds import Value, is_object
from jobrun.values.change_detection import ChangeDetector
from jobrun.values.copies import NoteRemade, detach, ignore_remade

Names = frozenset[str]
# A weak reference: a snapshot does not keep the array alive.
Array = ref[np.ndarray[Any, Any]]
NodeNames = Mapping[str, Names]

_NO_NAMES: Names = frozenset()
_NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


class NodeSaver:
    """The file writer and memory that a node keeps from one save to the next."""

    def __init__(self, node: str, step: SaveState) -> None:
        self.arena = Arena()
        self._types: ArrayTypes | None = None
        self.writer = NodeWriter(node, step.compression, dict(step.origins))
        self.dirty = DirtyTracker()
        self._asked: tuple[tuple[str, ...], tuple[Names, ...]] = ((), ())
        self._at_risk = _NO_NAMES

    def types_of(self, values: Mapping[str, Value]) -> ArrayTypes:
        """Return the dtypes and shapes of a snapshot's arrays; reuse the last result if equal."""
        if self._types is None or not self._types.fits(values):
            self._types = ArrayTypes(values)
        return self._types

    def names_at_risk(self, held: tuple[str, ...], changed: tuple[Names, ...]) -> Names:
        """Return which blobs a snapshot has to copy: those saved that groups change in place."""
        same = len(changed) == len(self._asked[1]) and all(map(is_, changed, self._asked[1]))
        if not (same and held is self._asked[0]):
            self._asked = (held, changed)
            self._at_risk = frozenset(held) & _NO_NAMES.union(*changed)
        return self._at_risk


class DirtyTracker:
    """Tracks which arrays are unchanged since the last file was written.

    That is an array that no other has taken the place of, and that no group has changed in place.
    Without a look at what is in it: that would be as dear as the digest it saves. Small ones are
    not asked about.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written: Mapping[str, Array] = {}
        self._changed = _NO_NAMES
        self._changed_after_hold = _NO_NAMES
        self._asked: int = -1
        self._large: tuple[str, ...] = ()

    def mark_dirty(self, changed: Names) -> None:
        """Mark arrays that a group may change as dirty, to be in the next snapshot."""
        if changed and self._large:
            with self._lock:
                self._changed |= changed
                self._changed_after_hold |= changed

    def begin(self, values: Mapping[str, Value]) -> tuple[Mapping[str, Array], Names]:
        """Return weak references to a snapshot's large arrays, and which are on disk already."""
        if self._asked != len(values):
            # An array that grows later is merely written without a check for changes.
            self._asked = len(values)
            self._large = tuple(name for name, value in values.items() if _is_large(value))
        arrays = {name: ref(values[name]) for name in self._large if _is_large(values.get(name))}
        with self._lock:
            known, changed = self._written, self._changed
            self._changed_after_hold = _NO_NAMES
        same = (
            name
            for name in arrays.keys() & known.keys()
            if known[name]() is values[name] and name not in changed
        )
        return arrays, frozenset(same)

    def mark_clean(self, arrays: Mapping[str, Array]) -> None:
        """Mark arrays as clean once a snapshot is on disk: they need no write until they change."""
        with self._lock:
            self._written = arrays
            self._changed = self._changed_after_hold


class Snapshot:
    """One node's state as it was when the save began.

    Attributes:
        is_safe: Nothing is left to be copied: no block has to wait.
        copy_s: How long copying took, summed over all threads.
        gate_s: How long blocks waited for it.
    """

    def __init__(
        self,
        ticket: Ticket,
        step: SaveState,
        values: dict[str, Value],
        saver: NodeSaver,
        types: ArrayTypes,
        parts: Names = _NO_NAMES,
    ) -> None:
        self.ticket = ticket
        self.is_safe = True
        self.copy_s = 0.0
        self.gate_s = 0.0
        self._step = step
        self._values = values
        self._place = saver
        self._arena = saver.arena
        self._types = types
        # Names of containers and objects: these may change without a step that declares it.
        self._parts = parts
        whole = {n: v for n, v in values.items() if n not in parts} if parts else values
        self._arrays, self._unchanged = saver.dirty.begin(whole)
        self._announced: tuple[Names, ...] = ()
        # Names to copy, and names that are copied or will be copied before a change.
        self._at_risk: Names = _NO_NAMES
        self._covered: Names = _NO_NAMES
        # Batches of names, each copied at once.
        self._waiting: list[tuple[str, ...]] = []
        self._in_work: list[tuple[str, ...]] = []
        # The names to copy that hold no array.
        self._others: Names = _NO_NAMES
        self._is_writing = False
        self._is_prepared = False
        self._turn = threading.Condition()

    def protect(self, changed: tuple[Names, ...], opaque: Names) -> None:
        """Set which blobs a snapshot has to copy before the next groups change them in place.

        Args:
            changed: For each group the names that it changes in place; copied in the background.
            opaque: Those of them that code may change which no gate is in front of; copied now.
        """
        self._announced = changed
        names = self._place.names_at_risk(self._step.names, changed)
        if self._parts:
            names = (names & self._values.keys()) | self._parts
            opaque = opaque | self._parts
        self._at_risk = self._covered = names
        self.is_safe = not names
        if opaque and names:
            self.pass_gate(opaque)

    @property
    def has_parts(self) -> bool:
        """Return whether the snapshot has containers or objects, which any code may change."""
        return bool(self._parts)

    def pass_gate(self, names: Iterable[str] | None = None) -> None:
        """Wait until a snapshot has copied blobs that a block will change; by default, all.

        Thread-safe.
        """
        if self.is_safe:
            return
        started = time.perf_counter()
        self._copy_all(None if names is None else frozenset(names))
        with self._turn:
            self.gate_s += time.perf_counter() - started

    def copy_unannounced(self, changed: Names) -> None:
        """Copy into the snapshot blobs that a group changes but ``protect`` did not list."""
        if any(changed is announced for announced in self._announced):
            return
        with self._turn:
            while self._is_writing:
                self._turn.wait()
            for name in (self._values.keys() & (changed | self._parts)) - self._covered:
                # Not into the arena: it has room only for the announced blobs.
                self._values[name] = detach(self._values[name], name)
            self._covered |= changed | self._parts

    def write(self, directory: str) -> NodeSave:
        """Copy the rest of the snapshot's blobs, then write them durably to a file. Thread-safe.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
            EnvironmentFaultError: Writing failed (``ENOSPC``, ``EIO`` …); it may be retried.
        """
        self._copy_all(None)
        with self._turn:
            self._is_writing = True
        try:
            file = self._place.writer.write(
                f"{directory}/{self._step.file}",
                epoch=self.ticket.epoch,
                run_id=self._step.run_id,
                values=self._values,
                unchanged=self._unchanged,
                types=self._types,
                adjacent=self._arena.adjacent if self._is_prepared else None,
                over_removed=True,
            )
            self._place.dirty.mark_clean(self._arrays)
        except JobrunError as error:
            raise type(error)(*(replace(f, path=self._step.path) for f in error.faults)) from error
        finally:
            with self._turn:
                self._is_writing = False
                self._turn.notify_all()
        return NodeSave(file, self.copy_s, self.gate_s)

    def _copy_all(self, names: Names | None) -> None:
        """Copy the snapshot's blobs not copied yet, sharing the work with other threads."""
        while chosen := self._choose_next(names):
            started = time.perf_counter()
            try:
                self._copy(chosen)
            except BaseException:
                # Threads that wait for a failed copy raise the error, too.
                self._end_turn(chosen, started, undone=(chosen,))
                raise
            self._end_turn(chosen, started)

    def _end_turn(
        self, chosen: tuple[str, ...], started: float, undone: Iterable[tuple[str, ...]] = ()
    ) -> None:
        with self._turn:
            self.copy_s += time.perf_counter() - started
            self._in_work.remove(chosen)
            self._waiting.extend(undone)
            self.is_safe = not (self._waiting or self._in_work)
            self._turn.notify_all()

    def _choose_next(self, names: Names | None) -> tuple[str, ...]:
        """Choose the blobs to copy next into the snapshot; return none when all are copied."""
        with self._turn:
            if self._at_risk and not self._is_prepared:
                self._prepare()
            while True:
                chosen = _first_of(self._waiting, names)
                if chosen:
                    self._waiting.remove(chosen)
                    self._in_work.append(chosen)
                    return chosen
                if not _first_of(self._in_work, names):
                    return ()
                self._turn.wait()

    def _prepare(self) -> None:
        names, arena = self._at_risk, self._arena
        self._others = names.intersection(self._types.others)
        key, lead_bytes = (self._types, names), self._place.writer.lead_bytes
        if not arena.is_prepared(key, lead_bytes):
            # In the order of the step's names, which is the same at every save.
            arrays = {
                name: value
                for name, value in self._values.items()
                if name in names and name not in self._others
            }
            arena.prepare(arrays, lead_bytes, key)
        self._waiting = [*arena.turns, *((name,) for name in self._others)]
        self._is_prepared = True

    def _copy(self, names: tuple[str, ...]) -> None:
        if names[0] in self._others:
            self._values[names[0]] = detach(self._values[names[0]], names[0])
        else:
            self._values.update(self._arena.copy(names, self._values))


def _first_of(turns: Iterable[tuple[str, ...]], names: Names | None) -> tuple[str, ...]:
    """Return a snapshot's first batch of blobs to copy that contains one of ``names``."""
    return next((batch for batch in turns if names is None or not names.isdisjoint(batch)), ())


class Snapshots:
    """The snapshots of one process; at most one per node at a time.

    Attributes:
        objects: What the objects held when they were last allowed to change.
        sharing: What the objects of the nodes may share.
        kept: What callables keep of the values of blobs.
        note_remade: Gets what a load would make of a value that adapters take apart.
    """

    def __init__(self) -> None:
        self.note_remade: NoteRemade = ignore_remade
        self.objects = ChangeDetector()
        self.kept_references = KeptValues()
        self._places: dict[str, NodeSaver] = {}
        self._held: dict[Ticket, Snapshot] = {}
        self.sharing = SharingTracker()
        self._numbers = count(1)

    def begin(
        self,
        step: SaveState,
        node: str,
        epoch: int,
        blobs: Mapping[str, Value],
        settings: Mapping[str, Any] = _NO_SETTINGS,
    ) -> Ticket:
        """Take a copy-on-write snapshot for a save; return the ticket by which to write it."""
        self._require_kept_same(step, blobs)
        values, parts = collect_state(
            step.names, step.objects, blobs, step.origins, self.objects, self.note_remade
        )
        objects = {name: blobs[name] for name in step.objects if is_object(blobs[name])}
        if objects and self.sharing.require_kept(node, objects, values, step.origins):
            self.objects.forget()
        saver = self._places.get(node)
        if saver is None:
            saver = self._places[node] = NodeSaver(node, step)
        types = saver.types_of(values)
        size_bytes = types.size_bytes(values)
        ticket = Ticket(node, epoch, next(self._numbers), size_bytes, settings)
        self._held[ticket] = Snapshot(ticket, step, values, saver, types, parts)
        return ticket

    def _require_kept_same(self, step: SaveState, blobs: Mapping[str, Value]) -> None:
        if not self.kept_references:
            return
        try:
            self.kept_references.require_all_same(blobs, "was changed before this save")
        except TaskFailedError as error:
            path = next((path for name, path in step.origins if f"'{name}" in str(error)), "")
            raise TaskFailedError(*(replace(fault, path=path) for fault in error.faults)) from error

    def protect(
        self, tickets: Iterable[Ticket], changed: tuple[NodeNames, ...], opaque: NodeNames
    ) -> None:
        """Set which blobs pending saves' snapshots must copy before the next groups change them."""
        for ticket in tickets:
            names = tuple(names_by_node.get(ticket.node, _NO_NAMES) for names_by_node in changed)
            self._held[ticket].protect(names, opaque.get(ticket.node, _NO_NAMES))

    def gates(self, changed: NodeNames) -> Mapping[str, Snapshot]:
        """Return each node's snapshot that must still copy blobs before a group changes them.

        Asked before each group runs.
        """
        gates: dict[str, Snapshot] = {}
        for node, saver in self._places.items():
            saver.dirty.mark_dirty(changed.get(node, _NO_NAMES))
        for held in tuple(self._held.values()):
            names = changed.get(held.ticket.node, _NO_NAMES)
            if names or held.has_parts:
                held.copy_unannounced(names)
                if not held.is_safe:
                    gates[held.ticket.node] = held
        return gates

    def persist(self, ticket: Ticket, directory: str) -> NodeSave:
        """Write the snapshot that ``ticket`` identifies to its node's file."""
        return self._held[ticket].write(directory)

    def release(self, tickets: Iterable[Ticket]) -> None:
        """Drop the snapshots with these tickets to free their memory; ignore unknown tickets."""
        for ticket in tickets:
            self._held.pop(ticket, None)

    def close(self) -> None:
        """Release the memory of all snapshots."""
        for saver in self._places.values():
            saver.writer.close()
        self._places.clear()
        self._held.clear()


def _is_large(value: Value) -> bool:
    return type(value) is np.ndarray and value.nbytes >= BLOCK_BYTES
