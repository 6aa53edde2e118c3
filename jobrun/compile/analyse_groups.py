"""Analyse and assemble the groups of a job, in the order in which they run.

It needs drafts of tasks only, whether they come from a spec or from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from jobrun.compile.analysis.callable_aliasing import UnsharedPairs, find_unshareable_blobs
from jobrun.compile.analysis.missing_blobs import MissingBlobs
from jobrun.compile.analysis.outputs import OutputTable
from jobrun.compile.analysis.scopes import NodeView, build_node_views
from jobrun.compile.analysis.state import KeptNames, find_left_names, find_state, names_of
from jobrun.compile.checks.exactness import add_probes, find_inexactness
from jobrun.compile.checks.races import check_pulls, check_races
from jobrun.compile.checks.visibility import (
    ProtectedNames,
    VisibilityCheck,
    check_tolerant_tasks,
    check_tolerant_writes,
    note_problems,
)
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, JobDraft, TaskDraft
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import Probe, StopCondition
from jobrun.graph.query import walk
from jobrun.graph.readers import ReadQueue, ReadRecords
from jobrun.graph.steps import Step
from jobrun.graph.types import (
    Apart,
    Exactness,
    GroupName,
    NodeReport,
    NodeSetup,
    Task,
    TaskGroup,
)

Names = Mapping[str, frozenset[str]]


class Analysis:
    """The analysis of a job's groups, in the order in which they run.

    Attributes:
        outputs: All outputs of the job.
    """

    def __init__(self, draft: JobDraft, faults: Faults) -> None:
        groups = self._groups = draft.groups
        self._faults = faults
        self._views: dict[GroupName, dict[str, NodeView]] = {}
        self.outputs = OutputTable(groups, faults)
        self._missing = MissingBlobs(groups, draft.params, faults)
        self._callables: Names = {}
        self._kept: Names = {}
        self._apart: dict[str, UnsharedPairs] = {}

    def check_tasks(self) -> None:
        """Check all groups' tasks for reads of deleted blobs or missing task outputs."""
        epoch = self._groups["epoch"]
        if not epoch.tasks:
            spec_position = SpecPosition("epoch", epoch.origin)
            self._faults.error(
                "E139", "'epoch' has no task", "add the work of one epoch", spec_position
            )
        for group in self._groups.values():
            check_tolerant_tasks(group, self._faults)
            self.outputs.check_setup_and_reports(group)
            for task in group.tasks:
                note_problems(task.flow.problems, self._faults, hogwild=task.hogwild)
                if self.outputs.reads_outputs(task):
                    self.outputs.check_reads(task, task.nodes)

    def check_init(self, there: Names) -> dict[str, KeptNames]:
        """Analyse the group ``init``; return the blobs it leaves: state and constants.

        Args:
            there: Per node, the names that exist before.
        """
        names_by_node = find_state(self._check_group("init", there, {}), self._faults)
        self._callables = {
            node: frozenset(names.callables) for node, names in names_by_node.items()
        }
        return names_by_node

    def keep_saved(
        self, names_by_node: Mapping[str, KeptNames], policy: CheckpointPolicy
    ) -> dict[str, KeptNames]:
        """Select the blobs that later groups start with: constants and saved state."""
        selected = {}
        saved = set(policy.nodes)
        for node, names in names_by_node.items():
            if node in saved:
                selected[node] = names
            else:
                selected[node] = KeptNames((), names.constants, names.callables)
                self._missing.dropped[node] = frozenset(names.state)
        return selected

    def check_other_groups(self, names_by_node: Mapping[str, KeptNames]) -> None:
        """Analyse the groups after ``init``: add faults of missing blobs and data races."""
        names = self._kept = names_of(names_by_node)
        owned = {
            node: ProtectedNames(
                frozenset(node_names.state),
                frozenset(node_names.constants),
                frozenset(node_names.callables),
            )
            for node, node_names in names_by_node.items()
        }
        self._check_group("epoch", names, owned)
        download = self._check_group("download", names, owned)
        after = dict(names)
        for node, view in download.items():
            after[node] = names.get(node, frozenset()) | find_left_names(view)
        self._check_group("exit", after, owned)

    def assemble_group(self, name: GroupName) -> TaskGroup:
        """Assemble a group after its analysis: build the ``TaskGroup`` of the compiled job."""
        return assemble_group(
            self._groups[name],
            self._views[name],
            self.outputs,
            self._callables,
            self._unshared_pairs,
        )

    def _unshared_pairs(self, node: str) -> UnsharedPairs:
        """Analyse all groups for pairs of blobs that callables must not make aliases."""
        if node not in self._apart:
            boundary_names = self._kept.get(node, frozenset())
            objects = self._callables.get(node, frozenset())
            self._apart[node] = find_unshareable_blobs(
                self._groups, self._views, node, boundary_names, objects
            )
        return self._apart[node]

    def exactness(self, stop: Iterable[StopCondition], *probes: Probe) -> Exactness:
        """Analyse groups and conditions for reasons why a resumed run may differ."""
        return add_probes(find_inexactness(self._groups, self._views), stop, *probes)

    def _check_group(
        self, name: GroupName, start: Names, owned: Mapping[str, ProtectedNames]
    ) -> dict[str, NodeView]:
        views = self._views[name] = build_node_views(self._groups[name], start)
        for node, view in views.items():
            VisibilityCheck(
                view, owned.get(node, ProtectedNames()), self._faults, self._missing
            ).check()
            check_races(view, self._missing.unordered, self._faults)
            check_tolerant_writes(view, self._faults)
        check_pulls(self._groups[name], views, start, self._faults)
        return views


