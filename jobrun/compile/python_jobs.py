"""Lower a job built in Python to a draft, as a spec is lowered, and check what a parser refuses.

The job is made of plain values; there is no registry. What a parser refuses in a spec are unknown
words and bad numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from jobrun.compile.analysis.reader_positions import POSITION_SETUP
from jobrun.compile.analysis.state import STATE_DIR_SETUP, remove_setups
from jobrun.compile.expressions.calls import check_call, check_draw
from jobrun.compile.expressions.refusals import find_name_refusal
from jobrun.compile.faults import Faults, Located, SpecPosition
from jobrun.compile.job_draft.node_names import NodeNames
from jobrun.compile.job_draft.task_order import PositionOfNeed, resolve_needs
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, JobDraft, Records, TaskDraft
from jobrun.compile.lowering.checkpoint import (
    add_manifest_upload,
    check_collection,
    check_metric,
    resolve_upload,
)
from jobrun.compile.lowering.nets import check_remote_reads
from jobrun.compile.lowering.queues import collect_queues
from jobrun.compile.step_paths import PathAssignment
from jobrun.core.text.names import BLOB_NAME, FILE_NAME, did_you_mean
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import (
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWithoutImprovement,
)
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import BUILTINS, DTYPES, Builtin, Call, Draw, Dtype, Expr, OutputRead
from jobrun.graph.query import expressions, walk
from jobrun.graph.steps import RunProgram, Step
from jobrun.graph.traversal import rewrite_parts, walk_expr
from jobrun.graph.types import (
    GROUPS,
    Cluster,
    GroupName,
    Job,
    NodeReport,
    NodeSetup,
    Report,
    SetupNets,
    Task,
    TaskGroup,
)
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.ops.operator_table import DRAWS, OPERATORS, find_operator


def lower_job(job: Job, faults: Faults) -> JobDraft:
    """Lower a job that was built in Python to a draft, as a spec is lowered.

    Raises:
        SpecError: Names, needs or numbers are not valid; with all faults.
    """
    return _Lowering(job, faults).draft()


def restore_task_order(completed: Job, original: Job) -> Job:
    """Restore the order of tasks of a Python job after it was lowered and completed."""
    return replace(
        completed,
        init=_restore_task_order(completed.init, original.init),
        epoch=_restore_task_order(completed.epoch, original.epoch),
        download=_restore_task_order(completed.download, original.download),
        exit=_restore_task_order(completed.exit, original.exit),
    )


class _Lowering:
    """Lowers one job that was built in Python."""

    def __init__(self, job: Job, faults: Faults) -> None:
        self._faults = faults
        job = self._job = replace(
            job,
            cluster=_add_families(job.cluster),
            init=remove_setups(job.init, POSITION_SETUP, STATE_DIR_SETUP),
        )
        self._params = dict(job.params)
        self._nodes = NodeNames(job.cluster)
        paths = PathAssignment(self._faults)
        groups = dict(zip(GROUPS, job.groups, strict=True))
        self._groups = {
            name: _assign_paths(group, name, job.cluster, paths) for name, group in groups.items()
        }

    def draft(self) -> JobDraft:
        """Lower a whole job built in Python to its draft; check what a parser would refuse."""
        self._check_parts()
        drafts = {name: self._draft(group, name) for name, group in self._groups.items()}
        ordered = self._resolve_needs(drafts)
        self._check_rebuilt()
        job = replace(
            self._job,
            checkpoint=self._policy(),
            stop=self._stop(),
            queues=collect_queues(self._groups.values(), self._faults),
        )
        # Faults of names and needs would cause others.
        self._faults.raise_if_any()
        return JobDraft(job, ordered, self._params, job.checkpoint.nodes or None)

    def _check_parts(self) -> None:
        faults = self._faults
        check_file_name(self._job.name, "job", SpecPosition("name", NOWHERE), faults)
        seen: set[str] = set()
        for node in self._job.cluster:
            spec_position = SpecPosition(f"nodes.{node.name}", node.origin)
            check_file_name(node.name, "node", spec_position, faults)
            if node.name in seen:
                message = f"there are two nodes '{node.name}'"
                faults.error("E197", message, "give each node a unique name", spec_position)
            seen.add(node.name)
        for group in self._groups.values():
            for task in group.tasks:
                check_file_name(task.name, "task", task, faults)
                check_task(task, self._params, faults)
                check_settings(task, faults)
                if task.node not in self._nodes:
                    self._nodes.note_unknown(task.node, task, faults)
            self._check_setup_and_reports(group)
        self._check_task_names()

    def _check_setup_and_reports(self, group: TaskGroup) -> None:
        nodes = {task.node for task in group.tasks}
        parts: tuple[NodeSetup | NodeReport, ...] = (*group.setup, *group.reports)
        for net in group.remote:
            if net.node not in self._nodes:
                self._nodes.note_unknown(net.node, net, self._faults)
            check_remote_reads(net, self._faults)
            check_steps(net.steps, self._params, self._faults)
        for part in parts:
            if isinstance(part, NodeReport):
                check_report(
                    part.report, SpecPosition(part.report.path, NOWHERE), self._params, self._faults
                )
            else:
                check_steps((*part.nets.init, *part.nets.exit), self._params, self._faults)
            if part.node not in nodes:
                path = part.report.path if isinstance(part, NodeReport) else part.nets.name
                message = f"this never runs: no task of '{group.name}' is on node '{part.node}'"
                self._faults.error(
                    "E169", message, "name a node of the group's tasks", SpecPosition(path, NOWHERE)
                )

    def _check_task_names(self) -> None:
        taken: dict[str, tuple[str, Task]] = {}
        for name, group in self._groups.items():
            nodes: set[str] = set()
            for task in group.tasks:
                other_group, other = taken.setdefault(task.name.casefold(), (name, task))
                if other_group != name or other.name != task.name or task.full_name in nodes:
                    where = f"in '{other_group}'" if other_group != name else "on this node"
                    message = f"'{task.name}' is already a task, {where} as '{other.name}'"
                    mend = "give each task of the job a unique name"
                    self._faults.error("E174", message, mend, task)
                elif _common_part(task, other.node) != _common_part(other, other.node):
                    message = (
                        f"task '{task.name}' on '{task.node}' differs from the one on "
                        f"'{other.node}'"
                    )
                    mend = "give different tasks different names"
                    self._faults.error("E197", message, mend, task)
                nodes.add(task.full_name)

    def _draft(self, group: TaskGroup, name: GroupName) -> GroupDraft:
        by_name: dict[str, list[Task]] = {}
        for task in group.tasks:
            by_name.setdefault(task.name, []).append(task)
        is_global = group.workspace == "global"
        drafts = tuple(
            _build_draft(tasks, name, position, is_global=is_global)
            for position, tasks in enumerate(by_name.values())
        )
        setups: dict[str, tuple[SetupNets, ...]] = {}
        for setup in group.setup:
            setups[setup.node] = (*setups.get(setup.node, ()), setup.nets)
        reports: dict[str, tuple[Report, ...]] = {}
        for report in group.reports:
            reports[report.node] = (*reports.get(report.node, ()), report.report)
        return GroupDraft(
            name, group.workspace, drafts, setups=setups, reports=reports, remote=group.remote
        )

    def _resolve_needs(self, drafts: dict[GroupName, GroupDraft]) -> dict[GroupName, GroupDraft]:
        owners = {task.name: name for name, draft in drafts.items() for task in draft.tasks}
        resolved = {}
        for name, group in drafts.items():
            table = {task.name: (task.needs, _position_of(task)) for task in group.tasks}
            elsewhere = {task: owner for task, owner in owners.items() if owner != name}
            order = resolve_needs(table, elsewhere, self._faults)
            resolved[name] = replace(group, order=order)
        return resolved

    def _check_rebuilt(self) -> None:
        rebuilt = {task.name: task.rebuild for task in self._groups["init"].tasks}
        for group in self._groups.values():
            for task in group.tasks if group.name != "init" else ():
                if task.rebuild:
                    message = (
                        f"'rebuild' is only for tasks of init, but this one is in '{group.name}'"
                    )
                    self._faults.error("E164", message, "remove it, or move the task to init", task)
        for task in self._groups["init"].tasks:
            for need in task.needs if task.rebuild else ():
                if rebuilt.get(need) is False:
                    message = f"'{task.name}' runs again on resume, but '{need}' does not"
                    mend = f"give '{need}' rebuild=True too, or remove the need"
                    self._faults.error("E140", message, mend, task)

    def _policy(self) -> CheckpointPolicy:
        policy = self._job.checkpoint
        for index, node in enumerate(policy.nodes):
            if node not in self._nodes:
                spec_position = SpecPosition(f"checkpoint.nodes[{index}]", NOWHERE)
                self._nodes.note_unknown(node, spec_position, self._faults)
        metric = policy.keep_best[0]
        if metric:
            spec_position = SpecPosition("checkpoint.keep_best", NOWHERE)
            check_metric(metric, dict(self._job.metrics), spec_position, self._faults)
        if policy.upload is not None:
            spec_position = SpecPosition("checkpoint.upload.to", NOWHERE)
            policy = replace(
                policy, upload=resolve_upload(policy.upload, spec_position, self._faults)
            )
        spec_position, at = (
            SpecPosition(f"checkpoint.{key}", NOWHERE) for key in ("node_dir", "collect_to")
        )
        check_collection(policy, spec_position, at, self._faults)
        if policy.collect_to:
            policy = add_manifest_upload(policy, NOWHERE)
        return policy

    def _stop(self) -> tuple[StopCondition, ...]:
        if not self._job.stop:
            message = "the job has no 'stop', so it would never end"
            mend = "use for example stop=(StopAfterEpochs(10),), or (Endless(),)"
            self._faults.error("E137", message, mend, SpecPosition("stop", NOWHERE))
        conditions = []
        for index, condition in enumerate(self._job.stop):
            path = condition.path or f"stop[{index}]"
            check_stop(condition, path, self._faults)
            if isinstance(condition, StopWithoutImprovement):
                spec_position = SpecPosition(path, NOWHERE)
                check_metric(condition.metric, dict(self._job.metrics), spec_position, self._faults)
            conditions.append(replace(condition, path=path))
        return tuple(conditions)


def _restore_task_order(group: TaskGroup, original: TaskGroup) -> TaskGroup:
    by_name = {task.full_name: task for task in group.tasks}
    return replace(group, tasks=tuple(by_name[task.full_name] for task in original.tasks))


def _add_families(nodes: Cluster) -> Cluster:
    """Put each node of a Python job that is in no family of nodes into one of its own."""
    return Cluster(tuple(replace(node, family=node.family or node.name) for node in nodes))


def _assign_paths(
    group: TaskGroup, name: GroupName, nodes: Cluster, paths: PathAssignment
) -> TaskGroup:
    # The node of each output read is found again: tasks may have moved since.
    group = rewrite_parts(group, OutputRead, lambda read: replace(read, node=""))
    props = {node.name: node.props for node in nodes}
    return replace(
        group,
        name=name,
        tasks=tuple(paths.task(task, name) for task in group.tasks),
        setup=paths.node_setups(group.setup, name),
        reports=paths.node_reports(group.reports, name),
        workspace="global" if name in ("init", "download") else group.workspace,
        remote=tuple(
            replace(net, props=props.get(net.node, net.props))
            for net in paths.remote_nets(group.remote, name)
        ),
    )


def _common_part(task: Task, node: str) -> Task:
    """Return a Python job's task without node and scopes, to find its equals on other nodes."""
    return replace(task, node=node, scopes=(), objects=(), apart=())


