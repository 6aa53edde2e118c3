"""Resolve what probes (conditions and metrics) read between groups: find the node of each blob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobrun.compile.analysis.missing_blobs import suggest_state
from jobrun.compile.analysis.outputs import OutputTable
from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.definite_assignment import FINDER
from jobrun.compile.job_draft.draft import GroupDraft, JobDraft
from jobrun.compile.job_draft.node_names import NodeNames
from jobrun.core.lazy_dataclass import dataclass, replace
from jobrun.core.text.names import did_you_mean
from jobrun.graph.conditions import Probe, StopCondition, StopWhen
from jobrun.graph.expressions import Builtin, Draw, Expr, LoopIndex, Name, NodeBlob, OutputRead
from jobrun.graph.traversal import map_expr, walk_expr
from jobrun.graph.types import GROUPS, GroupName

_CONSTANTS = ("inf", "nan", "pi")


@dataclass(frozen=True, slots=True)
class Readable:
    """The blobs and outputs that probes may read.

    Attributes:
        names: Per node, state and constants.
        groups: The groups that have ended when the probe is evaluated.
    """

    names: Mapping[str, frozenset[str]]
    groups: tuple[GroupName, ...]


@dataclass(frozen=True, slots=True)
class Conditions:
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
    stop = [_resolve_stop(one, during) for one in job.stop]
    return Conditions(
        tuple(one for one in stop if one is not None),
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
    found = [probes.resolve(one, f"{key}[{index}]") for index, one in enumerate(written)]
    return tuple(probe for probe in found if probe is not None)


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
        """Find the node of each blob in a condition or metric; return None if one has a fault."""
        place = Place(probe.path or path, probe.origin)
        parts: list[Expr] = []
        for expr in probe.parts:
            part = self._resolve(expr, place) if self._is_readable(expr, place) else None
            if part is None:
                return None
            parts.append(part)
        return replace(probe, parts=tuple(parts), path=probe.path or path)

    def _is_readable(self, expr: Expr, place: Place) -> bool:
        """Check that a condition's or metric's expression can be evaluated outside any task."""
        for part in walk_expr(expr):
            if isinstance(part, Draw):
                self._faults.error(
                    "E130",
                    "there is no random stream between epochs",
                    "draw in a task, and read the blob",
                    place,
                )
                return False
            if isinstance(part, LoopIndex) or (
                isinstance(part, Builtin) and part.name not in _CONSTANTS
            ):
                name = part.name if isinstance(part, Builtin) else "iter"
                self._faults.error(
                    "E131", f"'{name}' has no value between epochs", _builtin_mend(name), place
                )
                return False
        # An operator that changes its argument changes the blob of any node.
        access = FINDER.of_expr(map_expr(expr, _without_node))
        changed = [*access.changes, *access.atomic]
        if changed:
            self._faults.error(
                "E132",
                f"a metric or condition cannot change '{changed[0]}'",
                "change it in a task",
                place,
            )
            return False
        return True

    def _resolve(self, expr: Expr, place: Place) -> Expr | None:
        faulty: list[Expr] = []

        def leaf(part: Expr) -> Expr:
            found: Expr | None = part
            if isinstance(part, Name):
                found = self._resolve_blob(part.name, None, place)
            elif isinstance(part, NodeBlob):
                found = self._resolve_blob(part.name, part.node, place)
            elif isinstance(part, OutputRead):
                found = self._resolve_dotted(part, part.node or None, place)
            if found is None:
                faulty.append(part)
                return part
            return found

        resolved = map_expr(expr, leaf)
        return None if faulty else resolved

    def _resolve_blob(self, name: str, node: str | None, place: Place) -> Expr | None:
        owners = self._owners.get(name, [])
        if node is not None:
            if node in owners:
                return NodeBlob(node, name)
            self._note_unknown(
                name, self._readable.names.get(node, frozenset()), f" on node '{node}'", place
            )
            return None
        if len(owners) == 1:
            return NodeBlob(owners[0], name)
        if owners:
            shown = ", ".join(f"{owner}.{name}" for owner in owners[:3])
            message = f"'{name}' is on {len(owners)} nodes"
            mend = f"write {shown}, or {{of: {name}, nodes: …, reduce: …}}"
            self._faults.error("E133", message, mend, place)
            return None
        self._note_unknown(name, self._owners, "", place)
        return None

    def _resolve_dotted(self, read: OutputRead, node: str | None, place: Place) -> Expr | None:
        """Resolve the ``task.output`` or ``node.blob`` that a condition or metric reads."""
        if self._outputs.has_task(read.task):
            return self._outputs.resolve(read, node, self._readable.groups, place, in_probe=True)
        nodes = self._nodes.find(read.task)
        if len(nodes) == 1:
            names = self._readable.names.get(nodes[0], frozenset())
            if read.output in names:
                return NodeBlob(nodes[0], read.output)
            self._note_unknown(read.output, names, f" on node '{nodes[0]}'", place)
        elif nodes:
            message = f"'{read.task}' is {len(nodes)} nodes"
            mend = f"write {{of: {read.output}, nodes: {read.task}, reduce: …}}, or name one node"
            self._faults.error("E133", message, mend, place)
        else:
            known = [*self._nodes.names[:100], *self._outputs.task_names()]
            self._faults.error(
                "E134",
                f"'{read.task}' is neither a node nor a task",
                did_you_mean(read.task, known),
                place,
            )
        return None

    def _note_unknown(self, name: str, known: Any, where: str, place: Place) -> None:
        tasks = (task for group in self._groups.values() for task in group.tasks)
        task = next((one for one in tasks if name in one.flow.made()), None)
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
        self._faults.error("E135", message, mend, place, name)


def _builtin_mend(name: str) -> str:
    if name == "epoch":
        return (
            "to stop after a number of epochs, write {epochs: N}; otherwise keep a counter "
            "in the state"
        )
    return "use a blob, or an output of a task"


def _without_node(expr: Expr) -> Expr:
    return Name(expr.name) if isinstance(expr, NodeBlob) else expr
