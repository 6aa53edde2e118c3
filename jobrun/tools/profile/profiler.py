"""Profile one invocation of a run: measure, listen to events, and write the files.

Loads numpy only when the meter is asked for: before, the number of BLAS threads must be set.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobrun.core.events import CheckpointCommitted, Event, GroupEnded, RunStarted, UsageMeasured
from jobrun.core.files.disk import disk_faults, write_file
from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.resource_usage import TimeUse
from jobrun.graph.types import Job
from jobrun.tools.profile.table import Table, build_table
from jobrun.tools.profile.trace import Bar, build_trace

if TYPE_CHECKING:
    from jobrun.runtime.codegen.step_meter import Meter
from collections.abc import Iterator
from typing import assert_never

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
from jobrun.graph.types import SetupNets, TaskGroup

SCHEMA = "jobrun.profile/1"
FOLDER = "profile"


@dataclass(slots=True)
class Profiler:
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
        """Note the times of groups and saves, from the run's events, for the profile."""
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
        """Return the profile's table of what was measured; None if nothing was."""
        if self._meter is None:
            return None
        return build_table(self._meter.times(), self._labels)

    def write(self) -> tuple[Path, Path] | None:
        """Write the profiler's files, a table and a trace, into the run's directory.

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
                write_file(path, json.dumps(document).encode() + b"\n")
        return files

    def _note(self, name: str, now: float, seconds: float) -> None:
        self._bars.append(Bar(name, now - seconds, now))


def as_document(table: Table, times: TimeUse | None = None) -> dict[str, Any]:
    """Convert what the profiler measured to the JSON document that it writes to a file."""
    return {"schema": SCHEMA, **asdict(table), "times_s": asdict(times or TimeUse())}


def labels(job: Job) -> dict[str, str]:
    """Return the profiler's labels of steps and operators: ``matmul``, ``+=``, ``call m:f``."""
    found: dict[str, str] = {}
    for group in job.groups:
        for steps in _blocks(group):
            for step in walk(steps):
                found[step.path] = _step(step)
                if isinstance(step, Net):
                    found |= {op.path: _operator(op) for op in step.ops}
    return found


def _blocks(group: TaskGroup) -> Iterator[tuple[Step, ...]]:
    setups: list[SetupNets] = [one.nets for one in group.setup]
    reports = [one.report for one in group.reports]
    for task in group.tasks:
        yield task.steps
        setups += [*task.setup, *task.instance_setup]
        reports += task.reports
    for nets in setups:
        yield nets.init
        yield nets.exit
    for report in reports:
        yield report.steps


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
