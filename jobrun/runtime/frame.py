"""What a running block of steps can see: its workspaces, its place, its random stream.

A ``GroupRun`` is shared by all that runs in one group run; a ``Frame`` belongs to one block
(task body, setup block, report, branch) and one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from jobrun.blobs.values import Value
from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Listener
from jobrun.graph.types import Node, OutputRef
from jobrun.runtime.cancel import CancelScope
from jobrun.runtime.leash import Leash
from jobrun.runtime.lines import LineEnds
from jobrun.runtime.rng import StreamKey, stream
from jobrun.runtime.savings import Held, Savings
from jobrun.runtime.workspace import Blobs

if TYPE_CHECKING:
    from jobrun.runtime.midway import Points

# Copies of a blob of nodes' global workspaces, in the order of the nodes, as they are asked for.
Fetch = Callable[[Sequence[str], str, CancelScope], Iterator[Value]]
# While inside, the path here of a file of a committed epoch, of which the path is given.
Bring = Callable[[str], AbstractContextManager[str]]
# Runs work in another thread, then calls done there; the thread counts as free before it.
Start = Callable[[Callable[[], None], Callable[[], None]], None]


@dataclass(slots=True)
class GroupRun:
    """One run of one group.

    Attributes:
        outputs: Outputs of earlier groups, and of the tasks of this one that have ended.
        start: Runs work in another thread.
        leash: Ends programs that would outlive this process.
        body: Cancelled by the first error or a stop request.
        cleanup: The scope of exit blocks and last reports, which run after that too;
            cancelled only when the time for them is over.
        errors: What went wrong, in the order of its happening.
        failed: For each error the task that declares ``retry`` and failed with it, or "".
        interrupted: Something did not run to its end because the run was cancelled.
        lines: The group's queues, by name and node; without a node where all nodes share one.
        grace_s: How long tasks may take to their end once they were asked to.
        task: In what ``apart`` gives: the task's name, if it declares ``retry``.
        whole: In what ``apart`` gives: the run to which a failure matters.
        savings: What the nodes hold for saves.
        gates: By node, what blocks have to pass before they change a blob that is being saved.
        points: What is done between two records of its only task; None for nothing.
        fetch: Gives copies of what lives on other nodes, and here.
        bring: Makes files of epochs readable here.
        beside: As ``start``, raising ``RuntimeError`` when no processor is idle; None for never.
        is_alone: Nothing else runs in any process, and nobody looks into a workspace meanwhile.
    """

    group: str
    epoch: int
    seed: int
    run_dir: str
    folder: str
    emit: Listener
    outputs: dict[OutputRef, Value]
    start: Start
    leash: Leash
    lines: Mapping[tuple[str, str], LineEnds] = field(default_factory=dict)
    body: CancelScope = field(default_factory=CancelScope)
    cleanup: CancelScope = field(default_factory=CancelScope)
    errors: list[BaseException] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    interrupted: bool = False
    grace_s: float = 30.0
    task: str = ""
    whole: GroupRun | None = None
    savings: Savings = field(default_factory=Savings)
    gates: Mapping[str, Held] = field(default_factory=dict)
    points: Points | None = None
    fetch: Fetch = field(default=lambda nodes, name, _: _nowhere(nodes, name))
    bring: Bring = nullcontext
    beside: Start | None = None
    is_alone: bool = False

    def fail(self, error: BaseException, task: str = "") -> None:
        """Note an error, once, and ask everything that runs to end."""
        if not any(error is one for one in self.errors):
            self.errors.append(error)
            self.failed.append(task)
        self.body.cancel()
        if self.whole is not None:
            self.whole.fail(error, self.task)

    def apart(self, task: str, whole: GroupRun | None) -> GroupRun:
        """The same run as one task sees it that can end by itself: errors and scope are its own."""
        return replace(
            self, body=CancelScope(), errors=[], failed=[], interrupted=False, task=task,
            whole=whole,
        )  # fmt: skip


def _nowhere(nodes: Sequence[str], name: str) -> Iterator[Value]:
    raise RuntimeError(f"nobody can fetch '{name}' from {nodes} in this run")


class Frame:
    """The view of one block; its short attributes are those that generated code reads.

    Attributes:
        i: The instance's workspace; the task's where there is only one instance.
        t: The task's.
        g: The group run's on this node; the node's in a global group.
        n: The node's.
        place: Path of the block: key of its random stream.
        streams: Streams in use, by place; shared by all blocks of one instance, so that a
            block which runs again goes on in its stream.
        loops: Pass numbers of the loops around, by their paths.
        failed: Whether the body failed; for exit blocks.
        results: What steps hand to the task's outputs besides blobs.
        record: Number of the record at hand where any instance may get it: then its random
            streams are its own; -1 elsewhere.
    """

    __slots__ = (
        "cancel", "epoch", "failed", "g", "i", "instance", "instances", "loops", "n", "node",
        "place", "record", "results", "run", "streams", "t", "task",
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
        self.place = ""
        self.failed = False
        self.loops: dict[str, int] = {}
        self.streams: dict[str, np.random.Generator] = {}
        self.results: dict[str, Value] = {}
        self.record = -1

    def at(self, place: str) -> Frame:
        """The same view for another block."""
        other = Frame.__new__(Frame)
        for name in Frame.__slots__:
            setattr(other, name, getattr(self, name))
        other.place = place
        other.loops = dict(self.loops)
        return other

    def cleaning(self, place: str, *, failed: bool) -> Frame:
        """The view of a block that runs after the body, whether it failed or not."""
        other = self.at(place)
        other.cancel = self.run.cleanup
        other.failed = failed
        return other

    @property
    def rng(self) -> np.random.Generator:
        """The block's random stream, made when first asked for."""
        generator = self.streams.get(self.place)
        if generator is None:
            by_record = self.record >= 0
            key = StreamKey(
                self.run.group, self.epoch, self.node.name, self.task,
                0 if by_record else self.instance,
                f"{self.place}#{self.record}" if by_record else self.place,
            )  # fmt: skip
            generator = self.streams[self.place] = stream(self.run.seed, key)
        return generator

    def take(self, workspace: Blobs, *names: str) -> None:
        """Remove blobs from a workspace, if nobody but who has them looks for them there."""
        if self.run.is_alone:
            for name in names:
                workspace.pop(name, None)

    def spare(self, workspace: Blobs, name: str) -> Value:
        """A blob that is removed as by ``take``, and can give its memory; None where it cannot."""
        return workspace.pop(name, None) if self.run.is_alone else None

    def output(self, ref: OutputRef) -> Value:
        """A task's output.

        Raises:
            TaskFailedError: E218, when that task has not ended.
        """
        try:
            return self.run.outputs[ref]
        except KeyError:
            raise TaskFailedError.of(
                "E218",
                f"the output '{ref}' is not there",
                f"add 'needs: [{ref.task}]', or read it in a later group",
            ) from None
