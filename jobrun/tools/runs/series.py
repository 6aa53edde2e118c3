"""The metrics of a run as a table: one row per epoch, one column per metric."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jobrun.core.errors import UsageError
from jobrun.core.names import did_you_mean
from jobrun.runner.rundir import METRICS_NAME

Number = float | int | bool | str


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a run measured.

    Attributes:
        names: The metrics in the order of their first value; those of a step are called
            ``task.name``, on one of several nodes or instances ``node/task.0.name``.
        rows: Per epoch, ascending, a value for each name, None where there is none. Of
            several values in one epoch the last.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[int, tuple[Number | None, ...]], ...]

    def column(self, name: str) -> list[tuple[int, float]]:
        """Epoch and value of one metric where it is a finite number."""
        at = self.names.index(name)
        found = ((epoch, values[at]) for epoch, values in self.rows)
        return [
            (epoch, float(value))
            for epoch, value in found
            if isinstance(value, int | float) and math.isfinite(value)
        ]


def read_metrics(run: Path, last_bytes: int = 0) -> Metrics:
    """The metrics of a run. A torn line, at the end or the beginning, is left out.

    Args:
        run: Its directory.
        last_bytes: Of the file, only the lines in so many bytes at its end; 0 for all of it.
    """
    try:
        lines = _lines(run / METRICS_NAME, last_bytes)
    except FileNotFoundError:
        lines = []
    names: dict[str, int] = {}
    rows: dict[int, dict[str, Number]] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            name, epoch, value = _name(entry), int(entry["epoch"]), entry["value"]
        except (KeyError, TypeError, ValueError):
            continue
        names.setdefault(name, len(names))
        rows.setdefault(epoch, {})[name] = _number(value)
    return Metrics(
        tuple(names),
        tuple(
            (epoch, tuple(values.get(name) for name in names))
            for epoch, values in sorted(rows.items())
        ),
    )


def _lines(path: Path, last_bytes: int) -> list[bytes]:
    with path.open("rb") as file:
        if last_bytes:
            file.seek(max(0, os.fstat(file.fileno()).st_size - last_bytes))
        return file.read().splitlines()


def selected(metrics: Metrics, names: Sequence[str]) -> Metrics:
    """Only some metrics; all where none is named.

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
    )


def as_csv(metrics: Metrics) -> str:
    """One line per epoch, ``epoch`` first; numbers with all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["epoch", *metrics.names])
    for epoch, values in metrics.rows:
        writer.writerow([epoch, *("" if value is None else value for value in values)])
    return text.getvalue()


def _name(entry: dict[str, object]) -> str:
    name = str(entry["name"])
    task = entry.get("task")
    if not task:
        return name
    instance = f".{entry['instance']}" if entry.get("instance") else ""
    return f"{task}{instance}.{name}"


def _number(value: Number) -> Number:
    # What JSON has no number for was written as text.
    if value in ("nan", "inf", "-inf"):
        return float(value)
    return value
