"""Profile one invocation of a run: measure its steps, and write a table and a Chrome trace.

The table has rows by step, operator, instance and node. The trace, which Perfetto reads too, has
pictures one below the other: what the run did; what ran when on each node, thread by thread; and
all runs of each step added up, as flames, where width is time and callees are drawn below their
callers.

Loads numpy only when the meter is asked for: before, the number of BLAS threads must be set.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from jobrun.core.events import CheckpointCommitted, Event, GroupEnded, RunStarted, UsageMeasured
from jobrun.core.files.disk import disk_faults
from jobrun.core.files.json_files import write_json
from jobrun.core.time_use import TimeUse
from jobrun.graph.expressions import Binary, Call, Compare, Const, Draw, Expr, Name, Unary
from jobrun.graph.query import walk
from jobrun.graph.steps import (
    Assign,
    Augment,
    CallPython,
    Delete,
    ItemTarget,
    Net,
    Op,
    Perform,
    RunProgram,
    Step,
    UseNet,
)
from jobrun.graph.types import Job

if TYPE_CHECKING:
    from jobrun.runtime.codegen.meter_protocol import BlockTime
    from jobrun.runtime.codegen.step_meter import Meter

SCHEMA = "jobrun.profile/1"
FOLDER = "profile"

_RUN, _SUM, _FIRST_NODE = 1, 2, 3
_MICROSECONDS = 1e6


class Profiler(Struct):
    """Profiles one invocation; the runner calls ``meter_for`` once.

    Attributes:
        times: Where the wall time went, as of the last record.
    """

    _meter: Meter | None = None
    _labels: dict[str, str] = field(default_factory=dict)
    _bars: list[Bar] = field(default_factory=list)
    _run: Path | None = None
    times: TimeUse = field(default_factory=TimeUse)

    def meter_for(self, job: Job) -> Meter:
        """Create the meter by which the profiler measures the steps of a job."""
        self._labels = labels(job)
        meter: Meter = import_module("jobrun.runtime.codegen.step_meter").Meter()
        self._meter = meter
        return meter

    def listen(self, event: Event) -> None:
        """Record in the profiler how long a group or save took, from an event of the run."""
        now = time.perf_counter()
        match event:
            case RunStarted():
                self._run = Path(event.directory)
            case GroupEnded():
                self._note(f"{event.group} {event.epoch}", now, event.seconds)
            case CheckpointCommitted():
                self._note(f"save {event.epoch}", now, event.seconds)
            case UsageMeasured():
                self.times = event.times
            case _:
                pass

    def table(self) -> Table | None:
        """Return the table of times that the profiler measured; None if there are none."""
        if self._meter is None:
            return None
        return build_table(self._meter.times(), self._labels)

    def write(self) -> tuple[Path, Path] | None:
        """Write the profile as two files, a table and a trace, into the run's directory.

        Returns:
            The two files; None when nothing was measured.

        Raises:
            EnvironmentFaultError: Writing or deleting fails.
        """
        table = self.table()
        if table is None or self._meter is None or self._run is None:
            return None
        trace = build_trace(self._meter.times(), self._bars, table.steps, self._meter.started)
        folder = self._run / FOLDER
        with disk_faults("E354", f"write {folder}"):
            folder.mkdir(exist_ok=True)
            number = len(list(folder.glob("table-*.json"))) + 1
            files = folder / f"table-{number}.json", folder / f"trace-{number}.json"
            for path, document in zip(files, (as_document(table, self.times), trace), strict=True):
                write_json(path, document)
        return files

    def _note(self, name: str, now: float, seconds: float) -> None:
        self._bars.append(Bar(name, now - seconds, now))


def as_document(table: Table, times: TimeUse | None = None) -> dict[str, Any]:
    """Convert what the profiler measured to the JSON document that it writes to a file."""
    return {"schema": SCHEMA, **to_builtins(table), "times_s": to_builtins(times or TimeUse())}


def labels(job: Job) -> dict[str, str]:
    """Return the profiler's labels of steps and operators: ``matmul``, ``+=``, ``call m:f``."""
    labels_by_path: dict[str, str] = {}
    for group in job.groups:
        for steps in group.step_lists():
            for step in walk(steps):
                labels_by_path[step.path] = _step(step)
                if isinstance(step, Net):
                    labels_by_path |= {op.path: _operator(op) for op in step.ops}
    return labels_by_path


def _step(step: Step) -> str:
    match step:
        case CallPython():
            return f"call {step.target}"
        case RunProgram():
            return "run"
        case UseNet():
            return f"net {step.net}"
        case _:
            return type(step).__name__.lower()


