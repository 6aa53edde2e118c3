"""Resolve what metrics and conditions read, and analyse how a job ends.

Each blob that a probe reads between groups gets its node. A job ends by its data or by its stop
conditions, some of which no epoch can change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jobrun.compile.analysis.missing_blobs import suggest_state
from jobrun.compile.analysis.outputs import OutputTable
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.definite_assignment import FlowAnalysis
from jobrun.compile.job_draft.node_names import NodeNames
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, Groups, JobDraft, walk_readers
from jobrun.core.text.names import did_you_mean
from jobrun.graph.conditions import (
    Endless,
    Probe,
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.expressions import (
    Builtin,
    Const,
    Draw,
    Dtype,
    Expr,
    LoopIndex,
    Name,
    NodeBlob,
    OutputRead,
)
from jobrun.graph.readers import (
    CallSource,
    CounterSource,
    Reader,
    ReadRecords,
    has_finished,
    readers_in,
)
from jobrun.graph.steps import Step
from jobrun.graph.traversal import map_expr, walk_expr
from jobrun.graph.types import GROUPS, GroupName
from jobrun.ops.access_finder import ACCESS_FINDER

_CONSTANTS = ("inf", "nan", "pi")

_BOUNDS = StopAfterEpochs | StopAfterTime | StopWithoutImprovement | Endless
_ENDLESS_MEND = "add {epochs: N} to 'stop', or {endless: true}"


class Readable(Struct, frozen=True):
    """The blobs and outputs that probes may read.

    Attributes:
        names: Per node, state and constants.
        groups: The groups that have ended when the probe is evaluated.
    """

    names: Mapping[str, frozenset[str]]
    groups: tuple[GroupName, ...]


class Conditions(Struct, frozen=True):
    """The conditions and metrics of a job, with a node for each blob."""

    stop: tuple[StopCondition, ...]
    metrics: tuple[tuple[str, Probe], ...]
    fail_if: tuple[Probe, ...]
    expect: tuple[Probe, ...]


def resolve_conditions(
    draft: JobDraft, names: Mapping[str, frozenset[str]], outputs: OutputTable, faults: Faults
) -> Conditions:
    """Analyse conditions and metrics: find the node of each blob that they read.

    Those with a fault are left out.

    Args:
        draft: The job.
        names: Per node, state and constants.
        outputs: All outputs of the job.
        faults: Collects what is wrong.
    """
    job, nodes = draft.job, NodeNames(draft.job.cluster)
    during = ProbeResolver(Readable(names, ("init", "epoch")), nodes, outputs, draft.groups, faults)
    at_end = ProbeResolver(Readable(names, GROUPS), nodes, outputs, draft.groups, faults)
    metrics = [(name, during.resolve(probe, f"metrics.{name}")) for name, probe in job.metrics]
    stop = [_resolve_stop(condition, during) for condition in job.stop]
    return Conditions(
        tuple(condition for condition in stop if condition is not None),
        tuple((name, probe) for name, probe in metrics if probe is not None),
        _resolve_all(during, "fail_if", job.fail_if),
        _resolve_all(at_end, "expect", job.expect),
    )


def _resolve_stop(condition: StopCondition, probes: ProbeResolver) -> StopCondition | None:
    if not isinstance(condition, StopWhen):
        return condition
    probe = probes.resolve(condition.probe, f"{condition.path}.when")
    return None if probe is None else replace(condition, probe=probe)


def _resolve_all(probes: ProbeResolver, key: str, written: tuple[Probe, ...]) -> tuple[Probe, ...]:
    resolved = [probes.resolve(probe, f"{key}[{index}]") for index, probe in enumerate(written)]
    return tuple(probe for probe in resolved if probe is not None)


class ProbeResolver:
    """Finds the nodes of what probes read, and refuses what the runner cannot evaluate."""

    def __init__(
        self,
        readable: Readable,
        nodes: NodeNames,
        outputs: OutputTable,
        groups: Mapping[GroupName, GroupDraft],
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._nodes = nodes
        self._readable = readable
        self._outputs = outputs
        self._groups = groups
        self._owners: dict[str, list[str]] = {}
        for node, names in readable.names.items():
            for name in names:
                self._owners.setdefault(name, []).append(node)

    def resolve(self, probe: Probe, path: str) -> Probe | None:
        """Set the node of each blob in a condition or metric; return None if invalid."""
        spec_position = SpecPosition(probe.path or path, probe.origin)
        parts: list[Expr] = []
        for expr in probe.parts:
            part = (
                self._resolve(expr, spec_position)
                if self._is_readable(expr, spec_position)
                else None
            )
            if part is None:
                return None
            parts.append(part)
        return replace(probe, parts=tuple(parts), path=probe.path or path)

    def _is_readable(self, expr: Expr, spec_position: SpecPosition) -> bool:
        """Return whether a condition or metric can be evaluated outside any task."""
        for part in walk_expr(expr):
            if isinstance(part, Draw):
                message = "there is no random stream between epochs"
                mend = "draw in a task, and read the blob"
                self._faults.error("E130", message, mend, spec_position)
                return False
            if isinstance(part, LoopIndex) or (
                isinstance(part, Builtin) and part.name not in _CONSTANTS
            ):
                name = part.name if isinstance(part, Builtin) else "iter"
                message = f"'{name}' has no value between epochs"
                self._faults.error("E131", message, _builtin_mend(name), spec_position)
                return False
        # An operator that changes its argument would change the blob of any node.
        access = ACCESS_FINDER.of_expr(map_expr(expr, _without_node))
        changed = [*access.changes, *access.atomic]
        if changed:
            message = f"a metric or condition cannot change '{changed[0]}'"
            self._faults.error("E132", message, "change it in a task", spec_position)
            return False
        return True

    def _resolve(self, expr: Expr, spec_position: SpecPosition) -> Expr | None:
        faulty: list[Expr] = []

        def leaf(part: Expr) -> Expr:
            resolved_part: Expr | None = part
            if isinstance(part, Name):
                resolved_part = self._resolve_blob(part.name, None, spec_position)
            elif isinstance(part, NodeBlob):
                resolved_part = self._resolve_blob(part.name, part.node, spec_position)
            elif isinstance(part, OutputRead):
                resolved_part = self._resolve_dotted(part, part.node or None, spec_position)
            if resolved_part is None:
                faulty.append(part)
                return part
            return resolved_part

        resolved = map_expr(expr, leaf)
        return None if faulty else resolved

    def _resolve_blob(
        self, name: str, node: str | None, spec_position: SpecPosition
    ) -> Expr | None:
        owners = self._owners.get(name, [])
        if node is not None:
            if node in owners:
                return NodeBlob(node, name)
            self._note_unknown(
                name,
                self._readable.names.get(node, frozenset()),
                f" on node '{node}'",
                spec_position,
            )
            return None
        if len(owners) == 1:
            return NodeBlob(owners[0], name)
        if owners:
            shown = ", ".join(f"{owner}.{name}" for owner in owners[:3])
            message = f"'{name}' is on {len(owners)} nodes"
            mend = f"write {shown}, or {{of: {name}, nodes: …, reduce: …}}"
            self._faults.error("E133", message, mend, spec_position)
            return None
        self._note_unknown(name, self._owners, "", spec_position)
        return None

    def _resolve_dotted(
        self, read: OutputRead, node: str | None, spec_position: SpecPosition
    ) -> Expr | None:
        """Resolve the ``task.output`` or ``node.blob`` that a condition or metric reads."""
        if self._outputs.has_task(read.task):
            return self._outputs.resolve(
                read, node, self._readable.groups, spec_position, in_probe=True
            )
        nodes = self._nodes.find(read.task)
        if len(nodes) == 1:
            names = self._readable.names.get(nodes[0], frozenset())
            if read.output in names:
                return NodeBlob(nodes[0], read.output)
            self._note_unknown(read.output, names, f" on node '{nodes[0]}'", spec_position)
        elif nodes:
            message = f"'{read.task}' is {len(nodes)} nodes"
            mend = f"write {{of: {read.output}, nodes: {read.task}, reduce: …}}, or name one node"
            self._faults.error("E133", message, mend, spec_position)
        else:
            known = [*self._nodes.names[:100], *self._outputs.task_names()]
            message = f"'{read.task}' is neither a node nor a task"
            self._faults.error("E134", message, did_you_mean(read.task, known), spec_position)
        return None

    def _note_unknown(self, name: str, known: Any, where: str, spec_position: SpecPosition) -> None:
        tasks = (task for group in self._groups.values() for task in group.tasks)
        task = next(
            (candidate for candidate in tasks if name in candidate.flow.written_names()), None
        )
        owners = self._owners.get(name)
        if where and owners:
            message = f"'{name}' does not exist{where}, but on '{owners[0]}'"
            mend = f"write {owners[0]}.{name}, or name the nodes that have it"
        elif task is not None and not task.nodes:
            # Its task has no node, which is reported already; fixing that fixes this.
            return
        elif task is not None:
            message = f"'{name}' is not state{where}: it is deleted at the end of '{task.group}'"
            output = f"give task '{task.name}' outputs: [{name}] and write {task.name}.{name}"
            mend = f"{suggest_state(task)}, or {output}"
        else:
            message = f"unknown blob '{name}'{where}"
            mend = did_you_mean(name, known)
        self._faults.error("E135", message, mend, spec_position, name)


def _builtin_mend(name: str) -> str:
    if name == "epoch":
        return (
            "to stop after a number of epochs, write {epochs: N}; otherwise keep a counter "
            "in the state"
        )
    return "use a blob, or an output of a task"


def _without_node(expr: Expr) -> Expr:
    return Name(expr.name) if isinstance(expr, NodeBlob) else expr


def warn_of_idle_epochs(groups: Groups, stop: Sequence[StopCondition], faults: Faults) -> None:
    """Warn if epochs may follow in which no task gets a record, since the data have ended.

    There is no warning if a task does not depend on records: it may be what the epochs are for.
    """
    epoch = groups["epoch"]
    readers = [reader for reader, _ in walk_readers({"epoch": epoch})]
    reads_only = all(task.records.read is not None for task in epoch.tasks)
    if not (readers and reads_only and all(map(_may_end, readers))):
        return
    positions = {reader.position for reader in readers}
    exprs = [
        expr for condition in stop if isinstance(condition, StopWhen)
        for expr in condition.probe.parts
    ]  # fmt: skip
    if any(isinstance(condition, Endless) for condition in stop) or any(
        isinstance(part, NodeBlob) and part.name in positions
        for expr in exprs
        for part in walk_expr(expr)
    ):
        return
    reader = readers[0]
    faults.warn(
        "W144",
        f"the data of '{reader.name}' may end before the last epoch; epochs without a record "
        f"follow, which run setups and reports only",
        f"add {{data_finished: {reader.name}}} to 'stop' to end the job there",
        reader,
    )


def check_readers_end(groups: Groups, stop: Sequence[StopCondition], faults: Faults) -> None:
    """Check that stop conditions end the job: by its readers, its epochs or its time."""
    if not stop or any(isinstance(condition, _BOUNDS) for condition in stop):
        return
    named = {
        part
        for condition in stop
        if isinstance(condition, StopWhen)
        for part in condition.probe.parts
    }
    for top, task in walk_readers({"epoch": groups["epoch"]}):
        for reader in readers_in(top):
            endless = isinstance(reader.source, CounterSource) and reader.source.stop is None
            if reader.limit == 0:
                why, change = "limit: 0, so no epoch reads a record", "use a limit of 1 or more"
            elif endless and any(has_finished(node, reader) in named for node in task.nodes):
                why, change = "no stop, so its data are never finished", "add a stop to the counter"
            else:
                continue
            message = f"reader '{reader.name}' has {why}, and there is no other stop condition"
            faults.error("E512", message, f"{change}; or {_ENDLESS_MEND}", reader)


def check_conditions_change(
    groups: Groups, stop: Sequence[StopCondition], others: Sequence[Probe], faults: Faults
) -> None:
    """Check that epochs change something that a stop condition reads.

    Args:
        groups: The groups of the job.
        stop: All conditions.
        others: Probes that end the job by failing.
        faults: Where to note them.
    """
    conditions = [condition for condition in stop if isinstance(condition, StopWhen)]
    if not conditions or len(conditions) < len(stop) or others:
        return
    epoch = groups["epoch"]
    changed = {node: _changed_names(epoch, node) for node in epoch.nodes()}
    tasks = {task.name for task in epoch.tasks}
    if any(
        all(expr == Const(value=True) for expr in condition.probe.parts) for condition in conditions
    ):
        # ``true`` ends the job after its first epoch.
        return
    parts = [
        part
        for condition in conditions
        for expr in condition.probe.parts
        for part in walk_expr(expr)
    ]
    if any(_may_change(part, changed, tasks) for part in parts):
        ended = _find_finite_readers(epoch)
        idle = {node: _changed_names(epoch, node, with_records=False) for node in epoch.nodes()}
        if not ended or any(_may_change(part, idle, tasks) for part in parts):
            return
        name = next(iter(ended))
        faults.error(
            "E521",
            f"when the data of '{name}' have ended, no epoch changes whether "
            f"'{conditions[0].probe.text}' holds, and there is no other stop condition",
            f"add {{data_finished: {name}}} to 'stop'; or {_ENDLESS_MEND}",
            SpecPosition(conditions[0].path, conditions[0].probe.origin),
        )
        return
    for condition in conditions:
        reads = [part for expr in condition.probe.parts for part in walk_expr(expr)]
        names = dict.fromkeys(part.name for part in reads if isinstance(part, NodeBlob))
        blobs = " or ".join(f"'{name}'" for name in names)
        why = f": no task of 'epoch' changes {blobs}" if names else ""
        change = f"change {blobs} in a task of 'epoch'; or " if names else ""
        faults.error(
            "E521",
            f"no epoch changes whether '{condition.probe.text}' holds{why}, and there is no other "
            f"stop condition",
            f"{change}{_ENDLESS_MEND}",
            SpecPosition(condition.path, condition.probe.origin),
        )


def _find_finite_readers(group: GroupDraft) -> list[str]:
    """List the readers that stop conditions may wait for: a group's, if none is endless."""
    readers = [reader for reader, _ in walk_readers({group.name: group})]
    from_code = any(
        isinstance(source.source, CallSource) for reader in readers for source in readers_in(reader)
    )
    are_finite = all(map(_may_end, readers)) and not from_code
    return [reader.name for reader in readers] if are_finite else []


