"""Lower metrics, stop conditions, expectations and deadline, which the runner evaluates.

Their blobs get nodes in ``analysis.probes``, once state has been found.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from jobrun.compile.expressions.translate import UNREADABLE
from jobrun.compile.faults import SpecPosition
from jobrun.compile.job_draft.tasks_and_groups import Groups, walk_readers
from jobrun.compile.lowering.checkpoint import check_metric
from jobrun.compile.lowering.context import Context, Env
from jobrun.compile.lowering.expressions import ExpressionLowering
from jobrun.core.text.names import did_you_mean
from jobrun.graph.conditions import (
    Deadline,
    Endless,
    Probe,
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.expressions import Expr, Name, NodeBlob, OutputRead
from jobrun.graph.readers import Reader, has_finished, readers_in
from jobrun.graph.traversal import map_expr
from jobrun.spec.models.base_types import Model
from jobrun.spec.models.job import JobSpec, StopSpec
from jobrun.spec.yaml.nodes import Path, path_text

if TYPE_CHECKING:
    from jobrun.spec.models.optional_parts import OverNodes

# These reductions give a number, which is not a condition.
_NUMBERS = ("mean", "sum")


class ConditionLowering:
    """Lowers probes and conditions; leaves out what has a fault."""

    def __init__(self, context: Context, read: ExpressionLowering, groups: Groups) -> None:
        self._context = context
        self._faults = context.faults
        self._read = read
        self._readers: dict[str, Reader] = {}
        self._nodes: dict[str, dict[str, None]] = {}
        for reader, task in walk_readers({"epoch": groups["epoch"]}):
            for inner_reader in readers_in(reader):
                self._readers[inner_reader.name] = inner_reader
                self._nodes.setdefault(inner_reader.name, {}).update(dict.fromkeys(task.nodes))
        self._others = {
            inner_reader.name
            for reader, _ in walk_readers(groups)
            for inner_reader in readers_in(reader)
        }

    def stop(self, spec: JobSpec) -> tuple[StopCondition, ...]:
        """Lower the stop conditions of a spec, in order; add a fault if there is none."""
        if not spec.stop:
            spec_position = SpecPosition("stop", self._context.source.key(()))
            mend = "write for example stop: [{epochs: 10}], or [{endless: true}]"
            self._faults.error(
                "E137", "the job has no 'stop', so it would never end", mend, spec_position
            )
        conditions = [
            self._condition(stop, ("stop", index), spec) for index, stop in enumerate(spec.stop)
        ]
        return tuple(condition for condition in conditions if condition is not None)

    def metrics(self, spec: JobSpec) -> tuple[tuple[str, Probe], ...]:
        """Lower the spec's metrics by name: expressions to evaluate, as in conditions."""
        probes = [
            (name, self._probe(written, ("metrics", name), is_condition=False))
            for name, written in spec.metrics.items()
        ]
        return tuple((name, probe) for name, probe in probes if probe is not None)

    def conditions(self, key: str, written: Iterable[Any]) -> tuple[Probe, ...]:
        """Lower the list of conditions under one key of the spec, such as ``expect``."""
        probes = [
            self._probe(condition, (key, index), is_condition=True)
            for index, condition in enumerate(written)
        ]
        return tuple(probe for probe in probes if probe is not None)

    def _condition(self, stop: StopSpec, at: Path, spec: JobSpec) -> StopCondition | None:
        path = path_text(at)
        if stop.data_finished is not None:
            probe = self._data_finished(stop.data_finished, (*at, "data_finished"))
            return None if probe is None else StopWhen(probe, path)
        if stop.epochs is not None:
            return StopAfterEpochs(stop.epochs, path)
        if stop.when is not None:
            probe = self._probe(stop.when, (*at, "when"), is_condition=True)
            return None if probe is None else StopWhen(probe, path)
        if stop.time is not None:
            return StopAfterTime(stop.time, path)
        if stop.no_improvement is not None:
            patience = stop.no_improvement
            of = (*at, "no_improvement", "of")
            spec_position = SpecPosition(path_text(of), self._context.source.at(of))
            check_metric(patience.of, spec.metrics, spec_position, self._faults)
            return StopWithoutImprovement(
                patience.of, patience.epochs, patience.mode, patience.min_delta, path
            )
        return Endless(path) if stop.endless else None

    def _data_finished(self, name: str, at: Path) -> Probe | None:
        """Lower the condition ``data_finished``: a named reader has no record left."""
        spec_position = SpecPosition(path_text(at), self._context.source.at(at))
        reader = self._readers.get(name)
        if reader is None:
            message = f"no task of 'epoch' reads '{name}', so its data are never finished"
            mend = did_you_mean(name, self._readers)
            if name in self._others or not self._readers:
                mend = f"write read: {name} in a task of 'epoch'"
            self._faults.error("E121", message, mend, spec_position)
            return None
        if reader.restart == "epoch":
            self._faults.error(
                "E121",
                f"reader '{name}' restarts in every epoch, so 'data_finished' would always hold",
                f"give '{name}' restart: never, or use epochs in 'stop'",
                spec_position,
            )
            return None
        parts = tuple(has_finished(node, reader) for node in self._nodes[name])
        return Probe(
            f"the data of '{name}' have ended",
            parts,
            "all",
            spec_position.path,
            spec_position.origin,
        )

    def _probe(self, spec: Any, at: Path, *, is_condition: bool) -> Probe | None:
        path = path_text(at)
        if isinstance(spec, Model):
            return self._over_nodes(cast("OverNodes", spec), at, path, is_condition=is_condition)
        expr = self._expression(spec, at, path, is_condition=is_condition)
        if expr is None:
            return None
        return Probe(_text(spec), (expr,), "", path, self._context.source.at(at))

    def _over_nodes(
        self, spec: OverNodes, at: Path, path: str, *, is_condition: bool
    ) -> Probe | None:
        nodes_position = self._context.spec_position(path, *at, "nodes")
        nodes = self._context.nodes.resolve(spec.nodes, nodes_position, self._faults)
        boolean = is_condition and spec.reduce in ("any", "all")
        expr = self._expression(spec.of, (*at, "of"), path, is_condition=boolean)
        if is_condition and spec.reduce in _NUMBERS:
            spec_position = self._context.spec_position(path, *at, "reduce")
            message = f"'{spec.reduce}' gives a number, but a condition must be true or false"
            self._faults.error("E152", message, "write any or all", spec_position)
            return None
        if expr is None or not nodes:
            return None
        parts = tuple(_on_node(expr, node) for node in nodes)
        text = f"{spec.reduce} of {_text(spec.of)} over {spec.nodes}"
        return Probe(text, parts, spec.reduce, path, self._context.source.at((*at, "of")))

    def _expression(self, spec: Any, at: Path, path: str, *, is_condition: bool) -> Expr | None:
        read = self._read.condition if is_condition else self._read.expression
        expr = read(spec, at, path, Env(()))
        return None if expr is UNREADABLE else expr


