"""Open a session of many nodes that do not exist: what a master does by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.store_protocol import StoredFile
from jobrun.checkpoint.task_groups import SAVE_TASK, TICKET_OUTPUT, Ticket
from jobrun.core.events import TaskEnded
from jobrun.graph.types import Cluster, OutputRef, TaskGroup
from jobrun.session.base import BUILT_IN, Outputs, RunContext
from jobrun.session.processes.group_run import TaskCompletions
from jobrun.session.wire.codec import WIRE_TYPES, encode
from jobrun.session.wire.partition_group import partition_group

DIGEST = "sha256:" + "0" * 64
SPEC = """\
jobrun: 1
name: many
seed: 1
nodes: {{w: {{count: {nodes}}}}}
init:
  - {{task: make, node: w, steps: [w = zeros(100), loss = 0.0]}}
epoch:
  - task: look
    node: w
    steps: [{first}]
    outputs: [m]
  - task: train
    node: w
    needs: [look]
    steps: [w = w + look.m, loss = mean(w)]
    outputs: [loss]
download:
  - task: gather
    node: w_0
    steps: [{{pull: {{losses: {{from: w, blob: loss, reduce: stack}}}}}}]
metrics: {{loss: {{of: loss, nodes: w_*, reduce: mean}}}}
stop: [{{epochs: {epochs}}}]
checkpoint: {{every: 1ep, keep: {{last: 2}}}}
"""


class FakeSession:
    """Partitions groups, and reports tasks, as a session of processes would; nothing computes.

    Attributes:
        nodes_s: What was spent on doing the work of nodes: their files.
        messages: How many a session would have sent.
        message_bytes: How long the shares of groups were.
    """

    def __init__(self) -> None:
        self.nodes_s = 0.0
        self.messages = 0
        self.message_bytes = 0
        self._shares: dict[int, Any] = {}
        self._ticket = 0
        self._emit: Any = None

    def open(self, cluster: Cluster, context: RunContext) -> None:
        self._emit = context.emit

    def run(
        self, group: TaskGroup, epoch: int, outputs: Outputs, points: Any = None
    ) -> dict[OutputRef, Any]:
        shares = self._divided(group)
        endings = TaskCompletions(shares)
        all_outputs: dict[OutputRef, Any] = {}
        self.messages += len(shares.by_node)
        for task in group.tasks:
            task_outputs: dict[OutputRef, Any] = {
                OutputRef(task.name, task.node, output.name): 0.5 for output in task.outputs
            }
            if task.name == SAVE_TASK:
                self._ticket += 1
                task_outputs = {
                    ref: Ticket(task.node, epoch, self._ticket, 800)
                    for ref in task_outputs
                    if ref.output == TICKET_OUTPUT
                }
            elif task.node in shares.awaited_nodes[task.name]:
                self.messages += 1 + len(endings.mark_ended(task.name, task.node, task_outputs))
            self._emit(TaskEnded(task.name, task.node, epoch, 0.001, False))
            all_outputs |= task_outputs
        return all_outputs

    def snapshot(self, group: TaskGroup) -> None:
        return None

    def restore(self, snapshot: Any) -> None:
        return None

    def protect(self, tickets: Sequence[Ticket], groups: Sequence[TaskGroup]) -> None:
        return None

    def persist(self, tickets: Sequence[Ticket], directory: str) -> tuple[NodeSave, ...]:
        begun = time.perf_counter()
        saves = []
        for ticket in tickets:
            Path(directory, f"{ticket.node}.h5").write_bytes(b"x")
            saves.append(NodeSave(StoredFile(ticket.node, f"{ticket.node}.h5", 1, DIGEST)))
        self.nodes_s += time.perf_counter() - begun
        return tuple(saves)

    def release(self, tickets: Sequence[Ticket]) -> None:
        return None

    def read(self, node: str, names: tuple[str, ...]) -> dict[str, Any]:
        self.messages += 1
        return dict.fromkeys(names, 0.5)

    def names(self, node: str) -> tuple[str, ...]:
        return ("loss", "w")

    def settle(self, keep: Mapping[str, tuple[str, ...]], *, final: bool = False) -> None:
        self.messages += len(keep)

    def renew(self) -> tuple[str, ...]:
        return ()

    def request_stop(self) -> None:
        return None

    def close(self) -> None:
        return None

    def _divided(self, group: TaskGroup) -> Any:
        """Partition a group, once for as long as the job has it."""
        shares = self._shares.get(id(group))
        if shares is None or shares.group is not group:
            shares = self._shares[id(group)] = partition_group(group)
            for share in shares.by_node.values():
                self.message_bytes += len(encode(share, WIRE_TYPES).head)
        return shares


MADE: list[FakeSession] = []


def make_session() -> FakeSession:
    """Make a session, also the last of ``MADE``."""
    MADE.append(FakeSession())
    return MADE[-1]


@contextmanager
def fake_nodes() -> Iterator[None]:
    """Register the session ``fake`` while inside."""
    BUILT_IN["fake"] = f"{__name__}:make_session"
    try:
        yield
    finally:
        del BUILT_IN["fake"]


def many(folder: Path, nodes: int, epochs: int = 2, *, pulls: bool = False) -> Path:
    """Return a spec for so many nodes, each of which reads its own blobs, or those of all."""
    first = "{pull: {m: {from: w, blob: loss, reduce: mean}}}" if pulls else "m = mean(w)"
    path = folder / f"many-{nodes}.yaml"
    path.write_text(SPEC.format(nodes=nodes, epochs=epochs, first=first))
    return path