def _may_end(reader: Reader) -> bool:
    """Return whether a reader has no record left at some time, as far as its source shows."""
    return reader.restart == "never" and not any(
        isinstance(part.source, CounterSource) and part.source.stop is None
        for part in readers_in(reader)
    )


def _changed_names(group: GroupDraft, node: str, *, with_records: bool = True) -> set[str]:
    """Collect the blobs that an epoch changes on a node, on which stop conditions can depend.

    Args:
        group: Its draft.
        node: The node.
        with_records: Readers give records.
    """
    finder = FlowAnalysis()
    for setup in group.setups.get(node, ()):
        finder.block(setup.init, setup.name)
        finder.block(setup.exit, setup.name)
    for report in group.reports.get(node, ()):
        finder.block(report.steps, report.path)
    changed = {*finder.uses.writes, *finder.uses.atomic}
    for task in group.tasks:
        if node in task.nodes:
            flow = task.flow
            setups = task.node_setup
            if with_records or not isinstance(task.records.read, ReadRecords):
                changed |= flow.written_names()
                changed.update(flow.once.atomic, flow.inner.atomic, flow.reporting.atomic)
                changed.update(task.records.fields)
            else:
                # Reports run at intervals, so an epoch without records runs none.
                changed.update(flow.once.writes, flow.once.atomic)
                setups = (*setups, *task.instance_setup)
            for setup in setups:
                changed.update(_written_names(setup.init), _written_names(setup.exit))
    return changed


def _written_names(steps: tuple[Step, ...]) -> set[str]:
    finder = FlowAnalysis()
    finder.block(steps, "")
    return {*finder.uses.writes, *finder.uses.atomic}


def _may_change(part: Expr, changed: Mapping[str, set[str]], tasks: Collection[str]) -> bool:
    """Return whether an epoch may change the value of this part of a stop condition."""
    match part:
        case NodeBlob():
            # A position of a reader or a state directory: its name cannot be written in a step.
            return "/" in part.name or part.name in changed.get(part.node, ())
        case OutputRead():
            return part.task in tasks
        case Const() | Dtype():
            return False
        case _:
            return isinstance(part, Builtin | Draw | LoopIndex | Name)
