"""What was measured, as rows: by step, operator, instance and node. Pure; prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobrun.runtime.meter import BlockTime


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step, over all tasks' instances that ran it.

    Attributes:
        label: What it does, in a word.
        calls: How often it ran; with ``estimated`` as counted in one pass of many.
        seconds: By itself.
        total_s: With the steps inside it.
    """

    path: str
    label: str
    line: int
    calls: int
    seconds: float
    total_s: float
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """All steps that do the same."""

    label: str
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """One instance of a task, or what is around the tasks of a node (with no task).

    Attributes:
        runs: How often its body ran: once per epoch, or once per record.
        seconds: In its body, from its beginning to its end.
        setup_s: In set-up around it.
        report_s: In its reports.
    """

    group: str
    node: str
    task: str
    instance: int
    runs: int
    seconds: float
    setup_s: float
    report_s: float


@dataclass(frozen=True, slots=True)
class NodeRow:
    """All that ran on a node, threads added up."""

    node: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Table:
    """All rows; each kind begins with what took longest."""

    steps: tuple[StepRow, ...]
    operators: tuple[OperatorRow, ...]
    instances: tuple[InstanceRow, ...]
    nodes: tuple[NodeRow, ...]


def table_of(times: Iterable[BlockTime], labels: Mapping[str, str]) -> Table:
    """The rows of what was measured.

    Args:
        times: Of all blocks.
        labels: What each step does, by its path.
    """
    times = tuple(times)
    steps = _step_rows(times, labels)
    instances = _instance_rows(times)
    return Table(
        tuple(sorted(steps, key=lambda row: -row.seconds)),
        tuple(sorted(_operator_rows(steps), key=lambda row: -row.seconds)),
        tuple(sorted(instances, key=lambda row: -(row.seconds + row.setup_s + row.report_s))),
        tuple(sorted(_node_rows(instances), key=lambda row: -row.seconds)),
    )


def parents(paths: Iterable[str]) -> dict[str, str]:
    """For each path the longest other one that it stands in; empty for none."""
    known = set(paths)
    found: dict[str, str] = {}
    for path in known:
        places = [at for at in range(len(path) - 1, 0, -1) if path[at] in ".["]
        found[path] = next((path[:at] for at in places if path[:at] in known), "")
    return found


def _step_rows(times: tuple[BlockTime, ...], labels: Mapping[str, str]) -> list[StepRow]:
    rows: dict[str, StepRow] = {}
    blocks: dict[str, str] = {}
    for block in times:
        for step in block.steps:
            blocks[step.path] = block.path
            row = rows.get(step.path) or StepRow(
                step.path, labels.get(step.path, ""), step.line, 0, 0.0, 0.0
            )
            rows[step.path] = replace(
                row,
                calls=row.calls + step.calls,
                seconds=row.seconds + step.seconds,
                estimated=row.estimated or step.estimated,
            )
    around = parents(rows)
    # Inner steps first.
    for path in sorted(rows, key=len, reverse=True):
        row = rows[path]
        inside = [rows[one] for one, outer in around.items() if outer == path]
        rows[path] = _with_total(row, inside, [blocks[one.path] == blocks[path] for one in inside])
    return list(rows.values())


def _with_total(row: StepRow, inside: list[StepRow], is_own: list[bool]) -> StepRow:
    """Steps of another block were measured within the step that calls it: they are not its own."""
    called_s = sum(one.total_s for one, own in zip(inside, is_own, strict=True) if not own)
    own_s = sum(one.total_s for one, own in zip(inside, is_own, strict=True) if own)
    # Branches of a parallel run side by side: together they may be longer than it.
    total_s = row.seconds + own_s
    return replace(row, seconds=max(0.0, row.seconds - called_s), total_s=total_s)


def _operator_rows(steps: Iterable[StepRow]) -> list[OperatorRow]:
    found: dict[str, OperatorRow] = {}
    for step in steps:
        row = found.get(step.label) or OperatorRow(step.label, 0, 0.0)
        found[step.label] = OperatorRow(
            step.label, row.calls + step.calls, row.seconds + step.seconds
        )
    return list(found.values())


def _instance_rows(times: Iterable[BlockTime]) -> list[InstanceRow]:
    found: dict[tuple[str, str, str, int], InstanceRow] = {}
    for block in times:
        row = found.get(block.owner) or InstanceRow(*block.owner, 0, 0.0, 0.0, 0.0)
        if "/setup" in block.path:
            row = replace(row, setup_s=row.setup_s + block.seconds)
        elif "/report" in block.path:
            row = replace(row, report_s=row.report_s + block.seconds)
        elif block.path in (f"{block.owner.group}/{block.owner.task}", block.owner.task):
            row = replace(row, runs=row.runs + block.runs, seconds=row.seconds + block.seconds)
        found[block.owner] = row
    return list(found.values())


def _node_rows(instances: Iterable[InstanceRow]) -> list[NodeRow]:
    found: dict[str, float] = {}
    for row in instances:
        found[row.node] = found.get(row.node, 0.0) + row.seconds + row.setup_s + row.report_s
    return [NodeRow(node, seconds) for node, seconds in found.items()]
