"""Lower the groups of a spec and their tasks: order, set-up and reports around them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.task_order import PositionOfNeed, TaskOrder, resolve_needs
from jobrun.compile.job_draft.tasks_and_groups import (
    NO_RECORDS,
    GroupDraft,
    Records,
    TaskDraft,
    Workspace,
)
from jobrun.compile.lowering.context import Context, Env
from jobrun.compile.lowering.readers import ReaderTable
from jobrun.compile.lowering.steps import StepLowering
from jobrun.graph.expressions import ATTRIBUTES, Expr, Name
from jobrun.graph.readers import record_path
from jobrun.graph.types import GROUPS, GroupName, Output, Report, Retry, SetupNets
from jobrun.spec.models.job import JobSpec
from jobrun.spec.models.tasks import TaskSpec
from jobrun.spec.yaml.nodes import Path, SourceMap

if TYPE_CHECKING:
    from jobrun.spec.models.optional_parts import GroupSpec
    from jobrun.spec.models.steps import ReportSpec

_Part = TypeVar("_Part")
_Setups = dict[str, list[SetupNets]]
_Reports = dict[str, list[Report]]
_DEFAULT: dict[str, Workspace] = {
    "init": "global", "epoch": "private", "download": "global", "exit": "private",
}  # fmt: skip


class GroupLowering:
    """Lowers the groups of a spec."""

    def __init__(self, context: Context, readers: ReaderTable) -> None:
        self._context = context
        self._nodes = context.nodes
        self._steps = StepLowering(context)
        self._tasks = TaskLowering(context, self._steps, readers)
        # The path of each task in the spec.
        self._paths: dict[TaskDraft, Path] = {}

    @property
    def steps(self) -> StepLowering:
        """Return the ``StepLowering`` that this lowering of groups uses."""
        return self._steps

    def drafts(self, spec: JobSpec) -> dict[GroupName, GroupDraft]:
        """Lower all groups of a spec to drafts, and check the needs of their tasks."""
        drafts: dict[GroupName, GroupDraft] = {}
        for name in GROUPS:
            written = getattr(spec, name)
            drafts[name] = self._group(name, written)
        self._check_names(drafts)
        owners = {task.name: name for name, group in drafts.items() for task in group.tasks}
        for name, group in drafts.items():
            drafts[name] = replace(group, order=self._resolve_needs(name, group.tasks, owners))
        self._check_rebuilt(drafts["init"])
        if self._context.nets:
            self._steps.nets.check_all()
        return drafts

    def _check_rebuilt(self, init: GroupDraft) -> None:
        rebuilt = {task.name: task.rebuild for task in init.tasks}
        for task in init.tasks:
            for index, need in enumerate(task.needs if task.rebuild else ()):
                if rebuilt.get(need) is False:
                    at = (*self._paths[task], "needs", index)
                    spec_position = self._context.spec_position(task.path, *at)
                    message = f"'{task.name}' runs again on resume, but '{need}' does not"
                    mend = f"give '{need}' 'rebuild: true' too, or remove the need"
                    self._context.faults.error("E140", message, mend, spec_position)

    def _group(self, name: GroupName, written: tuple[TaskSpec, ...] | GroupSpec) -> GroupDraft:
        spec = None if isinstance(written, tuple) else written
        specs = written if isinstance(written, tuple) else written.tasks
        workspace = (spec and spec.workspace) or _DEFAULT[name]
        self._steps.expect(len(specs))
        tasks: list[TaskDraft] = []
        for index, task in enumerate(specs):
            at: Path = (name, "tasks", index) if spec else (name, index)
            self._check_workspace(spec, f"{name}/{task.task}", task.workspace, at)
            is_global = (task.workspace or workspace) == "global"
            draft = self._tasks.draft(task, at, name, index, is_global=is_global)
            self._paths[draft] = at
            tasks.append(draft)
        group = GroupDraft(
            name,
            workspace,
            tuple(tasks),
            remote=self._steps.nets.remote(spec.remote, name) if spec and spec.remote else (),
            origin=self._context.source.key((name,)),
        )
        setups, reports = self._around(spec, group)
        return replace(group, setups=_frozen(setups), reports=_frozen(reports))

    def _check_workspace(
        self, spec: GroupSpec | None, path: str, workspace: Workspace | None, at: Path
    ) -> None:
        if spec is None or None in (workspace, spec.workspace) or workspace == spec.workspace:
            return
        other = self._context.source.at((at[0], "workspace"))
        spec_position = self._context.spec_position(path, *at, "workspace")
        message = f"workspace '{workspace}' here, but '{spec.workspace}' on the group at {other}"
        self._context.faults.error("E167", message, "remove one of the two", spec_position)

    def _around(self, spec: GroupSpec | None, group: GroupDraft) -> tuple[_Setups, _Reports]:
        """Lower a group's set-ups and periodic reports that belong to nodes, not to tasks."""
        setups: _Setups = {}
        reports: _Reports = {}
        declared = spec.setup if spec else ()
        written = declared if isinstance(declared, tuple) else (declared,)
        used: dict[str, None] = {}
        for index, setup in enumerate(written):
            single = not isinstance(declared, tuple)
            at: Path = (group.name, "setup") if single else (group.name, "setup", index)
            path = f"{group.name}/setup" if single else f"{group.name}/setup[{index}]"
            nets = self._steps.setup(setup, at, path, Env((), used=used))
            for node in self._nodes_of(setup.node, group, (*at, "node"), path):
                setups.setdefault(node, []).append(nets)
        for index, report in enumerate(spec.report if spec else ()):
            at = (group.name, "report", index)
            path = f"{group.name}/report[{index}]"
            lowered = self._tasks.report(report, at, path, used)
            for node in self._nodes_of(report.node, group, (*at, "node"), path):
                reports.setdefault(node, []).append(lowered)
        self._check_levels(used, group)
        self._add_node_setups(used, group, setups)
        return setups, reports

    def _add_node_setups(self, used: dict[str, None], group: GroupDraft, setups: _Setups) -> None:
        """Lower the set-up of a group, and once per node that of each net that it uses."""
        by_node: dict[str, dict[str, SetupNets]] = {}
        for nets in self._steps.nets.setups(used, "node") if used else ():
            for node in group.nodes():
                by_node.setdefault(node, {}).setdefault(nets.name, nets)
        for task in group.tasks:
            for nets in task.node_setup:
                for node in task.nodes:
                    by_node.setdefault(node, {}).setdefault(nets.name, nets)
        for node, by_name in by_node.items():
            setups.setdefault(node, []).extend(by_name.values())

    def _check_levels(self, used: dict[str, None], group: GroupDraft) -> None:
        for name in used:
            levels = [level for level in self._context.nets[name].setup if level != "node"]
            if levels:
                message = (
                    f"net '{name}' has set-up for each {levels[0]}, but is used outside a task"
                )
                self._context.faults.error(
                    "E168",
                    message,
                    "use the net in a task, or move its set-up to the node",
                    SpecPosition(group.name, group.origin),
                )

    def _nodes_of(
        self, node: str | None, group: GroupDraft, at: Path, path: str
    ) -> tuple[str, ...]:
        used = group.nodes()
        spec_position = SpecPosition(path, self._context.source.at(at))
        if node is None:
            if not used:
                message = f"this never runs: '{group.name}' has no task"
                self._context.faults.error("E169", message, "add a task", spec_position)
            return used
        nodes = self._nodes.resolve(node, spec_position, self._context.faults)
        idle = [name for name in nodes if name not in set(used)]
        if idle:
            message = f"this never runs: no task of '{group.name}' is on node '{idle[0]}'"
            mend = f"the nodes of '{group.name}' are: {', '.join(used[:8])}"
            self._context.faults.error("E169", message, mend, spec_position)
        # After an unknown node, assume all nodes: one fault, not many.
        return nodes or used

    def _check_names(self, groups: dict[GroupName, GroupDraft]) -> None:
        taken: dict[str, TaskDraft] = {}
        for group in groups.values():
            for task in group.tasks:
                # The log file has the task's name; a file system may not distinguish `A` from `a`.
                other = taken.setdefault(task.name.casefold(), task)
                if other is task:
                    continue
                same = (
                    "is already a task"
                    if other.name == task.name
                    else f"differs from '{other.name}' only in case"
                )
                spec_position = SpecPosition(
                    task.path, self._context.source.at((*self._paths[task], "task"))
                )
                message = f"'{task.name}' {same}, at {other.spec_position.origin}"
                mend = "give each task of the job a unique name"
                self._context.faults.error("E174", message, mend, spec_position)

    def _resolve_needs(
        self, name: GroupName, tasks: tuple[TaskDraft, ...], owners: dict[str, GroupName]
    ) -> TaskOrder:
        table: dict[str, tuple[tuple[str, ...], PositionOfNeed]] = {}
        for task in tasks:
            # The second task with a name has a fault already; it only needs another key here.
            key = task.name if task.name not in table else f"{task.name} at {self._paths[task]}"
            table[key] = (task.needs, partial(self._position_of_need, task))
        elsewhere = {task: group for task, group in owners.items() if group != name}
        return resolve_needs(table, elsewhere, self._context.faults)

    def _position_of_need(self, task: TaskDraft, index: int) -> SpecPosition:
        return self._context.spec_position(task.path, *self._paths[task], "needs", index)