def lower_deadline(spec: JobSpec, context: Context) -> Deadline | None:
    """Lower ``deadline`` and ``margin`` of a spec: conditions on an invocation's time."""
    if spec.deadline is None:
        if spec.margin is not None:
            spec_position = SpecPosition("margin", context.source.key(("margin",)))
            message = "'margin' has no effect without 'deadline'"
            context.faults.error("E124", message, "add deadline: auto, or remove it", spec_position)
        return None
    if not _is_time(spec.deadline):
        context.faults.error(
            "E126",
            f"'{spec.deadline}' is not a valid time",
            "write auto, or a time such as 2026-11-21T18:30 or 2026-11-21T18:30+01:00",
            SpecPosition("deadline", context.source.at(("deadline",))),
        )
    margin_s = Deadline("").margin_s if spec.margin is None else spec.margin
    return Deadline(spec.deadline, margin_s)


def _is_time(text: str) -> bool:
    if text == "auto":
        return True
    try:
        # A date alone would mean its first minute, which is hardly intended.
        return bool(datetime.fromisoformat(text)) and len(text) > len("2026-11-21")
    except ValueError:
        return False


def _on_node(expr: Expr, node: str) -> Expr:
    """Lower a condition for one node: put the node before each name in it."""

    def leaf(part: Expr) -> Expr:
        if isinstance(part, Name):
            return NodeBlob(node, part.name)
        if isinstance(part, OutputRead) and not part.node:
            return replace(part, node=node)
        return part

    return map_expr(expr, leaf)


def _text(spec: Any) -> str:
    return spec if isinstance(spec, str) else str(spec)
