"""Analyse the groups of a job, each with the names that earlier ones leave; assemble them.

It needs drafts of tasks only, whether they come from a spec or from Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from jobrun.compile.analysis.callable_aliasing import UnsharedPairs, find_unshareable_blobs
from jobrun.compile.analysis.missing_blobs import MissingBlobs
from jobrun.compile.analysis.outputs import OutputTable
from jobrun.compile.analysis.scopes import NodeView, build_node_views
from jobrun.compile.analysis.state import KeptNames, find_left_names, names_of
from jobrun.compile.checks.races import check_pulls, check_races
from jobrun.compile.checks.visibility import (
    VisibilityCheck,
    check_tolerant_tasks,
    check_tolerant_writes,
    note_problems,
)
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, Groups, TaskDraft
from jobrun.graph.query import walk
from jobrun.graph.readers import ReadQueue, ReadRecords
from jobrun.graph.steps import Step
from jobrun.graph.types import Apart, GroupName, NodeReport, NodeSetup, Task, TaskGroup

# Group → node → the group on that node.
Views = Mapping[GroupName, Mapping[str, NodeView]]


def check_tasks(groups: Groups, outputs: OutputTable, faults: Faults) -> None:
    """Check all groups' tasks for reads of deleted blobs or missing task outputs."""
    epoch = groups["epoch"]
    if not epoch.tasks:
        spec_position = SpecPosition("epoch", epoch.origin)
        faults.error("E139", "'epoch' has no task", "add the work of one epoch", spec_position)
    for group in groups.values():
        check_tolerant_tasks(group, faults)
        outputs.check_setup_and_reports(group)
        for task in group.tasks:
            note_problems(task.flow.problems, faults, hogwild=task.hogwild)
            outputs.check_reads(task, task.nodes)


def check_group(
    group: GroupDraft,
    start: Mapping[str, frozenset[str]],
    names_by_node: Mapping[str, KeptNames],
    missing: MissingBlobs,
    faults: Faults,
) -> dict[str, NodeView]:
    """Analyse a group on each of its nodes: add faults of missing blobs and data races.

    Args:
        group: The tasks, lowered.
        start: Per node, the names of its global workspace when the group starts.
        names_by_node: State and constants, by node; empty before they are known.
        missing: Reports blobs that may not exist.
        faults: Collects what is wrong.
    """
    views = build_node_views(group, start)
    reported: set[tuple[str, str]] = set()
    for node, view in views.items():
        names = names_by_node.get(node, KeptNames())
        reported |= VisibilityCheck(view, names, faults, missing).check()
        check_races(view, reported, faults)
        check_tolerant_writes(view, faults)
    check_pulls(group, views, start, faults)
    return views


def check_groups_after_init(
    groups: Groups, names_by_node: Mapping[str, KeptNames], missing: MissingBlobs, faults: Faults
) -> Views:
    """Analyse the groups that start with the state and constants which init leaves."""
    start = names_of(names_by_node)
    epoch = check_group(groups["epoch"], start, names_by_node, missing, faults)
    download = check_group(groups["download"], start, names_by_node, missing, faults)
    after = {
        node: start.get(node, frozenset()) | find_left_names(view)
        for node, view in download.items()
    }
    end = check_group(groups["exit"], {**start, **after}, names_by_node, missing, faults)
    return {"epoch": epoch, "download": download, "exit": end}


def assemble_groups(
    groups: Groups, views: Views, outputs: OutputTable, names_by_node: Mapping[str, KeptNames]
) -> dict[GroupName, TaskGroup]:
    """Assemble analysed groups: build each ``TaskGroup`` of the compiled job.

    Args:
        groups: The drafts.
        views: All groups on their nodes.
        outputs: All outputs of the job.
        names_by_node: State and constants, by node.
    """
    names = {
        node: names_by_node.get(node, KeptNames()) for group in views.values() for node in group
    }
    apart = {
        node: find_unshareable_blobs(
            groups, views, node, node_names.state | node_names.constants, node_names.callables
        )
        for node, node_names in names.items()
    }
    return {
        name: _assemble_group(group, views[name], outputs, names, apart)
        for name, group in groups.items()
    }


def _assemble_group(
    group: GroupDraft,
    views: Mapping[str, NodeView],
    outputs: OutputTable,
    names_by_node: Mapping[str, KeptNames],
    apart: Mapping[str, UnsharedPairs],
) -> TaskGroup:
    """Assemble an analysed group as a ``TaskGroup``, its tasks in spec order, then node order.

    Args:
        group: The drafts.
        views: The group on its nodes.
        outputs: All outputs of the job.
        names_by_node: State and constants, by node.
        apart: Per node, the blobs that its callables must not give the same memory.
    """
    tasks = tuple(
        _task(task, views[node], outputs, names_by_node[node].callables, apart[node])
        for task in group.tasks
        for node in task.nodes
    )
    setups = []
    reports = []
    for node, view in views.items():
        names = set(view.setup_uses.names())
        for nets in group.setups.get(node, ()):
            bound = outputs.bind_nodes(nets, node) if view.setup_uses.outputs else nets
            pairs = _select_pairs((nets.init, nets.exit), apart[node])
            setups.append(NodeSetup(node, bound, view.outer_scopes(names), pairs))
        for report in group.reports.get(node, ()):
            uses = view.report_uses(report)
            lowered = outputs.bind_nodes(report, node) if uses.outputs else report
            scopes = view.report_scopes(set(uses.names()))
            pairs = _select_pairs((report.steps,), apart[node])
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
        _select_pairs(draft.step_lists(), apart) if apart else (),
    )
    return outputs.bind_nodes(task, view.node) if outputs.reads_outputs(draft) else task


def _share_read(draft: TaskDraft, node: str) -> ReadRecords | ReadQueue | None:
    """Assemble a task's ``read`` on one node, with the share of the reader's rows it gets."""
    read = draft.records.read
    if not isinstance(read, ReadRecords) or read.reader.shard == "none":
        return read
    return replace(read, part=draft.nodes.index(node), parts=len(draft.nodes))


def _select_pairs(blocks: Iterable[tuple[Step, ...]], apart: UnsharedPairs) -> Apart:
    calls = (step.path for steps in blocks if apart for step in walk(steps) if step.path in apart)
    return tuple((path, *pair) for path in dict.fromkeys(calls) for pair in apart[path])