def _build_draft(
    tasks: list[Task], group: GroupName, position: int, *, is_global: bool
) -> TaskDraft:
    """Lower a task of a Python job, given once for each of its nodes, to a ``TaskDraft``."""
    task = tasks[0]
    spec_position = SpecPosition(task.path, task.origin)
    return TaskDraft(
        name=task.name,
        spec_position=spec_position,
        find_needs=lambda: spec_position,
        group=group,
        position=position,
        nodes=tuple(node_task.node for node_task in tasks),
        is_global=is_global,
        steps=task.steps,
        needs=task.needs,
        instances=task.instances,
        hogwild=task.hogwild,
        rebuild=task.rebuild,
        on_error=task.on_error,
        timeout_s=task.timeout_s,
        retry=task.retry,
        setup=task.setup,
        instance_setup=task.instance_setup,
        reports=task.reports,
        outputs=task.outputs,
        records=build_records(task),
    )


def build_records(task: Task) -> Records:
    """Build, for a task of a Python job, the ``Records`` of what it reads and writes."""
    return Records(
        task.read,
        SpecPosition(f"{task.path}/read", task.origin),
        task.write,
        tuple(
            SpecPosition(f"{task.path}/write.{write.queue.name}", task.origin)
            for write in task.write
        ),
        is_loop=task.read is not None,
    )


