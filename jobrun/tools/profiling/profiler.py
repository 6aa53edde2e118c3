"""Profiles one invocation: hands out the meter, listens, and writes the files at the end.

Loads numpy only when the meter is asked for: before, the number of BLAS threads must be set.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobrun.core.events import CheckpointCommitted, Event, GroupEnded, RunStarted
from jobrun.graph.types import Job
from jobrun.runner.durable import disk_faults, write_whole
from jobrun.tools.profiling.labels import labels
from jobrun.tools.profiling.table import Table, table_of
from jobrun.tools.profiling.trace import Bar, trace_of

if TYPE_CHECKING:
    from jobrun.runtime.meter import Meter

SCHEMA = "jobrun.profile/1"
FOLDER = "profile"


@dataclass(slots=True)
class Profiler:
    """See the module. ``meter_for`` is called once, by the runner."""

    _meter: Meter | None = None
    _labels: dict[str, str] = field(default_factory=dict)
    _bars: list[Bar] = field(default_factory=list)
    _run: Path | None = None

    def meter_for(self, job: Job) -> Meter:
        """What measures the steps of the job."""
        self._labels = labels(job)
        meter: Meter = import_module("jobrun.runtime.meter").Meter()
        self._meter = meter
        return meter

    def listen(self, event: Event) -> None:
        """Note what the run itself does."""
        now = time.perf_counter()
        match event:
            case RunStarted():
                self._run = Path(event.directory)
            case GroupEnded():
                self._note(f"{event.group} {event.epoch}", now, event.seconds)
            case CheckpointCommitted():
                self._note(f"save {event.epoch}", now, event.seconds)
            case _:
                pass

    def table(self) -> Table | None:
        """The rows; None when nothing was measured."""
        if self._meter is None:
            return None
        return table_of(self._meter.times(), self._labels)

    def write(self) -> tuple[Path, Path] | None:
        """Write the table and the trace into the run's directory, beside earlier ones.

        Returns:
            The two files; None when nothing was measured.

        Raises:
            EnvironmentFaultError: The disk says no.
        """
        table = self.table()
        if table is None or self._meter is None or self._run is None:
            return None
        trace = trace_of(self._meter.times(), self._bars, table.steps, self._meter.started)
        folder = self._run / FOLDER
        with disk_faults(f"write {folder}"):
            folder.mkdir(exist_ok=True)
            number = len(list(folder.glob("table-*.json"))) + 1
            files = folder / f"table-{number}.json", folder / f"trace-{number}.json"
            for path, document in zip(files, (as_document(table), trace), strict=True):
                write_whole(path, json.dumps(document).encode() + b"\n")
        return files

    def _note(self, name: str, now: float, seconds: float) -> None:
        self._bars.append(Bar(name, now - seconds, now))


def as_document(table: Table) -> dict[str, Any]:
    """The table for other programs."""
    return {"schema": SCHEMA, **asdict(table)}