def _operator(op: Op) -> str:
    match op:
        case Assign(targets=targets, value=value):
            label = _outermost(value)
            return f"[] = {label}" if isinstance(targets[0], ItemTarget) else label
        case Augment(target=ItemTarget(), operator=operator):
            return f"[] {operator}="
        case Augment(operator=operator):
            return f"{operator}="
        case Perform(value=value):
            return _outermost(value)
        case Delete():
            return "del"
        case _:
            assert_never(op)


def _outermost(value: Expr) -> str:
    """Return the profiler's label of an expression: the name of its outermost operation."""
    match value:
        case Call(function=function):
            return function
        case Draw(method=method):
            return f"rng.{method}"
        case Binary(operator=operator) | Unary(operator=operator):
            return operator
        case Compare():
            return "compare"
        case Name():
            return "copy"
        case Const():
            return "constant"
        case _:
            return type(value).__name__.lower()


class StepRow(Struct, frozen=True):
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


class OperatorRow(Struct, frozen=True):
    """The times of all steps that apply one operator."""

    label: str
    calls: int
    seconds: float


class InstanceRow(Struct, frozen=True):
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


class NodeRow(Struct, frozen=True):
    """The times of one node, with those of all its threads added."""

    node: str
    seconds: float


class Table(Struct, frozen=True):
    """All rows of a profile; each kind begins with what took longest."""

    steps: tuple[StepRow, ...]
    operators: tuple[OperatorRow, ...]
    instances: tuple[InstanceRow, ...]
    nodes: tuple[NodeRow, ...]


