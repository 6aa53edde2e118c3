"""Write the metrics of runs as TensorBoard event files (extra ``jobrun[tensorboard]``).

Of the format only its framing and messages are used, so that a file appears whole, and the
export of a run that is made again replaces the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from jobrun.core.files.disk import disk_faults, replace_file
from jobrun.runner.listeners.tensorboard_listener import (
    FILE_PREFIX,
    EventFormat,
    load_event_format,
    to_single,
)
from jobrun.tools.report.charts import Charts, build_charts
from jobrun.tools.report.html import plain
from jobrun.tools.report.report_data import RunReport


def export(reports: Iterable[RunReport], folder: Path) -> tuple[Path, ...]:
    """Write a TensorBoard event file for each run, in a directory of the run's name.

    Args:
        reports: The runs.
        folder: Where to; made where it is not there.

    Returns:
        The files.

    Raises:
        EnvironmentFaultError: E432, the extra is not installed; or writing fails.
    """
    event_format = load_event_format()
    return tuple(_export(report, folder, event_format) for report in reports)


def _export(report: RunReport, folder: Path, event_format: EventFormat) -> Path:
    run_folder = folder / report.run.record.job / report.run.path.name
    began = datetime.fromisoformat(report.run.record.created).timestamp()
    path = run_folder / f"{FILE_PREFIX}.{int(began)}.jobrun"

    def write(file: IO[bytes]) -> None:
        # RecordWriter opens a file by its path; this is the path of an open one.
        records = event_format.writer(f"/dev/fd/{file.fileno()}")
        try:
            first = event_format.event(wall_time=began, file_version="brain.Event:2")
            records.write(first.SerializeToString())
            for epoch, at, values in _by_epoch(report, began):
                scalars = [event_format.summary.Value(tag=tag, simple_value=y) for tag, y in values]
                summary = event_format.summary(value=scalars)
                event = event_format.event(wall_time=at, step=epoch, summary=summary)
                records.write(event.SerializeToString())
        finally:
            records.close()

    with disk_faults("E354", f"write {path}"):
        run_folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, write)
    return path


def _by_epoch(report: RunReport, began: float) -> Iterator[tuple[int, float, list[Any]]]:
    """Yield each epoch for TensorBoard: its end time, and its metrics and times by name."""
    at = {ended.epoch: ended.at for ended in report.history.epochs}
    scalars: dict[int, list[tuple[str, float]]] = {}
    for name, points in _points(build_charts([report])):
        for epoch, value in points:
            scalars.setdefault(int(epoch), []).append((plain(name), to_single(value)))
    for epoch, values in sorted(scalars.items()):
        yield epoch, at.get(epoch, began), values


def _points(charts: Charts) -> Iterator[tuple[str, Any]]:
    for chart in charts.charts:
        prefix = "" if chart.is_metric else "time/"
        for curve in chart.curves:
            yield prefix + chart.name, curve.points