def _frozen(lists: dict[str, list[_Part]]) -> dict[str, tuple[_Part, ...]]:
    return {node: tuple(parts) for node, parts in lists.items()}


class TaskLowering:
    """Lowers the tasks and reports of a spec."""

    def __init__(self, context: Context, steps: StepLowering, readers: ReaderTable) -> None:
        self._context = context
        self._steps = steps
        self._nodes = context.nodes
        self._readers = readers

    def draft(
        self, spec: TaskSpec, at: Path, group: GroupName, position: int, *, is_global: bool
    ) -> TaskDraft:
        """Lower one task of a group of the spec to a ``TaskDraft``."""
        path = f"{group}/{spec.task}"
        spec_position = self._context.spec_position(path, *at)
        self._check(spec, at, spec_position, group)
        nodes = self._nodes.find(spec.node)
        if not nodes:
            node_position = self._context.spec_position(path, *at, "node")
            self._nodes.note_unknown(spec.node, node_position, self._context.faults)
        used: dict[str, None] = {}
        records = self._records(spec, at, path, group)
        blocks: tuple[tuple[str, str], ...] = (("task", path),)
        if records.is_loop:
            blocks = (*blocks, ("", record_path(path)))
        body = Env(blocks, used=used)
        steps, repeated = self._steps.body(spec.steps, (*at, "steps"), f"{path}/steps", body)
        reports = tuple(
            [
                self.report(report, (*at, "report", i), f"{path}/report[{i}]", used)
                for i, report in enumerate(spec.report)
            ]
        )
        setups = self._setups(spec, at, path, used)
        return TaskDraft(
            name=spec.task,
            spec_position=spec_position,
            find_needs=lambda: SpecPosition(path, self._context.source.key((*at, "needs"))),
            group=group,
            position=position,
            nodes=nodes,
            is_global=is_global,
            steps=steps,
            needs=spec.needs,
            instances=spec.instances,
            hogwild=spec.hogwild,
            rebuild=spec.rebuild,
            on_error=spec.on_error,
            timeout_s=spec.timeout or 0.0,
            retry=lower_retry(spec),
            setup=setups["task"],
            instance_setup=setups["instance"],
            node_setup=setups["node"],
            reports=reports,
            outputs=self._outputs(spec, at, path),
            records=records,
            repeated=repeated,
        )

    def _records(self, spec: TaskSpec, at: Path, path: str, group: GroupName) -> Records:
        context, queues = self._context, self._context.queues
        if spec.read is None and not spec.write:
            return NO_RECORDS
        write, write_positions = queues.lower_writes(spec, at, path, context.source, context.faults)
        sent = queues.find_sent_positions(spec, at, path, context.source)
        if spec.read is None:
            return Records(write=write, write_at=write_positions, sent_at=sent)
        spec_position = context.spec_position(f"{path}/read", *at, "read")
        queues.check_read(spec.read, spec_position, context.faults)
        read = self._readers.read(spec.read) or queues.read(spec.read, group)
        return Records(read, spec_position, write, write_positions, sent, is_loop=True)

    def report(self, spec: ReportSpec, at: Path, path: str, used: dict[str, None]) -> Report:
        """Lower a ``report`` of a group, whose steps run at an interval."""
        if spec.every <= 0:
            spec_position = self._context.spec_position(path, *at, "every")
            message = "a report's interval must be longer than 0"
            self._context.faults.error("E163", message, "use a duration such as 1s", spec_position)
        env = Env((("", path),), used=used)
        steps = self._steps.steps(spec.steps, (*at, "steps"), f"{path}.steps", env)
        return Report(spec.every, steps, path)

    def _setups(
        self, spec: TaskSpec, at: Path, path: str, used: dict[str, None]
    ) -> dict[str, tuple[SetupNets, ...]]:
        """Lower the set-ups of a task and of its nets, by level: node, task and instance."""
        if not spec.setup and not used:
            return {"node": (), "task": (), "instance": ()}
        env = Env((), used=used)
        task_setups = {
            str(level): self._steps.setup(
                declared, (*at, "setup", level), f"{path}/setup.{level}", env
            )
            for level, declared in spec.setup.items()
        }
        # Only after the task's own set-up is lowered, which may use further nets.
        return {
            level: (
                *((task_setups[level],) if level in task_setups else ()),
                *self._steps.nets.setups(used, level),
            )
            for level in ("node", "task", "instance")
        }

    def _check(self, spec: TaskSpec, at: Path, spec_position: SpecPosition, group: str) -> None:
        check_task_settings(
            spec, at, spec_position.path, self._context.source, self._context.faults
        )
        if spec.rebuild and group != "init":
            where = SpecPosition(spec_position.path, self._context.source.key((*at, "rebuild")))
            message = f"'rebuild' is only for tasks of init, but this one is in '{group}'"
            mend = "remove it, or move the task to init"
            self._context.faults.error("E164", message, mend, where)
        for index, report in enumerate(spec.report):
            if report.node is not None:
                where = SpecPosition(
                    spec_position.path, self._context.source.key((*at, "report", index, "node"))
                )
                message = "the report of a task runs on its node, and takes no 'node'"
                mend = "remove it, or make it a report of the group"
                self._context.faults.error("E165", message, mend, where)

    def _outputs(self, spec: TaskSpec, at: Path, path: str) -> tuple[Output, ...]:
        if not spec.outputs:
            return ()
        outputs: dict[str, Output] = {}
        env = Env(())
        for index, written in enumerate(spec.outputs):
            pairs = {written: written} if isinstance(written, str) else written
            where = (*at, "outputs", index)
            for name, value in pairs.items():
                self._check_output(
                    name, spec.task, name in outputs, self._context.spec_position(path, *where)
                )
                expr: Expr = Name(name)
                if isinstance(written, dict):
                    expr = self._steps.read.expression(value, (*where, name), path, env)
                elif name in self._context.params:
                    expr = self._steps.read.expression(name, where, path, env)
                outputs[name] = Output(name, expr)
        return tuple(outputs.values())

    def _check_output(
        self, name: str, task: str, is_taken: bool, spec_position: SpecPosition
    ) -> None:
        if name in ATTRIBUTES:
            message = f"'{task}.{name}' would mean the {name} of a blob '{task}'"
            self._context.faults.error(
                "E191", message, f"write for example {{{name}_: …}}", spec_position
            )
        if is_taken:
            message = f"duplicate output '{name}'"
            self._context.faults.error("E166", message, "rename it", spec_position)


def check_task_settings(
    task: TaskSpec, at: Path, path: str, source: SourceMap, faults: Faults
) -> None:
    """Check the time limit and retry of a task, before its group is lowered."""
    if task.timeout is not None and task.timeout <= 0:
        message = "a time limit must be longer than 0"
        mend = "use a duration such as 30m, or remove it"
        faults.error("E123", message, mend, SpecPosition(path, source.at((*at, "timeout"))))
    if task.retry is not None and task.on_error == "warn":
        message = "'retry' has no effect with 'on_error: warn', which never fails the group"
        mend = "remove one of the two"
        faults.error("E124", message, mend, SpecPosition(path, source.key((*at, "retry"))))


def lower_retry(task: TaskSpec) -> Retry | None:
    """Lower the ``retry`` key of a task in a group; return None for zero retries."""
    if task.retry is None or task.retry.max == 0:
        return None
    return Retry(task.retry.max, task.retry.backoff)
