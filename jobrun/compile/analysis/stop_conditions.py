"""Analyse how a job ends: the end of its data, and stop conditions that no epoch can change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jobrun.compile.analysis.queues import find_queue_ends
from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.definite_assignment import FlowAnalysis
from jobrun.compile.job_draft.draft import GroupDraft, Groups, walk_readers
from jobrun.compile.job_draft.task_records import has_finished
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
    ReadRecords,
    readers_in,
)
from jobrun.graph.steps import Step
from jobrun.graph.traversal import walk_expr

_BOUNDS = StopAfterEpochs | StopAfterTime | StopWithoutImprovement | Endless
_ENDLESS_MEND = "add {epochs: N} to 'stop', or {endless: true}"


def find_end_of_data(groups: Groups, stop: Sequence[StopCondition]) -> tuple[StopWhen, ...]:
    """Build the stop condition at the end of data: the positions of all readers are at their ends.

    It is added if every task of ``epoch`` depends on records of readers that do not restart: with
    other tasks an epoch without records may be intended, as it is with ``endless``.
    """
    if any(isinstance(one, Endless) for one in stop):
        return ()
    tasks = groups["epoch"].tasks
    pairs = [*walk_readers({"epoch": groups["epoch"]})]
    if not pairs or any(one.restart == "epoch" for one, _ in pairs):
        return ()
    if len(_find_fed_tasks(groups)) < len(tasks):
        return ()
    parts = dict.fromkeys(
        has_finished(node, reader) for reader, task in pairs for node in task.nodes
    )
    names = " and ".join(f"'{name}'" for name in dict.fromkeys(one.name for one, _ in pairs))
    found = StopWhen(Probe(f"the data of {names} have ended", tuple(parts), "all", "stop"), "stop")
    known = [{*one.probe.parts} for one in stop if isinstance(one, StopWhen)]
    return () if any(one <= {*parts} for one in known) else (found,)


def _find_fed_tasks(groups: Groups) -> set[str]:
    """Find the tasks of ``epoch`` that depend on records, and so on positions of readers.

    They read these, or get them by queues, or read outputs of such a task, which are made in each
    epoch. A task that reads state may have something to do without records, too.
    """
    group = groups["epoch"]
    tasks = group.tasks
    fed = {task.name for task in tasks if isinstance(task.records.read, ReadRecords)}
    sources = {
        reader.name: {writer.name for writer, _, _ in ends.writers}
        for ends in find_queue_ends(group).values()
        for reader, _ in ends.readers
    }
    outputs = {
        task.name: {name for name, _ in (*task.flow.once.outputs, *task.flow.inner.outputs)}
        for task in tasks
    }
    while True:
        more = {name for name, writers in sources.items() if writers <= fed}
        more.update(name for name, read in outputs.items() if not read.isdisjoint(fed))
        if more <= fed:
            return fed
        fed |= more


def check_readers_end(groups: Groups, stop: Sequence[StopCondition], faults: Faults) -> None:
    """Check that all readers are finite where no other stop condition ends the job."""
    if not stop or any(isinstance(one, _BOUNDS) for one in stop):
        return
    mend = _ENDLESS_MEND
    named = {part for one in stop if isinstance(one, StopWhen) for part in one.probe.parts}
    for top, task in walk_readers({"epoch": groups["epoch"]}):
        for reader in readers_in(top):
            place = Place(reader.path, reader.origin)
            if reader.limit == 0:
                faults.error(
                    "E512",
                    f"reader '{reader.name}' has limit: 0, so no epoch reads a record, "
                    f"and there is no other stop condition",
                    f"use a limit of 1 or more; or {mend}",
                    place,
                )
            elif (
                isinstance(reader.source, CounterSource)
                and reader.source.stop is None
                and any(has_finished(node, reader) in named for node in task.nodes)
            ):
                faults.error(
                    "E512",
                    f"reader '{reader.name}' has no stop, so its data are never finished, and "
                    f"there is no other stop condition",
                    f"add a stop to the counter; or {mend}",
                    place,
                )


def check_conditions_change(
    groups: Groups, stop: Sequence[StopCondition], others: Sequence[Probe], faults: Faults
) -> None:
    """Check that epochs change what some stop condition reads, such as a reader's position.

    Args:
        groups: The groups of the job.
        stop: All conditions, including those added by the compiler.
        others: Probes that end the job by failing.
        faults: Where to note them.
    """
    conditions = [one for one in stop if isinstance(one, StopWhen)]
    if not conditions or len(conditions) < len(stop) or others:
        return
    epoch = groups["epoch"]
    changed = {node: _changed_names(epoch, node) for node in epoch.nodes()}
    tasks = {task.name for task in epoch.tasks}
    if any(all(expr == Const(value=True) for expr in one.probe.parts) for one in conditions):
        # It ends after the first epoch.
        return
    parts = [part for one in conditions for expr in one.probe.parts for part in walk_expr(expr)]
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
            Place(conditions[0].path, conditions[0].probe.origin),
        )
        return
    for one in conditions:
        reads = [part for expr in one.probe.parts for part in walk_expr(expr)]
        names = dict.fromkeys(part.name for part in reads if isinstance(part, NodeBlob))
        blobs = " or ".join(f"'{name}'" for name in names)
        why = f": no task of 'epoch' changes {blobs}" if names else ""
        change = f"change {blobs} in a task of 'epoch'; or " if names else ""
        faults.error(
            "E521",
            f"no epoch changes whether '{one.probe.text}' holds{why}, and there is no other "
            f"stop condition",
            f"{change}{_ENDLESS_MEND}",
            Place(one.path, one.probe.origin),
        )


def _find_finite_readers(group: GroupDraft) -> list[str]:
    """Return a group's readers if all come to an end, and so may end the job; else none."""
    tops = [reader for reader, _ in walk_readers({group.name: group})]
    sources = [one.source for top in tops for one in readers_in(top)]
    ends = all(one.restart == "never" for one in tops) and not any(
        isinstance(one, CallSource) or (isinstance(one, CounterSource) and one.stop is None)
        for one in sources
    )
    return [one.name for one in tops] if ends else []


def _changed_names(group: GroupDraft, node: str, *, with_records: bool = True) -> set[str]:
    """Collect names that an epoch changes on a node, so that stop conditions on them may come true.

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
    found = {*finder.uses.writes, *finder.uses.atomic}
    for task in group.tasks:
        if node in task.nodes:
            flow = task.flow
            around_it = task.node_setup
            if with_records or not isinstance(task.records.read, ReadRecords):
                found |= flow.made()
                found.update(flow.once.atomic, flow.inner.atomic, flow.reporting.atomic)
                found.update(task.records.fields)
            else:
                # Reports come in time, and run in an epoch without records for no time.
                found.update(flow.once.writes, flow.once.atomic)
                around_it = (*around_it, *task.instance_setup)
            for around in around_it:
                found.update(_written_names(around.init), _written_names(around.exit))
    return found


def _written_names(steps: tuple[Step, ...]) -> set[str]:
    finder = FlowAnalysis()
    finder.block(steps, "")
    return {*finder.uses.writes, *finder.uses.atomic}


def _may_change(part: Expr, changed: Mapping[str, set[str]], tasks: Collection[str]) -> bool:
    """Return whether epochs may change what a part of a stop condition reads."""
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
