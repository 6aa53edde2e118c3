"""Define workspaces, and the view that a running block of steps has of them: its frame.

A ``Frame`` belongs to one block (task body, setup block, report, branch) and one thread.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, NoReturn

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Listener
from jobrun.graph.types import Node, OutputRef, Scope
from jobrun.runtime.context.group_run_state import GroupRun
from jobrun.runtime.context.rng import StreamKey, make_stream
from jobrun.runtime.snapshots.snapshot import Snapshot
from jobrun.values.blob_kinds import Value

# The one-letter names that generated code and frames use for the four workspaces.
LEVELS: Final[dict[Scope, str]] = {
    Scope.INSTANCE: "i",
    Scope.TASK: "t",
    Scope.GROUP: "g",
    Scope.NODE: "n",
}


class Frame:
    """The view that one running block has; generated code reads its short attributes.

    Attributes:
        i: The instance's workspace; the task's where there is only one instance.
        t: The task's.
        g: The group run's on this node; the node's in a global group.
        n: The node's.
        place: Path of the block: key of its random stream.
        streams: Streams in use, by place; shared by all blocks of one instance, so that a
            block which runs again continues its stream.
        loops: Pass numbers of the loops around, by their paths.
        failed: Whether the body failed; for exit blocks.
        results: What steps hand to the task's outputs besides blobs.
        record: Number of the record at hand where any instance may get it: then its random
            streams are its own; -1 elsewhere.
    """

    __slots__ = (
        "block_path", "cancel", "epoch", "failed", "g", "i", "instance", "instances", "loops", "n",
        "node", "record", "results", "run", "streams", "t", "task",
    )  # fmt: skip

    def __init__(
        self, run: GroupRun, node: Node, task: str, workspaces: tuple[Blobs, Blobs, Blobs, Blobs]
    ) -> None:
        self.run = run
        self.node = node
        self.task = task
        self.i, self.t, self.g, self.n = workspaces
        self.epoch = run.epoch
        self.instance = 0
        self.instances = 1
        self.cancel = run.body
        self.block_path = ""
        self.failed = False
        self.loops: dict[str, int] = {}
        self.streams: dict[str, np.random.Generator] = {}
        self.results: dict[str, Value] = {}
        self.record = -1

    def at(self, block_path: str) -> Frame:
        """Return a copy of the frame for another block of steps of the same task."""
        other = Frame.__new__(Frame)
        for name in Frame.__slots__:
            setattr(other, name, getattr(self, name))
        other.block_path = block_path
        other.loops = dict(self.loops)
        return other

    def for_cleanup(self, block_path: str, *, failed: bool) -> Frame:
        """Return a frame for ``exit`` steps and last reports, which run even after a failure."""
        other = self.at(block_path)
        other.cancel = self.run.cleanup
        other.failed = failed
        return other

    @property
    def rng(self) -> np.random.Generator:
        """Return the random stream of the frame's block of steps, created at its first use."""
        generator = self.streams.get(self.block_path)
        if generator is None:
            by_record = self.record >= 0
            key = StreamKey(
                self.run.group,
                self.epoch,
                self.node.name,
                self.task,
                0 if by_record else self.instance,
                f"{self.block_path}#{self.record}" if by_record else self.block_path,
            )
            generator = self.streams[self.block_path] = make_stream(self.run.seed, key)
        return generator

    @property
    def node_name(self) -> str:
        """Return the name of the node on which the frame's block runs."""
        return self.node.name

    @property
    def emit(self) -> Listener:
        """Return the function by which the frame's steps send events, such as log lines."""
        return self.run.emit

    def gate(self, changes: frozenset[str]) -> Snapshot | None:
        """Return the snapshot to wait for before the frame's steps change blobs, or None."""
        return self.run.gates.get(self.node.name) if changes else None

    def wait(self, seconds: float) -> None:
        """Wait for some seconds in the frame's block of steps; raise if that is cancelled.

        Raises:
            CancelledError: The scope was cancelled.
        """
        woken: SimpleQueue[None] = SimpleQueue()
        with self.cancel.waking(lambda: woken.put(None)), suppress(Empty):
            woken.get(timeout=seconds)
        self.cancel.check()

    def take(self, workspace: Blobs, *names: str) -> None:
        """Delete blobs from one dict of the frame, unless other threads may read that dict."""
        if self.run.is_alone:
            for name in names:
                workspace.pop(name, None)

    def spare(self, workspace: Blobs, name: str) -> Value:
        """Remove a frame's blob to reuse its memory; return None if other threads may read it."""
        return workspace.pop(name, None) if self.run.is_alone else None

    def resolve_folder(self, folder: str) -> str:
        """Return the absolute path of the folder in which this frame's steps find files."""
        return str(Path(self.run.folder, folder)) if folder else self.run.folder

    def output(self, ref: OutputRef) -> Value:
        """Return the value of another task's output to steps that run on this frame.

        Raises:
            TaskFailedError: E218, when that task has not ended.
        """
        try:
            return self.run.outputs[ref]
        except KeyError:
            raise TaskFailedError.of(
                "E218",
                f"the output '{ref}' does not exist yet",
                f"add 'needs: [{ref.task}]', or read it in a later group",
            ) from None


class MissingBlobError(LookupError):
    """A blob was read that no step has made. ``name`` is the blob's."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Blobs(dict[str, Value]):
    """The blobs of one workspace, by name.

    Single reads and writes are indivisible, so tasks of one node may share a workspace.
    """

    __slots__ = ("__weakref__", "_refused")

    def __missing__(self, name: str) -> NoReturn:
        raise self.explain_missing(name) or MissingBlobError(name)

    def refuse(self, name: str, value: Value, error: TaskFailedError) -> None:
        """Delete a blob from this dict of a frame's blobs; to read it raises an error from now on.

        Unless it gets another value before.
        """
        self._refused = {**getattr(self, "_refused", {}), name: (value, error)}
        self.pop(name, None)

    def is_refused(self, name: str, value: Value) -> bool:
        """Return whether this dict of a frame's blobs refuses a blob that has this value."""
        refused = getattr(self, "_refused", {}).get(name)
        return refused is not None and refused[0] is value

    def explain_missing(self, name: str) -> TaskFailedError | None:
        """Return the error for which this dict of a frame's blobs refuses one, or None."""
        refused = getattr(self, "_refused", {}).get(name)
        return None if refused is None else TaskFailedError(*refused[1].faults)

    def drop(self, name: str) -> None:
        """Delete a blob from this dict of a frame's blobs; raise if it is not there.

        Raises:
            MissingBlobError: There is none of that name.
        """
        if name not in self and self.explain_missing(name) is None:
            raise MissingBlobError(name)
        self.pop(name, None)


def display_name(name: str) -> str:
    """Return a blob's name in the spec, from its prefixed name in a frame."""
    return name.rpartition(":")[2]
