"""Puts a group's drafts on their nodes: the last step, when nothing is wrong any more."""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.compile.groups import GroupDraft
from jobrun.compile.outputs import OutputTable
from jobrun.compile.positions import placed_read
from jobrun.compile.scopes import NodeView
from jobrun.compile.settings import retry_of
from jobrun.compile.tasks import Draft
from jobrun.graph.types import NodeReport, NodeSetup, Task, TaskGroup


def assembled(
    group: GroupDraft,
    views: Mapping[str, NodeView],
    outputs: OutputTable,
    callables: Mapping[str, frozenset[str]],
) -> TaskGroup:
    """The group as a graph: tasks in spec order, then node order.

    Args:
        group: The drafts.
        views: The group on its nodes.
        outputs: All outputs of the job.
        callables: Per node the constants that only callables make.
    """
    tasks = tuple(
        _task(task, views[node], outputs, callables.get(node, frozenset()))
        for task in group.tasks
        for node in task.nodes
    )
    setups = []
    reports = []
    for node, view in views.items():
        names = set(view.around.names())
        for nets in group.setups.get(node, []):
            bound = outputs.bind(nets, node) if view.around.outputs else nets
            setups.append(NodeSetup(node, bound, view.outer_scopes(names)))
        for report in group.reports.get(node, []):
            ledger = view.report_ledger(report)
            lowered = outputs.bind(report, node) if ledger.outputs else report
            reports.append(NodeReport(node, lowered, view.report_scopes(set(ledger.names()))))
    return TaskGroup(
        group.name, tasks, tuple(setups), tuple(reports), group.workspace, group.remote
    )  # fmt: skip


def _task(draft: Draft, view: NodeView, outputs: OutputTable, callables: frozenset[str]) -> Task:
    spec = draft.spec
    lent = draft.flow.lent() & callables if not spec.rebuild else ()
    task = Task(
        draft.name, view.node, draft.steps, spec.needs, spec.instances, draft.setup,
        draft.instance_setup, draft.reports, draft.outputs, view.scopes(draft), spec.hogwild,
        spec.rebuild, draft.path, draft.place.origin, spec.timeout or 0.0, retry_of(spec),
        spec.on_error, placed_read(draft, view.node), draft.records.write,
        tuple(sorted(lent)),
    )  # fmt: skip
    return outputs.bind(task, view.node) if outputs.reads_outputs(draft) else task
