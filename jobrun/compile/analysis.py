"""What a job's groups do with names, on every node, and what of it is wrong.

The part of a compilation that needs no spec: only drafts of tasks, wherever they come from.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.compile.assemble import assembled
from jobrun.compile.exactness import exactness
from jobrun.compile.faults import Faults
from jobrun.compile.groups import GroupDraft
from jobrun.compile.missing import Missing
from jobrun.compile.outputs import OutputTable
from jobrun.compile.pulls import check_pulls
from jobrun.compile.races import check_races
from jobrun.compile.scopes import NodeView, node_views
from jobrun.compile.state import Left, left_by, state_of
from jobrun.compile.tolerance import check_tolerance, check_tolerant_tasks
from jobrun.compile.visible import Owned, Visibility, report_problems
from jobrun.graph.conditions import CheckpointPolicy, Exactness
from jobrun.graph.types import Cluster, GroupName, TaskGroup

Names = Mapping[str, frozenset[str]]
NamesInOrder = tuple[tuple[str, tuple[str, ...]], ...]


class Analysis:
    """Goes through the groups of one job in the order in which they run.

    Attributes:
        outputs: All outputs of the job.
    """

    def __init__(
        self, groups: Mapping[GroupName, GroupDraft], params: Mapping[str, object], faults: Faults
    ) -> None:
        self._groups = groups
        self._faults = faults
        self._views: dict[GroupName, dict[str, NodeView]] = {}
        self.outputs = OutputTable(groups, faults)
        self._missing = Missing(groups, params, faults)
        self._callables: Names = {}

    def check_tasks(self) -> None:
        """Note what is wrong inside tasks, and with the outputs they read."""
        for group in self._groups.values():
            check_tolerant_tasks(group, self._faults)
            for task in group.tasks:
                report_problems(task.flow.problems, self._faults, hogwild=task.spec.hogwild)
                if self.outputs.reads_outputs(task):
                    self.outputs.check_reads(task, task.nodes)

    def left_by_init(self, there: Names) -> dict[str, Left]:
        """Check init; what it leaves on each node.

        Args:
            there: Per node, what is there before.
        """
        left = state_of(self._checked("init", there, {}), self._faults)
        self._callables = {node: frozenset(one.callables) for node, one in left.items()}
        return left

    def kept(self, left: Mapping[str, Left], policy: CheckpointPolicy) -> dict[str, Left]:
        """What is there at each epoch boundary: state only where it is checkpointed."""
        kept = {}
        saved = set(policy.nodes)
        for node, one in left.items():
            if node in saved:
                kept[node] = one
            else:
                kept[node] = Left((), one.constants, one.callables)
                self._missing.dropped[node] = frozenset(one.state)
        return kept

    def check_later(self, kept: Mapping[str, Left]) -> None:
        """Check the groups after init, which start with what is kept."""
        names = names_of(kept)
        owned = {
            node: Owned(frozenset(one.state), frozenset(one.constants), frozenset(one.callables))
            for node, one in kept.items()
        }
        self._checked("epoch", names, owned)
        download = self._checked("download", names, owned)
        after = dict(names)
        for node, view in download.items():
            after[node] = names.get(node, frozenset()) | left_by(view)
        self._checked("exit", after, owned)

    def assembled(self, name: GroupName) -> TaskGroup:
        """A checked group as a graph."""
        return assembled(self._groups[name], self._views[name], self.outputs, self._callables)

    def exactness(self) -> Exactness:
        """Whether the checked job is exact."""
        return exactness(self._groups, self._views)

    def _checked(
        self, name: GroupName, start: Names, owned: Mapping[str, Owned]
    ) -> dict[str, NodeView]:
        views = self._views[name] = node_views(self._groups[name], start)
        for node, view in views.items():
            Visibility(view, owned.get(node, Owned()), self._faults, self._missing).check()
            check_races(view, self._missing.unordered, self._faults)
            check_tolerance(view, self._faults)
        check_pulls(self._groups[name], views, start, self._faults)
        return views


def names_of(kept: Mapping[str, Left]) -> dict[str, frozenset[str]]:
    """Per node, the names of its global workspace when an epoch starts."""
    return {node: frozenset((*one.state, *one.constants)) for node, one in kept.items()}


def in_order(nodes: Cluster, names: Mapping[str, tuple[str, ...]]) -> NamesInOrder:
    """Names per node in the order of the nodes; those without any are left out."""
    return tuple((node.name, names[node.name]) for node in nodes if names.get(node.name))