def build_table(times: Iterable[BlockTime], labels: Mapping[str, str]) -> Table:
    """Sum the measured times for a profile's table by step, function, copy of a task, and node.

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
    """Map the path of each step in a profile to the path of the step that contains it."""
    known = set(paths)
    outer_by_path: dict[str, str] = {}
    for path in known:
        ends_of_parents = [at for at in range(len(path) - 1, 0, -1) if path[at] in ".["]
        outer_by_path[path] = next((path[:at] for at in ends_of_parents if path[:at] in known), "")
    return outer_by_path


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
    outer_paths = parents(rows)
    # Inner steps first.
    for path in sorted(rows, key=len, reverse=True):
        row = rows[path]
        inner_rows = [rows[inner] for inner, outer in outer_paths.items() if outer == path]
        rows[path] = _with_total(
            row, inner_rows, [blocks[inner_row.path] == blocks[path] for inner_row in inner_rows]
        )
    return list(rows.values())


def _with_total(row: StepRow, inner_rows: list[StepRow], same_block: list[bool]) -> StepRow:
    """Compute a profiled step's own and total time, from the profile's rows of steps inside it."""
    pairs = tuple(zip(inner_rows, same_block, strict=True))
    called_s = sum(inner.total_s for inner, is_same in pairs if not is_same)
    own_s = sum(inner.total_s for inner, is_same in pairs if is_same)
    # Branches of a parallel run side by side: together they may be longer than it.
    total_s = row.seconds + own_s
    return replace(row, seconds=max(0.0, row.seconds - called_s), total_s=total_s)


def _operator_rows(steps: Iterable[StepRow]) -> list[OperatorRow]:
    rows: dict[str, OperatorRow] = {}
    for step in steps:
        row = rows.get(step.label) or OperatorRow(step.label, 0, 0.0)
        rows[step.label] = OperatorRow(
            step.label, row.calls + step.calls, row.seconds + step.seconds
        )
    return list(rows.values())


def _instance_rows(times: Iterable[BlockTime]) -> list[InstanceRow]:
    rows: dict[tuple[str, str, str, int], InstanceRow] = {}
    for block in times:
        row = rows.get(block.owner) or InstanceRow(*block.owner, 0, 0.0, 0.0, 0.0)
        if "/setup" in block.path:
            row = replace(row, setup_s=row.setup_s + block.seconds)
        elif "/report" in block.path:
            row = replace(row, report_s=row.report_s + block.seconds)
        elif block.path in (f"{block.owner.group}/{block.owner.task}", block.owner.task):
            row = replace(row, runs=row.runs + block.runs, seconds=row.seconds + block.seconds)
        rows[block.owner] = row
    return list(rows.values())


def _node_rows(instances: Iterable[InstanceRow]) -> list[NodeRow]:
    seconds_by_node: dict[str, float] = {}
    for row in instances:
        seconds_by_node[row.node] = (
            seconds_by_node.get(row.node, 0.0) + row.seconds + row.setup_s + row.report_s
        )
    return [NodeRow(node, seconds) for node, seconds in seconds_by_node.items()]


class Bar(Struct, frozen=True):
    """A bar of the trace for a part of the run itself: a group, a save."""

    name: str
    start: float
    end: float


def build_trace(
    times: Iterable[BlockTime], bars: Iterable[Bar], steps: Sequence[StepRow], started: float
) -> dict[str, Any]:
    """Build the Chrome trace document of a profile.

    Args:
        times: Of all blocks.
        bars: Of the run itself.
        steps: All steps, in any order.
        started: The time that is shown as 0.
    """
    times = tuple(times)
    lanes = _lanes(times)
    threads = _threads(times)
    events: list[dict[str, Any]] = [
        _named("process_name", _RUN, 0, "run"),
        _named("thread_name", _RUN, 0, "groups and saves"),
        *(_named("process_name", lane, 0, f"node {node}") for node, lane in lanes.items()),
        _named("process_name", _SUM, 0, "all runs of each step added up"),
        *(_placed(lane, index) for index, lane in enumerate((_RUN, *lanes.values(), _SUM))),
    ]
    events += [
        _named("thread_name", lanes[node], tid, f"thread {tid}")
        for (node, _), tid in threads.items()
    ]
    events += [_bar(bar.name, "run", bar.start - started, bar.end - bar.start, 0) for bar in bars]
    for block in times:
        node, instance = block.owner.node, block.owner.instance
        name = block.path or f"{block.owner.group}/{block.owner.task}"
        for span in block.spans:
            start, seconds = span.start - started, span.end - span.start
            event = _bar(name, "block", start, seconds, threads[node, span.thread], lanes[node])
            where = {"node": node, "instance": instance, "epoch": span.epoch}
            events.append(event | {"args": where})
    return {"traceEvents": [*events, *_flames(steps)], "displayTimeUnit": "ms"}


def _lanes(times: Iterable[BlockTime]) -> dict[str, int]:
    """Map each profiled node to its process id (``pid``) in the Chrome trace, ordered by name."""
    nodes = {block.owner.node for block in times if block.spans}
    # trainer_2 before trainer_10.
    ordered = sorted(nodes, key=lambda node: (len(node), node))
    return {node: number for number, node in enumerate(ordered, _FIRST_NODE)}


def _threads(times: Iterable[BlockTime]) -> dict[tuple[str, int], int]:
    """Map each thread of a node to its number in the Chrome trace, in the order of first use."""
    spans = sorted((span, block.owner.node) for block in times for span in block.spans)
    numbers: dict[tuple[str, int], int] = {}
    counts: Counter[str] = Counter()
    for span, node in spans:
        if (node, span.thread) not in numbers:
            counts[node] += 1
            numbers[node, span.thread] = counts[node]
    return numbers


def _flames(steps: Sequence[StepRow]) -> list[dict[str, Any]]:
    """Convert profiled steps to nested trace events, each inside the step that contains it."""
    outer_paths = parents(row.path for row in steps)
    rows_by_outer: dict[str, list[StepRow]] = {}
    for row in steps:
        rows_by_outer.setdefault(outer_paths[row.path], []).append(row)
    events: list[dict[str, Any]] = []

    def add_events(rows: list[StepRow], start: float) -> None:
        for row in sorted(rows, key=lambda step: (step.line, step.path)):
            inner_rows = rows_by_outer.get(row.path, [])
            wide = max(
                row.total_s, row.seconds + sum(inner_row.total_s for inner_row in inner_rows)
            )
            event = _bar(f"{row.path}  {row.label}", "step", start, wide, 0, _SUM)
            events.append(event | {"args": {"calls": row.calls, "line": row.line}})
            add_events(inner_rows, start)
            start += wide

    add_events(rows_by_outer.get("", []), 0.0)
    return events


def _bar(
    name: str, category: str, start: float, seconds: float, thread: int, process: int = _RUN
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": round(start * _MICROSECONDS, 3),
        "dur": round(seconds * _MICROSECONDS, 3),
    }


def _placed(process: int, index: int) -> dict[str, Any]:
    """Build the event of the Chrome trace by which a viewer orders the nodes' rows."""
    return {
        "ph": "M",
        "name": "process_sort_index",
        "pid": process,
        "tid": 0,
        "args": {"sort_index": index},
    }


def _named(event: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": event, "pid": process, "tid": thread, "args": {"name": name}}
