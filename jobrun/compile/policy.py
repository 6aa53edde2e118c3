"""From ``checkpoint`` and ``stop`` in a spec to the graph's policy and conditions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Literal

from jobrun.compile.collecting import collecting
from jobrun.compile.context import Context
from jobrun.compile.faults import Place
from jobrun.compile.nodes import NodeNames
from jobrun.compile.positions import Finished
from jobrun.compile.probes import Probes
from jobrun.compile.upload import upload_policy
from jobrun.core.compression import Rules
from jobrun.core.names import did_you_mean
from jobrun.graph.conditions import (
    CheckpointPolicy,
    Deadline,
    Endless,
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.spec.models import CheckpointSpec, JobSpec, KeepSpec, StopSpec
from jobrun.spec.source import Path, path_text


def checkpoint_policy(
    spec: JobSpec, context: Context, nodes: NodeNames, default: tuple[str, ...]
) -> CheckpointPolicy:
    """The policy; ``default`` are the nodes that init uses."""
    written = spec.checkpoint
    if not isinstance(written, CheckpointSpec):
        return CheckpointPolicy(enabled=False, nodes=default)
    chosen = default
    if written.nodes is not None:
        found: list[str] = []
        for index, name in enumerate(written.nodes):
            place = _place(context, "checkpoint", "nodes", index)
            found += nodes.resolve(name, place, context.faults)
        # Of nodes that are not known, one fault is enough: state stays where it is made.
        chosen = tuple(dict.fromkeys(found if len(found) >= len(written.nodes) else default))
    every = written.every
    keep = written.keep or KeepSpec()
    unit, amount = (every.unit, every.amount) if every is not None else ("epochs", 1)
    policy = CheckpointPolicy(
        directory=written.dir or "",
        # Checkpoints within an epoch come on top of those at its end.
        every_epochs={"epochs": int(amount), "records": 1}.get(unit, 0),
        every_s=amount if unit == "seconds" else 0.0,
        every_records=int(amount) if unit == "records" else 0,
        keep_last=keep.last or 0,
        keep_every=_keep_every(keep, context),
        keep_best=_keep_best(keep, spec.metrics, context),
        nodes=chosen,
        on_error=written.on_error,
        upload=upload_policy(written.upload, context),
        compression=_compression(written.compression),
        compression_at=context.source.at(("checkpoint", "compression")),
        upload_at=context.source.at(("checkpoint", "upload", "to")),
        asynchronous=written.asynchronous,
    )
    return collecting(policy, written, context)


def _compression(written: str | Mapping[str, str] | None) -> Rules:
    if written is None:
        return ()
    return (("*", written),) if isinstance(written, str) else tuple(written.items())


def _keep_every(keep: KeepSpec, context: Context) -> int:
    if keep.every is None:
        return 0
    if keep.every.unit != "epochs":
        place = _place(context, "checkpoint", "keep", "every")
        context.faults.error("E136", "'keep.every' is a number of epochs",
                             "write for example 10ep", place)  # fmt: skip
        return 0
    return int(keep.every.amount)


def _keep_best(
    keep: KeepSpec, metrics: Collection[str], context: Context
) -> tuple[str, Literal["min", "max"], int]:  # fmt: skip
    if keep.best is None:
        return CheckpointPolicy().keep_best
    place = _place(context, "checkpoint", "keep", "best", "metric")
    check_metric(keep.best.metric, metrics, context, place)
    return (keep.best.metric, keep.best.mode, keep.best.n)


def stop_conditions(
    spec: JobSpec, context: Context, probes: Probes, finished: Finished
) -> tuple[StopCondition, ...]:  # fmt: skip
    """The conditions, in their order; a job without one has a fault."""
    if not spec.stop:
        place = Place("stop", context.source.key(()))
        mend = "write for example stop: [{epochs: 10}], or [{endless: true}] if that is meant"
        context.faults.error("E137", "the job has no 'stop', so it would never end", mend, place)
    found = [
        _data_finished(stop.data_finished, ("stop", index), finished)
        if stop.data_finished is not None
        else _condition(stop, ("stop", index), spec, context, probes)
        for index, stop in enumerate(spec.stop)
    ]
    return tuple(one for one in found if one is not None)


def _condition(
    stop: StopSpec, at: Path, spec: JobSpec, context: Context, probes: Probes
) -> StopCondition | None:
    path = path_text(at)
    if stop.epochs is not None:
        return StopAfterEpochs(stop.epochs, path)
    if stop.when is not None:
        probe = probes.probe(stop.when, (*at, "when"), is_condition=True)
        return None if probe is None else StopWhen(probe, path)
    if stop.time is not None:
        return StopAfterTime(stop.time, path)
    if stop.no_improvement is not None:
        patience = stop.no_improvement
        place = _place(context, *at, "no_improvement", "of")
        check_metric(patience.of, spec.metrics, context, place)
        return StopWithoutImprovement(
            patience.of, patience.epochs, patience.mode, patience.min_delta, path
        )
    return Endless(path) if stop.endless else None


def _data_finished(reader: str, at: Path, finished: Finished) -> StopCondition | None:
    probe = finished.probe(reader, (*at, "data_finished"))
    return None if probe is None else StopWhen(probe, path_text(at))


def deadline_of(spec: JobSpec, context: Context) -> Deadline | None:
    """When an invocation must be over; notes a fault for what is no time."""
    if spec.deadline is None:
        if spec.margin is not None:
            place = Place("margin", context.source.key(("margin",)))
            context.faults.error("E124", "'margin' has no effect without 'deadline'",
                                 "add deadline: auto, or leave it out", place)  # fmt: skip
        return None
    if not _is_time(spec.deadline):
        context.faults.error(
            "E126", f"'{spec.deadline}' is no time",
            "write auto, or a time such as 2026-11-21T18:30 or 2026-11-21T18:30+01:00",
            _place(context, "deadline"),
        )  # fmt: skip
    margin_s = Deadline("").margin_s if spec.margin is None else spec.margin
    return Deadline(spec.deadline, margin_s)


def _is_time(text: str) -> bool:
    if text == "auto":
        return True
    try:
        # A date alone would mean its first minute, which is hardly what anyone means.
        return bool(datetime.fromisoformat(text)) and len(text) > len("2026-11-21")
    except ValueError:
        return False


def check_metric(name: str, metrics: Collection[str], context: Context, place: Place) -> None:
    """Note a fault if the job has no such metric."""
    if name not in metrics:
        mend = did_you_mean(name, metrics) if metrics else f"write metrics: {{{name}: …}}"
        context.faults.error("E138", f"unknown metric '{name}'", mend, place)


def _place(context: Context, *at: str | int) -> Place:
    return Place(path_text(at), context.source.at(at))
