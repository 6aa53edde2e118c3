"""Aggregate profiled times as rows by step, operator, instance and node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from jobrun.core.lazy_dataclass import dataclass, replace

if TYPE_CHECKING:
    from jobrun.runtime.codegen.meter_protocol import BlockTime


@dataclass(frozen=True, slots=True)
class StepRow:
    """The times of one step, over all instances of tasks that ran it.

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
    """The times of all steps that apply one operator."""

    label: str
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """The times of one instance of a task, or of what is around a node's tasks (no task).

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
    """The times of one node, with those of all its threads added."""

    node: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Table:
    """All rows of a profile; each kind begins with what took longest."""

    steps: tuple[StepRow, ...]
    operators: tuple[OperatorRow, ...]
    instances: tuple[InstanceRow, ...]
    nodes: tuple[NodeRow, ...]


def build_table(times: Iterable[BlockTime], labels: Mapping[str, str]) -> Table:
    """Aggregate measured times to the rows of a profile's table.

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
    """Map the path of each row in a profile's table to the path of the step around it."""
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
    """Subtract the time of blocks that a step calls from the step's row in a profile's table."""
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
