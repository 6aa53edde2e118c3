"""Metrics of runs as event files of TensorBoard. Needs the extra ``jobrun[tensorboard]``.

Of the format only its framing and messages are used, so that a file appears whole, and the
export of a run that is made again replaces the one before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runner.durable import disk_faults
from jobrun.tools.report.curves import Charts, charts_of
from jobrun.tools.report.data import RunReport
from jobrun.tools.report.html import plain

# What TensorBoard looks for; the rest of the name is free.
_PREFIX = "events.out.tfevents"


def export(reports: Iterable[RunReport], folder: Path) -> tuple[Path, ...]:
    """Write a file for each run, in a directory of the run's name.

    Args:
        reports: The runs.
        folder: Where to; made where it is not there.

    Returns:
        The files.

    Raises:
        EnvironmentFaultError: E432, the extra is not installed; or the disk says no.
    """
    kinds = _kinds()
    return tuple(_export(report, folder, *kinds) for report in reports)


def _kinds() -> tuple[Any, Any, Any]:
    """How records, events and summaries are made."""
    try:
        return (
            import_module("tensorboardX.record_writer").RecordWriter,
            import_module("tensorboardX.proto.event_pb2").Event,
            import_module("tensorboardX.proto.summary_pb2").Summary,
        )
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E432",
            "writing files for TensorBoard needs the package 'tensorboardX'",
            "install it: pip install 'jobrun[tensorboard]'",
        ) from error


def _export(report: RunReport, folder: Path, writer: Any, event: Any, summary: Any) -> Path:
    place = folder / report.run.record.job / report.run.path.name
    began = datetime.fromisoformat(report.run.record.created).timestamp()
    path = place / f"{_PREFIX}.{int(began)}.jobrun"
    beside = path.with_name(f".{path.name}.part")
    with disk_faults(f"write {path}"):
        place.mkdir(parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        records = writer(str(beside))
        try:
            first = event(wall_time=began, file_version="brain.Event:2")
            records.write(first.SerializeToString())
            for epoch, at, values in _by_epoch(report, began):
                scalars = [summary.Value(tag=tag, simple_value=y) for tag, y in values]
                one = event(wall_time=at, step=epoch, summary=summary(value=scalars))
                records.write(one.SerializeToString())
        finally:
            records.close()
        beside.replace(path)
    return path


def _by_epoch(report: RunReport, began: float) -> Iterator[tuple[int, float, list[Any]]]:
    """Epoch, when it ended, and the name and value of each metric and time."""
    at = {one.epoch: one.at for one in report.history.epochs}
    found: dict[int, list[tuple[str, float]]] = {}
    for name, points in _points(charts_of([report])):
        for epoch, value in points:
            found.setdefault(int(epoch), []).append((plain(name), _single(value)))
    for epoch, values in sorted(found.items()):
        yield epoch, at.get(epoch, began), values


def _points(charts: Charts) -> Iterator[tuple[str, Any]]:
    for chart in charts.charts:
        prefix = "" if chart.own else "time/"
        for curve in chart.curves:
            yield prefix + chart.name, curve.points


def _single(value: float) -> float:
    """The format has single precision; what is larger is infinite there."""
    largest = 3.4028234663852886e38
    return math.copysign(math.inf, value) if abs(value) > largest else value
