"""From the groups of a spec to drafts: tasks, their order, and what runs around them on a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from jobrun.compile.context import Context, Env
from jobrun.compile.faults import Place
from jobrun.compile.nodes import NodeNames
from jobrun.compile.order import Order, check_needs
from jobrun.compile.readers import ReaderTable
from jobrun.compile.remote import RemoteLowering
from jobrun.compile.steps import StepLowering
from jobrun.compile.tasks import Draft, TaskLowering
from jobrun.graph.types import GROUPS, GroupName, RemoteNet, Report, SetupNets
from jobrun.spec.models import GroupSpec, JobSpec
from jobrun.spec.source import Path

Workspace = Literal["private", "global"]
_DEFAULT: dict[str, Workspace] = {
    "init": "global", "epoch": "private", "download": "global", "exit": "private",
}  # fmt: skip


@dataclass(slots=True)
class GroupDraft:
    """A group as declared, before it is put on nodes.

    Attributes:
        tasks: In spec order.
        order: What their needs say, by position.
        setups: For each node what runs around its tasks.
        reports: For each node what runs beside them.
        remote: Nets that are only kept.
    """

    name: GroupName
    workspace: Workspace
    tasks: tuple[Draft, ...] = ()
    order: Order = field(default_factory=lambda: Order(()))
    setups: dict[str, list[SetupNets]] = field(default_factory=dict)
    reports: dict[str, list[Report]] = field(default_factory=dict)
    remote: tuple[RemoteNet, ...] = ()

    def nodes(self) -> tuple[str, ...]:
        """The nodes of its tasks, in the order of first use."""
        return tuple(dict.fromkeys(node for task in self.tasks for node in task.nodes))


class GroupLowering:
    """Lowers groups."""

    def __init__(self, context: Context, nodes: NodeNames, readers: ReaderTable) -> None:
        self._context = context
        self._nodes = nodes
        self._steps = StepLowering(context)
        self._tasks = TaskLowering(context, self._steps, nodes, readers)
        self._remote = RemoteLowering(context, self._steps, nodes)

    @property
    def steps(self) -> StepLowering:
        """What lowers steps, with all it has seen."""
        return self._steps

    def drafts(self, spec: JobSpec) -> dict[GroupName, GroupDraft]:
        """All groups, their needs checked."""
        found: dict[GroupName, GroupDraft] = {}
        for name in GROUPS:
            written = getattr(spec, name)
            long_form = written if isinstance(written, GroupSpec) else None
            found[name] = self._group(name, long_form or GroupSpec(tasks=written),
                                      is_long=long_form is not None)  # fmt: skip
        self._check_names(found)
        owners = {task.name: name for name, group in found.items() for task in group.tasks}
        for name, group in found.items():
            group.order = self._order(name, group.tasks, owners)
        self._check_rebuilt(found["init"])
        self._check_nets()
        return found

    def _check_rebuilt(self, init: GroupDraft) -> None:
        rebuilt = {task.name: task.spec.rebuild for task in init.tasks}
        for task in init.tasks:
            for index, need in enumerate(task.spec.needs if task.spec.rebuild else ()):
                if rebuilt.get(need) is False:
                    at = (*task.at, "needs", index)
                    place = self._context.place(task.path, *at)
                    message = f"'{task.name}' runs again at a resume, and '{need}' does not"
                    mend = f"give '{need}' 'rebuild: true' too, or take the need out"
                    self._context.faults.error("E140", message, mend, place)

    def _check_nets(self) -> None:
        """Names of parameters; and a net that nothing uses is still read, for its faults."""
        inner = {name for net in self._context.nets.values() for name in net.uses}
        for name, net in self._context.nets.items():
            for key, declared in (("in", net.inputs), ("out", net.outputs)):
                for index, one in enumerate(declared):
                    place = self._context.place(f"nets.{name}", *net.path, key, index)
                    self._context.check_blob_name(one, place)
            if name not in self._steps.used and name not in inner and net.sound:
                place = Place(f"nets.{name}", self._context.source.key(net.path))
                mend = f"take it out, or use it: {{net: {name}}}"
                self._context.faults.warn("W134", f"net '{name}' is never used", mend, place)
                self._steps.read_net(net)

    def _group(self, name: GroupName, spec: GroupSpec, *, is_long: bool) -> GroupDraft:
        workspace = spec.workspace or _DEFAULT[name]
        tasks = []
        for index, task in enumerate(spec.tasks):
            at: Path = (name, "tasks", index) if is_long else (name, index)
            self._check_workspace(spec, f"{name}/{task.task}", task.workspace, at)
            is_global = (task.workspace or workspace) == "global"
            tasks.append(self._tasks.draft(task, at, name, index, is_global=is_global))
        remote = self._remote.nets(spec, name)
        group = GroupDraft(name, workspace, tuple(tasks), remote=remote)
        self._around(spec, group)
        return group

    def _check_workspace(
        self, spec: GroupSpec, path: str, workspace: Workspace | None, at: Path
    ) -> None:
        if workspace is None or spec.workspace is None or workspace == spec.workspace:
            return
        other = self._context.source.at((at[0], "workspace"))
        place = self._context.place(path, *at, "workspace")
        self._context.faults.error(
            "E167", f"workspace '{workspace}' here, and '{spec.workspace}' of the group at {other}",
            "leave out one of the two", place,
        )  # fmt: skip

    def _around(self, spec: GroupSpec, group: GroupDraft) -> None:
        """Set-up and reports of the group, then what tasks and their nets bring to their nodes."""
        written = spec.setup if isinstance(spec.setup, tuple) else (spec.setup,)
        used: dict[str, None] = {}
        for index, setup in enumerate(written):
            single = not isinstance(spec.setup, tuple)
            at: Path = (group.name, "setup") if single else (group.name, "setup", index)
            path = f"{group.name}/setup" if single else f"{group.name}/setup[{index}]"
            nets = self._steps.setup(setup, at, path, Env((), used=used))
            for node in self._nodes_of(setup.node, group, (*at, "node"), path):
                group.setups.setdefault(node, []).append(nets)
        for index, report in enumerate(spec.report):
            at = (group.name, "report", index)
            path = f"{group.name}/report[{index}]"
            lowered = self._tasks.report(report, at, path, used)
            for node in self._nodes_of(report.node, group, (*at, "node"), path):
                group.reports.setdefault(node, []).append(lowered)
        self._check_levels(used, group)
        self._add_node_setups(used, group)

    def _add_node_setups(self, used: dict[str, None], group: GroupDraft) -> None:
        """Each once per node, however many tasks of the node bring it."""
        found: dict[str, dict[str, SetupNets]] = {}
        for nets in self._steps.net_setups(used, "node"):
            for node in group.nodes():
                found.setdefault(node, {}).setdefault(nets.name, nets)
        for task in group.tasks:
            for nets in task.node_setup:
                for node in task.nodes:
                    found.setdefault(node, {}).setdefault(nets.name, nets)
        for node, by_name in found.items():
            group.setups.setdefault(node, []).extend(by_name.values())

    def _check_levels(self, used: dict[str, None], group: GroupDraft) -> None:
        for name in used:
            levels = [level for level in self._context.nets[name].setup if level != "node"]
            if levels:
                message = (
                    f"net '{name}' has set-up for each {levels[0]}, and no task is around here"
                )
                self._context.faults.error(
                    "E168", message, "use the net in a task, or make it set-up of the node",
                    Place(group.name, self._context.source.key((group.name,))),
                )  # fmt: skip

    def _nodes_of(
        self, node: str | None, group: GroupDraft, at: Path, path: str
    ) -> tuple[str, ...]:
        used = group.nodes()
        place = Place(path, self._context.source.at(at))
        if node is None:
            if not used:
                self._context.faults.error(
                    "E169", f"this never runs: '{group.name}' has no task", "add a task", place
                )
            return used
        found = self._nodes.resolve(node, place, self._context.faults)
        idle = [name for name in found if name not in set(used)]
        if idle:
            message = f"this never runs: no task of '{group.name}' is on node '{idle[0]}'"
            mend = f"the nodes of '{group.name}' are: {', '.join(used[:8])}"
            self._context.faults.error("E169", message, mend, place)
        # Without a node that is known, it is taken to be on all: one fault, not many.
        return found or used

    def _check_names(self, groups: dict[GroupName, GroupDraft]) -> None:
        taken: dict[str, Draft] = {}
        for group in groups.values():
            for task in group.tasks:
                # A task's name is that of its log, and a file system may not tell `A` from `a`.
                other = taken.setdefault(task.name.casefold(), task)
                if other is task:
                    continue
                same = "is a task already" if other.name == task.name else (
                    f"differs from '{other.name}' by case only"
                )  # fmt: skip
                place = Place(task.path, self._context.source.at((*task.at, "task")))
                self._context.faults.error(
                    "E174", f"'{task.name}' {same}, at {other.place.origin}",
                    "give each task of the job a name of its own", place,
                )  # fmt: skip

    def _order(
        self, name: GroupName, tasks: tuple[Draft, ...], owners: dict[str, GroupName]
    ) -> Order:
        table: dict[str, tuple[tuple[str, ...], Sequence[Place]]] = {}
        for task in tasks:
            needs = task.spec.needs
            places = [
                Place(task.path, self._context.source.at((*task.at, "needs", i)))
                for i in range(len(needs))
            ]
            # Of two tasks of one name the second has a fault already.
            key = task.name if task.name not in table else f"{task.name} at {task.at}"
            table[key] = (needs, places)
        elsewhere = {task: group for task, group in owners.items() if group != name}
        return check_needs(name, table, elsewhere, self._context.faults)
