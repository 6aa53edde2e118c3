"""Run Python functions as the groups of a session, for tests of when things run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from jobrun.graph.types import Cluster, OutputRef, TaskGroup
from jobrun.session.base import GroupCancelledError, Outputs, RunContext

Script = Mapping[str, Callable[[dict, int], Mapping[OutputRef, object] | None]]


class ScriptedSession:
    """Runs ``script[group.name](blobs of the one node, epoch)``, and keeps a list of all calls."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.blobs: dict[str, object] = {}
        self.calls: list[str] = []
        self.seen: dict[str, Outputs] = {}
        self.cancelled = False
        # How many calls came before the one that says that no epoch follows.
        self.settled_before = -1

    def open(self, cluster: Cluster, context: RunContext) -> None:
        self.calls.append("open")

    def run(self, group: TaskGroup, epoch: int, outputs: Outputs) -> Outputs:
        self.calls.append(f"{group.name} {epoch}")
        self.seen[group.name] = dict(outputs)
        act = self.script.get(group.name)
        outputs_ = act(self.blobs, epoch) if act else None
        if self.cancelled:
            raise GroupCancelledError
        return outputs_ or {}

    def snapshot(self, group: TaskGroup) -> object:
        self.calls.append("snapshot")
        return copy.deepcopy(self.blobs)

    def restore(self, snapshot: dict[str, object]) -> None:
        self.calls.append("restore")
        self.blobs.clear()
        self.blobs.update(copy.deepcopy(snapshot))

    def read(self, node: str, names: tuple[str, ...]) -> dict[str, object]:
        return {name: copy.deepcopy(self.blobs[name]) for name in names}

    def names(self, node: str) -> tuple[str, ...]:
        return tuple(sorted(self.blobs))

    def settle(self, keep: Mapping[str, tuple[str, ...]], *, final: bool = False) -> None:
        if final:
            self.settled_before = len(self.calls)
        else:
            self.calls.append("settle")

    def request_stop(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.calls.append("close")