def _position_of(task: TaskDraft) -> PositionOfNeed:
    return lambda _index: task.spec_position


def check_file_name(name: str, noun: str, where: Located, faults: Faults) -> None:
    """Validate the name of a job, a node or a task that was built in Python."""
    if not FILE_NAME.fullmatch(name):
        message = f"'{name}' is not a valid name of a {noun}: it becomes part of file names"
        mend = "use letters, digits, '_', '.' and '-', at most 64, not starting with '.' or '-'"
        faults.error("E196", message, mend, where)


def check_task(task: Task, params: Mapping[str, object], faults: Faults) -> None:
    """Validate a task built in Python: its instances, reports, set-up, steps and outputs."""
    if task.instances < 1:
        message = f"invalid number of instances: {task.instances}"
        faults.error("E198", message, "use 1 or more", task)
    for report in task.reports:
        check_report(report, SpecPosition(report.path, task.origin), params, faults)
    for nets in (*task.setup, *task.instance_setup):
        check_steps((*nets.init, *nets.exit), params, faults)
    check_steps(task.steps, params, faults)
    for output in task.outputs:
        _check_words(
            (output.value,), SpecPosition(f"{task.path}.{output.name}", task.origin), faults
        )


def check_report(
    report: Report, spec_position: SpecPosition, params: Mapping[str, object], faults: Faults
) -> None:
    """Validate the interval and the steps of a periodic ``Report`` in a job built in Python."""
    if not 0 < report.interval_s < math.inf:
        message = f"a report's interval must be longer than 0, and is {report.interval_s:g} s"
        faults.error("E163", message, "use for example 1.0 (seconds)", spec_position)
    check_steps(report.steps, params, faults)


