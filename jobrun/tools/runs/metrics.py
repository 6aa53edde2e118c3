"""Read the metrics of a run from its files: as a table by epoch, or only the last values."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from jobrun.core.errors import JobrunError, UsageError
from jobrun.core.events import EpochEnded, Measured
from jobrun.core.files.json_files import read_lines, read_tail
from jobrun.core.text.big_integers import integer_hex, is_long
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.terminal_text import csv_text
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.logs import read_events, read_values, unreadable_file_error
from jobrun.runner.rundir.metrics_check import MetricsGap, find_metrics_gaps, has_lost_metrics
from jobrun.runner.rundir.run_directories import EVENTS_NAME, METRICS_NAME, Run

Number = float | int | bool | str
_LARGEST = sys.float_info.max
# The end of a long file is enough, and reading all of it would be slow.
_TAIL_BYTES = 64 << 10
_LONG_BYTES = 16 << 20


class Metrics(Struct, frozen=True):
    """The metrics of a run, by epoch.

    Attributes:
        names: The metrics in the order of their first value; those of a step are called
            ``task.name``, on one of several nodes or instances ``node/task.0.name``.
        rows: Per epoch, ascending, a value for each name, None where there is none. Of
            several values in one epoch the last.
        damaged: How many lines of the file could not be read; a torn one at its end counts.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[int, tuple[Number | None, ...]], ...]
    damaged: int = 0

    def column(self, name: str) -> list[tuple[int, float]]:
        """Return one column of a run's table of metrics: finite values, each with its epoch."""
        at = self.names.index(name)
        pairs = ((epoch, values[at]) for epoch, values in self.rows)
        return [
            (epoch, float(value))
            for epoch, value in pairs
            # Larger integers have no float.
            if isinstance(value, int | float) and abs(value) <= _LARGEST
        ]


def read_metrics(run: Path, last_bytes: int = 0) -> Metrics:
    """Read a run's metrics as a table with a row per epoch; skip and count unreadable lines.

    Args:
        run: Its directory.
        last_bytes: Of the file, only the lines in so many bytes at its end; 0 for all of it.

    Raises:
        CheckpointError: E470, the file is no regular file, or cannot be read.
    """
    path = run / METRICS_NAME
    names: dict[str, int] = {}
    rows: dict[int, dict[str, Number]] = {}
    damaged: list[None] = []
    try:
        lines = read_tail(path, last_bytes) if last_bytes else read_lines(path)
        for name, epoch, value in read_values(lines, lambda: damaged.append(None)):
            names.setdefault(name, len(names))
            rows.setdefault(epoch, {})[name] = value
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unreadable_file_error(path, error) from error
    return Metrics(
        tuple(names),
        tuple(
            (epoch, tuple(values.get(name) for name in names))
            for epoch, values in sorted(rows.items())
        ),
        len(damaged),
    )


def find_gaps(run: Run) -> tuple[MetricsGap, ...]:
    """Find the epochs of which a run's file of metrics has lost lines since they were saved.

    A long file is compared line by line only if it has too few lines.

    Raises:
        OSError: The file is no regular file, or cannot be read.
    """
    try:
        spans = read_journal(run.path, run.record.run_id).metrics
    except JobrunError:
        # It is damaged, which other commands say.
        return ()
    with contextlib.suppress(FileNotFoundError):
        is_long = (run.path / METRICS_NAME).stat().st_size > _LONG_BYTES
        if is_long and not has_lost_metrics(run.path, spans):
            return ()
    return find_metrics_gaps(run.path, spans)


def select_metrics(metrics: Metrics, names: Sequence[str]) -> Metrics:
    """Select columns of a run's metrics by name; return all of them if no name is given.

    Raises:
        UsageError: E424, there is no metric of that name.
    """
    if not names:
        return metrics
    for name in names:
        if name not in metrics.names:
            mend = did_you_mean(name, metrics.names)
            if not metrics.names:
                mend = "it has measured nothing; the spec's 'metrics' say what to measure"
            raise UsageError.of("E424", f"the run has no metric '{name}'", mend)
    places = [metrics.names.index(name) for name in names]
    return Metrics(
        tuple(names),
        tuple((epoch, tuple(values[at] for at in places)) for epoch, values in metrics.rows),
        metrics.damaged,
    )


def render_csv(metrics: Metrics) -> str:
    """Render a run's metrics as CSV text, a line per epoch, with all digits of the values."""
    rows = [[epoch, *map(_cell, values)] for epoch, values in metrics.rows]
    return csv_text([["epoch", *metrics.names], *rows])


def read_last_metrics(run: Path) -> dict[str, Number]:
    """Read the last value of each metric of a run from its files."""
    try:
        return read_last_values(run)[0]
    except OSError:
        return {}


def read_last_values(run: Path) -> tuple[dict[str, Number], int]:
    """Read from a file's end the last value of each metric that the run's job declares.

    Returns:
        The values by name, and how many lines there could not be read. A torn last line does not
        count: it is being written, or its writer was killed.

    Raises:
        OSError: The file exists and is no regular file, or cannot be read.
    """
    path = run / METRICS_NAME
    try:
        lines = read_tail(path, _TAIL_BYTES, whole=True)
    except FileNotFoundError:
        return {}, 0
    damaged: list[None] = []
    measured = (
        record.event for record in read_events(lines, (Measured,), lambda: damaged.append(None))
    )
    return {event.name: event.value for event in measured if not event.task}, len(damaged)


def read_last_epoch(run: Path) -> tuple[int, Mapping[str, Number]]:
    """Read only the last finished epoch and its metrics from a run's files; -1 for none."""
    for record in read_events(reversed(_tail(run / EVENTS_NAME)), (EpochEnded,)):
        return record.event.epoch, dict(record.event.metrics)
    return -1, {}


def _cell(value: Number | None) -> Number:
    if value is None:
        return ""
    return integer_hex(value) if type(value) is int and is_long(value) else value


def _tail(path: Path) -> list[bytes]:
    try:
        return read_tail(path, _TAIL_BYTES)
    except OSError:
        return []
