"""Check reads of task outputs, and find the node whose task each of them means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from jobrun.compile.analysis.queues import must_run_concurrently
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.definite_assignment import FlowAnalysis
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, TaskDraft
from jobrun.core.text.names import did_you_mean
from jobrun.graph.expressions import OutputRead
from jobrun.graph.steps import Step
from jobrun.graph.traversal import rewrite_parts
from jobrun.graph.types import GROUPS, GroupName

_Graph = TypeVar("_Graph")


class OutputTable:
    """All outputs of a job's tasks."""

    def __init__(self, groups: Mapping[GroupName, GroupDraft], faults: Faults) -> None:
        self._tasks = {task.name: task for group in groups.values() for task in group.tasks}
        self._outputs = {
            name: frozenset(output.name for output in task.outputs)
            for name, task in self._tasks.items()
        }
        self._positions = {
            task.name: position
            for group in groups.values()
            for position, task in enumerate(group.tasks)
        }
        self._groups = groups
        self._faults = faults
        self._nodes = {node for task in self._tasks.values() for node in task.nodes}

    def has_task(self, name: str) -> bool:
        """Return whether the job has a task of this name, with outputs or without."""
        return name in self._tasks

    def task_names(self) -> Iterable[str]:
        """Return the names of the tasks that declare ``outputs``."""
        return [name for name, outputs in self._outputs.items() if outputs]

    def resolve(
        self,
        read: OutputRead,
        node: str | None,
        groups: tuple[GroupName, ...],
        spec_position: SpecPosition,
        *,
        in_probe: bool = False,
    ) -> OutputRead | None:
        """Find the node of a task output that is read; add a fault if there is no such output.

        Args:
            read: The read, as written.
            node: The node that reads: it means its own task's output where there is one.
            groups: The groups that have ended when the output is read.
            spec_position: The position of the read.
            in_probe: The runner reads it, and not a task.
        """
        task = self._tasks[read.task]
        if read.output not in self._outputs[read.task]:
            mend = did_you_mean(read.output, self._outputs[read.task])
            if not self._outputs[read.task]:
                mend = f"write outputs: [{read.output}] in task '{read.task}'; "
                mend += _quoting_mend(read.task, read.output)
            self._faults.error(
                "E148", f"task '{read.task}' has no output '{read.output}'", mend, spec_position
            )
            return None
        if task.group not in groups:
            message = f"task '{read.task}' is in '{task.group}', which has not run yet"
            self._faults.error("E149", message, "read an output of an earlier group", spec_position)
            return None
        if node in task.nodes:
            return replace(read, node=node)
        if len(task.nodes) == 1:
            return replace(read, node=task.nodes[0])
        if task.nodes:
            over = f"write {{of: {read.task}.{read.output}, nodes: …, reduce: …}}"
            mend = over if in_probe and node is None else f"run '{read.task}' on one node"
            several = f"task '{read.task}' runs on {len(task.nodes)} nodes"
            message = f"{several}, so '{read.task}.{read.output}' has several values"
            self._faults.error("E133", message, mend, spec_position)
        return None

    def check_reads(self, reader: TaskDraft, nodes: Iterable[str]) -> None:
        """Check that the outputs that a task reads exist, and are of earlier tasks."""
        for (name, output), spec_position in self._output_reads(reader).items():
            if not self._check_task_exists(name, output, spec_position):
                continue
            other = self._tasks[name]
            if output in self._outputs[name] and not self._check_ordered(
                reader, other, spec_position
            ):
                continue
            ended = GROUPS[: GROUPS.index(reader.group) + 1]
            for node in nodes:
                self.resolve(OutputRead(name, output), node, ended, spec_position)

    def check_setup_and_reports(self, group: GroupDraft) -> None:
        """Check that the task outputs read in a group's set-up and reports exist in time."""
        reads: dict[int, dict[tuple[str, str], SpecPosition]] = {}

        def read_by(steps: tuple[Step, ...], path: str) -> dict[tuple[str, str], SpecPosition]:
            # Nodes share their set-up, so it is scanned once.
            if id(steps) not in reads:
                finder = FlowAnalysis()
                finder.block(steps, path)
                reads[id(steps)] = finder.uses.outputs
            return reads[id(steps)]

        for node, setups in group.setups.items():
            for setup in setups:
                self._check_outside(read_by(setup.init, setup.name), node, group, at_end=False)
                self._check_outside(read_by(setup.exit, setup.name), node, group, at_end=True)
        for node, reports in group.reports.items():
            for report in reports:
                self._check_outside(read_by(report.steps, report.path), node, group, at_end=False)

    def _check_outside(
        self,
        reads: Mapping[tuple[str, str], SpecPosition],
        node: str,
        group: GroupDraft,
        *,
        at_end: bool,
    ) -> None:
        """Check that task outputs read in set-ups and reports are of tasks that have ended."""
        earlier = GROUPS[: GROUPS.index(group.name)]
        for (name, output), spec_position in reads.items():
            if not self._check_task_exists(name, output, spec_position):
                continue
            other = self._tasks[name]
            if output not in self._outputs[name] or other.group != group.name:
                self.resolve(OutputRead(name, output), node, earlier, spec_position)
            elif not at_end:
                self._faults.error(
                    "E149",
                    f"task '{name}' may not have ended when this is read",
                    "read an output of an earlier group, or the blob itself; the exit of a set-up "
                    "may read it",
                    spec_position,
                )
            elif node not in other.nodes and other.nodes:
                self._faults.error(
                    "E149",
                    f"task '{name}' runs on '{other.nodes[0]}', and may not have ended "
                    f"when those of '{node}' have",
                    "read it on its own node, or in a later group",
                    spec_position,
                )
            elif not other.rebuild and self._is_rebuilt(group, node):
                message = f"this runs again on resume, but task '{name}' does not"
                mend = f"give '{name}' 'rebuild: true' too, or read it in a later group"
                self._faults.error("E149", message, mend, spec_position)

    @staticmethod
    def _is_rebuilt(group: GroupDraft, node: str) -> bool:
        """Return whether a resume repeats the reads of task outputs in a node's ``init``."""
        return group.name == "init" and any(
            task.rebuild and node in task.nodes for task in group.tasks
        )

    def _check_task_exists(self, name: str, output: str, spec_position: SpecPosition) -> bool:
        if self.has_task(name):
            return True
        mend = did_you_mean(name, list(self.task_names()))
        if name in self._nodes:
            pull = f"{{pull: {{{output}: {{from: {name}, blob: {output}}}}}}}"
            mend = f"'{name}' is a node: get its blob with {pull}"
        if name == "params":
            mend = f"a param is read by its name alone: write '{output}'"
        elif name not in self._nodes and not mend.startswith("did you mean"):
            mend = f"{mend}; {_quoting_mend(name, output)}"
        self._faults.error(
            "E170", f"unknown task '{name}' in '{name}.{output}'", mend, spec_position
        )
        return False

    def bind_nodes(self, graph: _Graph, node: str) -> _Graph:
        """Set in each read of a task output in a group the node whose output is read."""
        return rewrite_parts(graph, OutputRead, lambda read: self._bind_node(read, node))

    def _bind_node(self, read: OutputRead, node: str) -> OutputRead:
        if read.node:
            return read
        task = self._tasks[read.task]
        return replace(read, node=node if node in task.nodes else task.nodes[0])

    @staticmethod
    def _output_reads(task: TaskDraft) -> dict[tuple[str, str], SpecPosition]:
        flow = task.flow
        return {**flow.reporting.outputs, **flow.inner.outputs, **flow.once.outputs}

    def reads_outputs(self, task: TaskDraft) -> bool:
        """Return whether a task reads any task output in its steps, set-up or reports."""
        return bool(self._output_reads(task))

    def _check_ordered(
        self, reader: TaskDraft, other: TaskDraft, spec_position: SpecPosition
    ) -> bool:
        if other.group != reader.group:
            return True
        name = other.name
        if other is reader:
            message = "a task cannot read its own output, which is taken when it ends"
            self._faults.error("E149", message, "read the blob itself", spec_position)
            return False
        order = self._groups[reader.group].order
        first, second = self._positions[name], self._positions[reader.name]
        if order.is_sound and not order.is_before(first, second):
            mend = f"write needs: [{name}]"
            if must_run_concurrently(self._groups[reader.group], first, second):
                mend = (
                    "a queue connects the two tasks: read it in a later group, or send it "
                    "as a field"
                )
            self._faults.error(
                "E149", f"task '{name}' may not have ended when this is read", mend, spec_position
            )
            return False
        return True


def _quoting_mend(task: str, output: str) -> str:
    return f"a text is quoted again: \"'{task}.{output}'\""