def check_stop(condition: StopCondition, path: str, faults: Faults) -> None:
    """Validate the numbers in a stop condition that was built in Python."""
    spec_position = SpecPosition(path, NOWHERE)
    if isinstance(condition, StopAfterEpochs | StopWithoutImprovement):
        epochs: object = condition.epochs
        if not isinstance(epochs, int) or epochs < 1:
            message = f"invalid number of epochs: {epochs!r}"
            faults.error("E198", message, "use an integer of 1 or more", spec_position)
    if isinstance(condition, StopAfterTime) and not 0 < condition.seconds < math.inf:
        message = f"invalid time limit of {condition.seconds:g} s"
        faults.error("E198", message, "use a number of seconds greater than 0", spec_position)


def check_steps(steps: tuple[Step, ...], params: Mapping[str, object], faults: Faults) -> None:
    """Validate steps built in Python: they use only known functions and valid blob names."""
    for step in walk(steps):
        _check_words(expressions(step), step, faults)
        folders: tuple[str, ...] = ()
        if isinstance(step, RunProgram) and step.state_dir:
            folders = step.folders
            check_file_name(step.state_dir, "state_dir", step, faults)
        for name in ACCESS_FINDER.of_step(step).binds:
            if name in folders:
                continue
            # Names of a compiled net carry the position of its use before a colon.
            plain_name = name.rpartition(":")[2]
            refused = find_name_refusal(plain_name, params)
            if refused is not None:
                faults.error(*refused, step)
            elif not BLOB_NAME.fullmatch(plain_name):
                mend = "use letters, digits and '_', not starting with a digit"
                faults.error("E151", f"'{plain_name}' is not a valid name of a blob", mend, step)


def _check_words(exprs: Iterable[Expr], where: Located, faults: Faults) -> None:
    for expr in exprs:
        for part in walk_expr(expr):
            if isinstance(part, Call | Draw):
                _check_call(part, where, faults)
            elif isinstance(part, Builtin) and part.name not in BUILTINS:
                _note_unknown("word", part.name, BUILTINS, where, faults)
            elif isinstance(part, Dtype) and part.name not in DTYPES:
                _note_unknown("dtype", part.name, DTYPES, where, faults)


def _check_call(call: Call | Draw, where: Located, faults: Faults) -> None:
    """Validate a call in a job built in Python: function and arguments."""
    if isinstance(call, Draw):
        draw = DRAWS.get(call.method)
        if draw is None:
            _note_unknown("method of rng", call.method, DRAWS, where, faults)
            return
        problems = check_draw(call, draw)[1]
    else:
        operator = find_operator(call.function)
        if operator is None:
            _note_unknown("function", call.function, OPERATORS, where, faults)
            return
        problems = check_call(call, operator)[1]
    for problem in problems:
        faults.error(problem.code, problem.message, problem.mend, where)


def _note_unknown(
    noun: str, word: str, known: Iterable[str], where: Located, faults: Faults
) -> None:
    faults.error("E199", f"unknown {noun} '{word}'", did_you_mean(word, known), where)


def check_settings(task: Task, faults: Faults) -> None:
    """Validate the time limit and the retry of a task built in Python."""
    if not 0 <= task.timeout_s < math.inf:
        message = f"invalid time limit of {task.timeout_s:g} s"
        faults.error("E123", message, "use a number of seconds, or 0 for none", task)
    if task.retry is not None and not (
        task.retry.most >= 1 and 0 <= task.retry.backoff_s < math.inf
    ):
        message = f"invalid retry: {task.retry.most} times after {task.retry.backoff_s:g} s"
        faults.error("E123", message, "use Retry(1), or None for no retry", task)
    if task.retry is not None and task.on_error == "warn":
        message = "'retry' has no effect with 'on_error: warn', which never fails the group"
        faults.error("E124", message, "remove one of the two", task)
