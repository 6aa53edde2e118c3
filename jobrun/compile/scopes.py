"""Which workspace holds each name of a group on one node. Answers; judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobrun.compile.faults import Place
from jobrun.compile.flow import FlowFinder, Ledger, Status, Summary
from jobrun.compile.groups import GroupDraft
from jobrun.compile.tasks import FAILED, Draft
from jobrun.graph.types import Report, Scope, Scopes, SetupNets


@dataclass(slots=True)
class NodeView:
    """A group on one node.

    Attributes:
        start: Names of the node's global workspace when the group starts.
        tasks: The group's tasks on the node, by their position in the group.
        global_names: Names of the node's global workspace that tasks of the group make.
        group_names: Names that set-up around the group run makes.
        init: What set-up before the tasks does with names, and ``exit`` that after them.
        around: Touches of that set-up.
    """

    group: GroupDraft
    node: str
    start: frozenset[str]
    tasks: Mapping[int, Draft]
    global_names: set[str] = field(default_factory=set)
    group_names: set[str] = field(default_factory=set)
    init: Summary = field(default_factory=Summary)
    exit: Summary = field(default_factory=Summary)
    around: Ledger = field(default_factory=Ledger)
    finder: FlowFinder = field(default_factory=FlowFinder)

    def scope(self, task: Draft, name: str) -> Scope:
        """The workspace that holds a name of a task."""
        if name in self.start or name in self.global_names:
            return Scope.NODE
        if name in self.group_names:
            return Scope.GROUP
        flow = task.flow
        if name == FAILED and FAILED not in flow.inner.writes:
            alone = FAILED not in flow.once.reads
            return Scope.INSTANCE if task.spec.instances > 1 and alone else Scope.TASK
        if name in flow.once.writes or task.spec.instances == 1:
            return Scope.TASK
        return Scope.INSTANCE

    def shared_scope(self, name: str) -> Scope | None:
        """The scope of a name that several tasks of the node share; None for their own names."""
        if name in self.start or name in self.global_names:
            return Scope.NODE
        return Scope.GROUP if name in self.group_names else None

    def report_ledger(self, report: Report) -> Ledger:
        """What a report of the group touches."""
        finder = FlowFinder()
        finder.block(report.steps, report.path)
        return finder.ledger

    def scopes(self, task: Draft) -> Scopes:
        """The workspaces of all names of a task, sorted by name."""
        return tuple((name, self.scope(task, name)) for name in sorted(task.flow.names()))

    def outer_scopes(self, names: set[str]) -> Scopes:
        """The workspaces of names of what runs around or beside the tasks."""
        return tuple((name, self.shared_scope(name) or Scope.GROUP) for name in sorted(names))

    def report_scopes(self, names: set[str]) -> Scopes:
        """As ``outer_scopes``; the own names of a report of the group end with each run of it."""
        return tuple((name, self.shared_scope(name) or Scope.TASK) for name in sorted(names))


def node_views(group: GroupDraft, start: Mapping[str, frozenset[str]]) -> dict[str, NodeView]:
    """The group on each of its nodes.

    Args:
        group: The tasks, lowered.
        start: Per node, the names of its global workspace when the group starts.
    """
    on_node: dict[str, dict[int, Draft]] = {}
    for position, task in enumerate(group.tasks):
        for node in task.nodes:
            on_node.setdefault(node, {})[position] = task
    views = {}
    for node, tasks in on_node.items():
        view = NodeView(group, node, start.get(node, frozenset()), tasks)
        _see_setup(view)
        for task in tasks.values():
            if task.is_global:
                view.global_names |= _global_names(task) - view.group_names
        views[node] = view
    return views


def own_global_names(task: Draft) -> frozenset[str]:
    """The names that a global task makes in its node's workspace, unless set-up has them."""
    return frozenset(_global_names(task)) if task.is_global else frozenset()


def _see_setup(view: NodeView) -> None:
    setups: list[SetupNets] = view.group.setups.get(view.node, [])
    finder = view.finder
    for setup in setups:
        view.init.then(finder.block(setup.init, f"{setup.name}.init"), finder.problems)
    for setup in reversed(setups):
        view.exit.end.setdefault(FAILED, Status.SET)
        view.exit.then(finder.block(setup.exit, f"{setup.name}.exit"), finder.problems)
    view.exit.end.pop(FAILED, None)
    view.around = finder.ledger
    made = set(finder.ledger.writes) - view.start
    if view.group.workspace == "global":
        # Names of a net's own set-up are never state: no other step can say them.
        view.group_names = {name for name in made if ":" in name}
        view.global_names = made - view.group_names
    else:
        view.group_names = made


def _global_names(task: Draft) -> set[str]:
    flow = task.flow
    made = set(flow.once.writes)
    if task.spec.instances == 1:
        made |= flow.inner.writes.keys()
    if task.records.is_loop:
        # What records bring, and what their steps make of it, is theirs: there may be none.
        made &= {*flow.total.end, *flow.total.needs}
        made.difference_update(task.records.fields)
    return {name for name in made if ":" not in name and not _is_temporary(task, name)}


def _is_temporary(task: Draft, name: str) -> bool:
    """Whether the task makes the name itself and certainly deletes it again."""
    total = task.flow.total
    return total.end.get(name) is Status.GONE and name not in total.needs


def place_of(task: Draft, name: str) -> Place:
    """Where the task first writes a name; the task's own place if it does not."""
    flow = task.flow
    for ledger in (flow.once, flow.inner, flow.reporting):
        place = ledger.writes.get(name) or ledger.atomic.get(name)
        if place is not None:
            return place
    return task.place
