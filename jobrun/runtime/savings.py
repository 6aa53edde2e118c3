"""What a node holds of its state while it is being saved, and the gate in front of that.

A save begins between two group runs, when every blob owns its memory, with nothing but
references: a blob that is bound anew leaves its old array as it was. Only what the next group
changes in place has to be copied, in the background; a block that changes such a blob waits at
its beginning until that copy is made, and makes it itself where nobody has begun to. When all
copies are made, the file is written from values that nobody can change any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import PurePath

import numpy as np

from jobrun.blobs.values import Value, detach, size_bytes
from jobrun.checkpoint.arena import Arena
from jobrun.checkpoint.hdf5 import write_state
from jobrun.checkpoint.plan import Ticket
from jobrun.checkpoint.times import NodeSave
from jobrun.core.errors import JobrunError
from jobrun.graph.steps import SaveState

Names = frozenset[str]
NodeNames = Mapping[str, Names]

# So much is copied before another thread is let to choose what comes next.
_TURN_BYTES = 1 << 23
_NO_NAMES: Names = frozenset()


class Held:
    """One node's state as it was when the save began.

    Attributes:
        is_safe: Nothing is left to be copied: no block has to wait.
        copy_s: How long copying took, in all threads together.
        gate_s: How long blocks waited for it.
    """

    def __init__(self, ticket: Ticket, step: SaveState, values: dict[str, Value], arena: Arena):
        self.ticket = ticket
        self.is_safe = True
        self.copy_s = 0.0
        self.gate_s = 0.0
        self._step = step
        self._values = values
        self._arena = arena
        self._announced: tuple[Names, ...] = ()
        # Names that are copied, or will be before anyone changes them.
        self._covered: set[str] = set()
        self._waiting: set[str] = set()
        self._in_work: set[str] = set()
        self._is_writing = False
        self._is_prepared = False
        self._turn = threading.Condition()

    def protect(self, changed: tuple[Names, ...], opaque: Names) -> None:
        """Say what the groups that may come next change. Once, before any of them runs.

        Args:
            changed: For each group the names that it changes in place; copied in the background.
            opaque: Those of them that code may change which no gate is in front of; copied now.
        """
        self._announced = changed
        names = self._values.keys() & _NO_NAMES.union(*changed)
        self._covered = set(names)
        self._waiting = names
        self.is_safe = not names
        if opaque and names:
            self.pass_gate(opaque)

    def pass_gate(self, names: Iterable[str] | None = None) -> None:
        """Return when these blobs may be changed; all of them if None. Any thread."""
        if self.is_safe:
            return
        started = time.perf_counter()
        self._copy_all(None if names is None else frozenset(names))
        with self._turn:
            self.gate_s += time.perf_counter() - started

    def secure(self, changed: Names) -> None:
        """Before a group runs that ``protect`` was not told of: copy what it changes, now."""
        if any(changed is one for one in self._announced):
            return
        with self._turn:
            while self._is_writing:
                self._turn.wait()
            for name in (self._values.keys() & changed) - self._covered:
                # Not into the arena, which has places for what was foreseen.
                self._values[name] = detach(self._values[name], name)
                self._covered.add(name)

    def write(self, directory: str) -> NodeSave:
        """Copy what is left to be copied, then write the file, durably. Any thread.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
            EnvironmentFaultError: The disk says no; it may be tried again, elsewhere.
        """
        self._copy_all(None)
        with self._turn:
            self._is_writing = True
        try:
            file = write_state(
                str(PurePath(directory, self._step.file)),
                node=self.ticket.node,
                epoch=self.ticket.epoch,
                run_id=self._step.run_id,
                values=self._values,
            )
        except JobrunError as error:
            raise type(error)(*(replace(f, path=self._step.path) for f in error.faults)) from error
        finally:
            with self._turn:
                self._is_writing = False
                self._turn.notify_all()
        return NodeSave(file, self.copy_s, self.gate_s)

    def _copy_all(self, names: Names | None) -> None:
        """Copy these blobs, together with whoever else is at it."""
        while chosen := self._choose(names):
            started = time.perf_counter()
            left = set(chosen)
            try:
                for name in chosen:
                    self._values[name] = self._copied(name)
                    left.discard(name)
            finally:
                with self._turn:
                    self.copy_s += time.perf_counter() - started
                    self._in_work.difference_update(chosen)
                    # Whoever waits for what could not be copied will meet the error too.
                    self._waiting |= left
                    self.is_safe = not (self._waiting or self._in_work)
                    self._turn.notify_all()

    def _choose(self, names: Names | None) -> list[str]:
        """What to copy next; empty when all of them are copied, by whomever."""
        with self._turn:
            while True:
                chosen = self._next(self._waiting if names is None else self._waiting & names)
                if chosen or not (self._in_work if names is None else self._in_work & names):
                    return chosen
                self._turn.wait()

    def _next(self, names: Iterable[str]) -> list[str]:
        chosen: list[str] = []
        left_bytes = _TURN_BYTES
        for name in names:
            chosen.append(name)
            left_bytes -= getattr(self._values[name], "nbytes", 0)
            if left_bytes <= 0:
                break
        if chosen and not self._is_prepared:
            self._prepare()
        self._in_work.update(chosen)
        self._waiting.difference_update(chosen)
        return chosen

    def _prepare(self) -> None:
        arrays = {name: self._values[name] for name in sorted(self._waiting)}
        self._arena.prepare({n: v for n, v in arrays.items() if type(v) is np.ndarray})
        self._is_prepared = True

    def _copied(self, name: str) -> Value:
        value = self._values[name]
        is_array = type(value) is np.ndarray
        return self._arena.copy(name, value) if is_array else detach(value, name)


class Savings:
    """What the nodes of one process hold; at most one save per node at a time."""

    def __init__(self) -> None:
        self._arenas: dict[str, Arena] = {}
        self._held: dict[Ticket, Held] = {}
        self._numbers = count(1)

    def hold(self, step: SaveState, node: str, epoch: int, blobs: Mapping[str, Value]) -> Ticket:
        """Begin a save of the node: hold the step's blobs as they are now."""
        values = {name: blobs[name] for name in step.names}
        ticket = Ticket(node, epoch, next(self._numbers), size_bytes(tuple(values.values())))
        arena = self._arenas.setdefault(node, Arena())
        self._held[ticket] = Held(ticket, step, values, arena)
        return ticket

    def protect(
        self, tickets: Iterable[Ticket], changed: tuple[NodeNames, ...], opaque: NodeNames
    ) -> None:
        """Say what the groups that may come next change; see ``Held.protect``."""
        for ticket in tickets:
            names = tuple(one.get(ticket.node, _NO_NAMES) for one in changed)
            self._held[ticket].protect(names, opaque.get(ticket.node, _NO_NAMES))

    def gates(self, changed: NodeNames) -> Mapping[str, Held]:
        """By node, what has to be passed by the blocks of a group that changes these names."""
        found: dict[str, Held] = {}
        for held in tuple(self._held.values()):
            names = changed.get(held.ticket.node, _NO_NAMES)
            if names:
                held.secure(names)
                if not held.is_safe:
                    found[held.ticket.node] = held
        return found

    def persist(self, ticket: Ticket, directory: str) -> NodeSave:
        """Write what a ticket stands for into the directory; see ``Held.write``."""
        return self._held[ticket].write(directory)

    def release(self, tickets: Iterable[Ticket]) -> None:
        """Let go of what the tickets stand for; of one that is gone already, nothing happens."""
        for ticket in tickets:
            self._held.pop(ticket, None)