def assemble_group(
    group: GroupDraft,
    views: Mapping[str, NodeView],
    outputs: OutputTable,
    callables: Mapping[str, frozenset[str]],
    apart: Callable[[str], UnsharedPairs],
) -> TaskGroup:
    """Assemble an analysed group as a ``TaskGroup``, its tasks in spec order, then node order.

    Args:
        group: The drafts.
        views: The group on its nodes.
        outputs: All outputs of the job.
        callables: Per node the constants that only callables make.
        apart: Returns, for a node, the blobs that its callables must not give the same memory.
    """
    tasks = tuple(
        _task(task, views[node], outputs, callables.get(node, frozenset()), apart(node))
        for task in group.tasks
        for node in task.nodes
    )
    setups = []
    reports = []
    for node, view in views.items():
        names = set(view.setup_uses.names())
        for nets in group.setups.get(node, ()):
            bound = outputs.bind_nodes(nets, node) if view.setup_uses.outputs else nets
            pairs = _select_pairs((nets.init, nets.exit), apart(node))
            setups.append(NodeSetup(node, bound, view.outer_scopes(names), pairs))
        for report in group.reports.get(node, ()):
            uses = view.report_uses(report)
            lowered = outputs.bind_nodes(report, node) if uses.outputs else report
            scopes = view.report_scopes(set(uses.names()))
            pairs = _select_pairs((report.steps,), apart(node))
            reports.append(NodeReport(node, lowered, scopes, pairs))
    return TaskGroup(
        group.name, tasks, tuple(setups), tuple(reports), group.workspace, group.remote
    )


def _task(
    draft: TaskDraft,
    view: NodeView,
    outputs: OutputTable,
    callables: frozenset[str],
    apart: UnsharedPairs,
) -> Task:
    objects = draft.flow.lent() & callables if callables and not draft.rebuild else ()
    task = Task(
        draft.name,
        view.node,
        draft.steps,
        draft.needs,
        draft.instances,
        draft.setup,
        draft.instance_setup,
        draft.reports,
        draft.outputs,
        view.scopes(draft),
        draft.hogwild,
        draft.rebuild,
        draft.path,
        draft.spec_position.origin,
        draft.timeout_s,
        draft.retry,
        draft.on_error,
        _share_read(draft, view.node),
        draft.records.write,
        tuple(sorted(objects)),
        _select_pairs(_blocks(draft), apart) if apart else (),
    )
    return outputs.bind_nodes(task, view.node) if outputs.reads_outputs(draft) else task


def _share_read(draft: TaskDraft, node: str) -> ReadRecords | ReadQueue | None:
    """Assemble a task's ``read`` on one node, with the share of the reader's rows it gets."""
    read = draft.records.read
    if not isinstance(read, ReadRecords) or read.reader.shard == "none":
        return read
    return replace(read, part=draft.nodes.index(node), parts=len(draft.nodes))


def _blocks(draft: TaskDraft) -> tuple[tuple[Step, ...], ...]:
    setups = (*draft.setup, *draft.instance_setup)
    return (
        draft.steps,
        *(steps for setup in setups for steps in (setup.init, setup.exit)),
        *(report.steps for report in draft.reports),
    )


def _select_pairs(blocks: Iterable[tuple[Step, ...]], apart: UnsharedPairs) -> Apart:
    calls = (step.path for steps in blocks if apart for step in walk(steps) if step.path in apart)
    return tuple((path, *pair) for path in dict.fromkeys(calls) for pair in apart[path])
