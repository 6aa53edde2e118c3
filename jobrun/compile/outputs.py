"""Outputs of tasks: which there are, and on which node's task a reading of one means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from jobrun.compile.faults import Faults, Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.tasks import Draft
from jobrun.core.names import did_you_mean
from jobrun.graph.expr import OutputRead
from jobrun.graph.rewrite import rewritten
from jobrun.graph.types import GROUPS, GroupName

_Graph = TypeVar("_Graph")


class OutputTable:
    """All outputs of a job."""

    def __init__(self, groups: Mapping[GroupName, GroupDraft], faults: Faults) -> None:
        self._tasks = {task.name: task for group in groups.values() for task in group.tasks}
        self._outputs = {
            name: frozenset(output.name for output in task.outputs)
            for name, task in self._tasks.items()
        }
        self._positions = {
            task.name: position
            for group in groups.values() for position, task in enumerate(group.tasks)
        }  # fmt: skip
        self._groups = groups
        self._faults = faults

    def has_task(self, name: str) -> bool:
        """Whether the job has a task of this name."""
        return name in self._tasks

    def task_names(self) -> Iterable[str]:
        """Tasks that have outputs."""
        return [name for name, outputs in self._outputs.items() if outputs]

    def resolve(
        self, read: OutputRead, node: str | None, groups: tuple[GroupName, ...], place: Place,
        *, in_probe: bool = False,
    ) -> OutputRead | None:  # fmt: skip
        """The output with its node, or None after noting why there is none.

        Args:
            read: As written.
            node: The node that reads: it means its own task's output where there is one.
            groups: The groups that have ended when it is read.
            place: Where it is written.
            in_probe: The runner reads it, and not a task.
        """
        task = self._tasks[read.task]
        if read.output not in self._outputs[read.task]:
            mend = did_you_mean(read.output, self._outputs[read.task])
            if not self._outputs[read.task]:
                mend = f"write outputs: [{read.output}] in task '{read.task}'"
            self._faults.error("E148", f"task '{read.task}' has no output '{read.output}'",
                               mend, place)  # fmt: skip
            return None
        if task.group not in groups:
            self._faults.error("E149", f"task '{read.task}' is in '{task.group}', which has not "
                               "run then", "read an output of an earlier group", place)  # fmt: skip
            return None
        if node in task.nodes:
            return replace(read, node=node)
        if len(task.nodes) == 1:
            return replace(read, node=task.nodes[0])
        if task.nodes:
            over = f"write {{of: {read.task}.{read.output}, nodes: …, reduce: …}}"
            mend = over if in_probe and node is None else f"let '{read.task}' run on one node"
            several = f"task '{read.task}' runs on {len(task.nodes)} nodes"
            message = f"{several}, so '{read.task}.{read.output}' is several values"
            self._faults.error("E133", message, mend, place)
        return None

    def check_reads(self, reader: Draft, nodes: Iterable[str]) -> None:
        """Note faults of the outputs that a task reads."""
        for (name, output), place in self._reads_of(reader).items():
            if not self.has_task(name):
                known = list(self.task_names())
                self._faults.error("E170", f"unknown task '{name}' in '{name}.{output}'",
                                   did_you_mean(name, known), place)  # fmt: skip
                continue
            other = self._tasks[name]
            if output in self._outputs[name] and not self._is_ordered(reader, other, place):
                continue
            ended = GROUPS[: GROUPS.index(reader.group) + 1]
            for node in nodes:
                self.resolve(OutputRead(name, output), node, ended, place)

    def bind(self, graph: _Graph, node: str) -> _Graph:
        """A task, or steps, with the node of each output that is read filled in."""
        return rewritten(graph, OutputRead, lambda read: self._bind_one(read, node))

    def _bind_one(self, read: OutputRead, node: str) -> OutputRead:
        if read.node:
            return read
        task = self._tasks[read.task]
        return replace(read, node=node if node in task.nodes else task.nodes[0])

    @staticmethod
    def _reads_of(task: Draft) -> dict[tuple[str, str], Place]:
        flow = task.flow
        return {**flow.reporting.outputs, **flow.inner.outputs, **flow.once.outputs}

    def reads_outputs(self, task: Draft) -> bool:
        """Whether the task reads any output."""
        return bool(self._reads_of(task))

    def _is_ordered(self, reader: Draft, other: Draft, place: Place) -> bool:
        if other.group != reader.group:
            return True
        name = other.name
        if other is reader:
            self._faults.error("E149", "a task cannot read its own output: it is taken at its end",
                               "read the blob itself", place)  # fmt: skip
            return False
        order = self._groups[reader.group].order
        if order.is_sound and not order.is_before(
            self._positions[name], self._positions[reader.name]
        ):
            self._faults.error("E149", f"task '{name}' may not have ended when this is read",
                               f"write needs: [{name}]", place)  # fmt: skip
            return False
        return True
