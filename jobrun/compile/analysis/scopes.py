"""Find the workspace (scope) that holds each name that a group uses on one node."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from jobrun.compile.job_draft.definite_assignment import (
    FAILED,
    FlowAnalysis,
    NameUses,
    Status,
    Summary,
)
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, TaskDraft
from jobrun.graph.types import Report, Scope, Scopes


class NodeView(Struct):
    """A group as seen on one node: its tasks, and the workspace of each name.

    Attributes:
        start: Names of the node's global workspace when the group starts.
        tasks: The group's tasks on the node, by their position in the group.
        global_names: Names of the node's global workspace that tasks of the group make.
        group_names: Names that set-up around the group run makes.
        shared: All those names, which tasks on the node share.
        init: What set-up before the tasks does with names; ``exit``: what that after them does.
        setup_uses: The names that this set-up touches.
    """

    group: GroupDraft
    node: str
    start: frozenset[str]
    tasks: Mapping[int, TaskDraft]
    global_names: set[str] = field(default_factory=set)
    group_names: set[str] = field(default_factory=set)
    shared: frozenset[str] = frozenset()
    init: Summary = field(default_factory=Summary)
    exit: Summary = field(default_factory=Summary)
    setup_uses: NameUses = field(default_factory=NameUses)
    finder: FlowAnalysis = field(default_factory=FlowAnalysis)

    def scope(self, task: TaskDraft, name: str) -> Scope:
        """Return the scope in which a task's name is on this node, such as its group's."""
        if name in self.start or name in self.global_names:
            return Scope.NODE
        if name in self.group_names:
            return Scope.GROUP
        flow = task.flow
        if name == FAILED and FAILED not in flow.inner.writes:
            alone = FAILED not in flow.once.reads
            return Scope.INSTANCE if task.instances > 1 and alone else Scope.TASK
        if name in flow.once.writes or task.instances == 1:
            return Scope.TASK
        return Scope.INSTANCE

    def shared_scope(self, name: str) -> Scope | None:
        """Return the scope in which tasks on this node share a name: node, group, or None."""
        if name in self.start or name in self.global_names:
            return Scope.NODE
        return Scope.GROUP if name in self.group_names else None

    def report_uses(self, report: Report) -> NameUses:
        """Collect the names that a periodic report uses, to look up the scope of each."""
        finder = FlowAnalysis()
        finder.block(report.steps, report.path)
        return finder.uses

    def scopes(self, task: TaskDraft) -> Scopes:
        """Find the scope (instance, task, group or node) of each name in a task."""
        names = sorted(task.flow.names())
        if task.instances > 1:
            return tuple([(name, self.scope(task, name)) for name in names])
        # As ``scope`` does, for most tasks of a large spec.
        shared, group = self.shared, self.group_names
        return tuple(
            [
                (name, Scope.TASK)
                if name not in shared
                else (name, self.scope(task, name) if name in group else Scope.NODE)
                for name in names
            ]
        )

    def outer_scopes(self, names: set[str]) -> Scopes:
        """Return the scope of each name that the set-up of the group uses on this node."""
        return tuple((name, self.shared_scope(name) or Scope.GROUP) for name in sorted(names))

    def report_scopes(self, names: set[str]) -> Scopes:
        """Find the scope of each name that a report on this node uses: node, group or task."""
        return tuple((name, self.shared_scope(name) or Scope.TASK) for name in sorted(names))


def build_node_views(group: GroupDraft, start: Mapping[str, frozenset[str]]) -> dict[str, NodeView]:
    """Build for each node what finds the scope of a name: the task, the group or the whole node.

    Args:
        group: The tasks, lowered.
        start: Per node, the names of its global workspace when the group starts.
    """
    on_node: dict[str, dict[int, TaskDraft]] = {}
    for position, task in enumerate(group.tasks):
        for node in task.nodes:
            on_node.setdefault(node, {})[position] = task
    views = {}
    for node, tasks in on_node.items():
        view = NodeView(group, node, start.get(node, frozenset()), tasks)
        _analyse_setup(view)
        for task in tasks.values():
            if task.is_global:
                view.global_names |= _global_names(task) - view.group_names
        view.shared = view.start.union(view.global_names, view.group_names)
        views[node] = view
    return views


def _analyse_setup(view: NodeView) -> None:
    setups = view.group.setups.get(view.node, ())
    finder = view.finder
    view.init = finder.setups(setups, "init")
    view.exit = finder.setups(setups, "exit")
    view.setup_uses = finder.uses
    written = set(finder.uses.writes) - view.start
    if view.group.workspace == "global":
        # Names of a net's own set-up are never state: no other step can use them.
        view.group_names = {name for name in written if ":" in name}
        view.global_names = written - view.group_names
    else:
        view.group_names = written


def _global_names(task: TaskDraft) -> set[str]:
    flow = task.flow
    written = set(flow.once.writes)
    if task.instances == 1:
        written |= flow.inner.writes.keys()
    if task.records.is_loop:
        # Names bound by records, or from them, may not exist: there may be no record.
        written &= {*flow.total.end, *flow.total.needs}
        written.difference_update(task.records.fields)
    return {name for name in written if ":" not in name and not _is_temporary(task, name)}


def _is_temporary(task: TaskDraft, name: str) -> bool:
    """Return whether a name exists only within its task, because the task always deletes it."""
    total = task.flow.total
    return total.end.get(name) is Status.GONE and name not in total.needs
