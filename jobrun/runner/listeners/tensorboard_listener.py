"""Write the metrics of a live run as a TensorBoard event file (extra ``jobrun[tensorboard]``).

The file is in the run's directory: ``tensorboard --logdir runs`` shows all runs. Each start writes
a new file with all that was measured before, and empties the older one. It begins with a mark of a
restart, at which a TensorBoard that has read the older file forgets what it has of the run.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.files.disk import sync_directory
from jobrun.runner.listeners.listener import EpochMetrics, ListenedRun, Outcome, to_float

# Prefix that TensorBoard looks for; it reads the files of a folder in the order of their names.
FILE_PREFIX = "events.out.tfevents"
FOLDER = "tensorboard"
_SINGLE_LARGEST = 3.4028234663852886e38


class EventFormat(Struct, frozen=True):
    """The classes of tensorboardX that write records, events and summaries."""

    writer: Any
    event: Any
    summary: Any
    session_log: Any


def load_event_format() -> EventFormat:
    """Import the classes of tensorboardX that write event files, or raise E432 without it.

    Raises:
        EnvironmentFaultError: E432, the package is not installed.
    """
    try:
        events = import_module("tensorboardX.proto.event_pb2")
        return EventFormat(
            import_module("tensorboardX.record_writer").RecordWriter,
            events.Event,
            import_module("tensorboardX.proto.summary_pb2").Summary,
            events.SessionLog,
        )
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E432",
            "writing files for TensorBoard needs the package 'tensorboardX'",
            "install it: pip install 'jobrun[tensorboard]'",
        ) from error


def to_single(value: float) -> float:
    """Convert a metric to float32 for the TensorBoard listener: infinity if too large."""
    if abs(value) > _SINGLE_LARGEST:
        return float("inf") if value > 0 else float("-inf")
    return value


class TensorBoardListener:
    """Writes a run's metrics into an event file, which TensorBoard reads while it grows."""

    def __init__(self) -> None:
        self._format = load_event_format()
        self._writer: Any = None

    def begin(self, run: ListenedRun, history: Sequence[EpochMetrics]) -> None:
        """Write past metrics into a new TensorBoard event file; empty all older event files."""
        self._close()
        folder = run.directory / FOLDER
        folder.mkdir(exist_ok=True)
        older = sorted(folder.glob(f"{FILE_PREFIX}.*"))
        path = folder / f"{FILE_PREFIX}.{_next_number([file.name for file in older])}.jobrun"
        staged = folder / ".next"
        staged.unlink(missing_ok=True)
        event_format = self._format
        self._writer = event_format.writer(str(staged))
        now = time.time()
        self._write(event_format.event(wall_time=now, file_version="brain.Event:2"))
        start = event_format.session_log(status=event_format.session_log.START)
        self._write(event_format.event(wall_time=now, step=0, session_log=start))
        for metrics in history:
            self._add(metrics)
        self._writer.flush()
        staged.rename(path)
        sync_directory(folder)
        for file in older:
            # Not removed: a TensorBoard that has it open would never look for the next one.
            os.truncate(file, 0)

    def record(self, metrics: EpochMetrics) -> None:
        """Append an epoch's metrics to the TensorBoard listener's event file during the run."""
        self._add(metrics)
        self._writer.flush()

    def end(self, outcome: Outcome) -> None:
        """Close the TensorBoard listener's event file."""
        del outcome
        self._close()

    def _add(self, metrics: EpochMetrics) -> None:
        numbers = ((name, to_float(value)) for name, value in metrics.values.items())
        scalars = [
            self._format.summary.Value(tag=name, simple_value=to_single(value))
            for name, value in numbers
            if value is not None
        ]
        summary = self._format.summary(value=scalars)
        at = metrics.at.timestamp()
        self._write(self._format.event(wall_time=at, step=metrics.epoch, summary=summary))

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _next_number(names: Sequence[str]) -> str:
    """Return the number of the TensorBoard listener's next event file, above older ones."""
    known = []
    for name in names:
        with contextlib.suppress(ValueError):
            known.append(int(name.removeprefix(f"{FILE_PREFIX}.").split(".")[0]))
    return f"{max([int(time.time()), *(number + 1 for number in known)]):010d}"
