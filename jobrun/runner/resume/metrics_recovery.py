"""Restore on resume the metrics that ``metrics.jsonl`` has lost, from the checkpoints.

A power cut may lose what was not synced, and anything may happen to a file beside the checkpoints.
The journal says what lines there were; the manifests have the values of the job's ``metrics``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.core.errors import CheckpointError
from jobrun.core.events import Listener, Measured, Noted
from jobrun.core.files.disk import disk_faults, open_append, replace_file
from jobrun.core.files.json_files import read_lines
from jobrun.runner.rundir.journal import JournalContents, MetricsSpan
from jobrun.runner.rundir.logs import (
    add_loss,
    epoch_of_line,
    event_json,
    read_events,
    unless_irregular,
)
from jobrun.runner.rundir.metrics_check import MetricsGap, find_metrics_gaps, sum_lines
from jobrun.runner.rundir.run_directories import METRICS_NAME
from jobrun.runner.saved_progress import Scalar, from_json

_Key = tuple[int, str]


def restore_metrics(
    run: Path, store: CheckpointStore, journal: JournalContents, epoch: int, listen: Listener
) -> MetricsSpan | None:
    """Write lost metrics again, as far as checkpoints have them; warn of every gap, once.

    Args:
        run: The run's directory.
        store: Its epochs.
        journal: What it says.
        epoch: The one that the run continues from.
        listen: Receives a warning.

    Returns:
        What the file holds now, for the journal; None where nothing is lost.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    gaps: tuple[MetricsGap, ...] = ()
    with disk_faults("E354", f"read {run / METRICS_NAME}"), unless_irregular():
        spans = tuple(span for span in journal.metrics if span.last <= epoch)
        gaps = find_metrics_gaps(run, spans)
    if not gaps:
        return None
    lines = _write_again(run, _find_lost_values(run, store, gaps))
    lost = max(0, sum(gap.missing for gap in gaps) - lines)
    again = f"{lines} {'value was' if lines == 1 else 'values were'} written again from checkpoints"
    listen(Noted(f"{'; '.join(map(str, gaps))}; {again}, {lost} are lost", "warning"))
    if lost:
        add_loss(run, METRICS_NAME, lost, f"they were there when epoch {gaps[-1].last} was saved")
    with disk_faults("E354", f"read {run / METRICS_NAME}"):
        return MetricsSpan(-1, epoch, *sum_lines(run, epoch))


def _find_lost_values(
    run: Path, store: CheckpointStore, gaps: tuple[MetricsGap, ...]
) -> dict[_Key, tuple[Scalar, int]]:
    """Return by epoch and name the values that checkpoints have and the file has not."""
    present: dict[_Key, Scalar] = {}
    with disk_faults("E354", f"read {run / METRICS_NAME}"):
        for recorded in read_events(_lines(run), (Measured,)):
            if not recorded.event.task:
                present[recorded.event.epoch, recorded.event.name] = recorded.event.value
    lost: dict[_Key, tuple[Scalar, int]] = {}
    for epoch in store.epochs():
        if not any(gap.first <= epoch <= gap.last for gap in gaps):
            continue
        try:
            manifest = store.manifest(epoch)
            values = from_json(manifest.runner).metrics
        except CheckpointError:
            # A damaged epoch is skipped: the run does not continue from it.
            continue
        for name, value in values:
            if (epoch, name) not in present or repr(present[epoch, name]) != repr(value):
                lost[epoch, name] = value, manifest.generation
    return lost


def _write_again(run: Path, values: dict[_Key, tuple[Scalar, int]]) -> int:
    """Write values into ``metrics.jsonl`` at their places; move what they replace aside."""
    path, aside = run / METRICS_NAME, run / "superseded" / METRICS_NAME
    if not values:
        return 0
    lines: list[tuple[float, bytes]] = [
        (epoch, event_json(Measured(name, value, epoch), generation).encode() + b"\n")
        for (epoch, name), (value, generation) in values.items()
    ]
    with disk_faults("E354", f"write {path}"):
        replaced: list[bytes] = []
        for line in _lines(run):
            if _is_replaced(line, values):
                replaced.append(line)
            else:
                lines.append((epoch_of_line(line), line))
        if replaced:
            aside.parent.mkdir(exist_ok=True)
            with os.fdopen(open_append(aside), "ab") as over:
                over.writelines(replaced)

        def write(file: IO[bytes]) -> None:
            file.writelines(line for _, line in sorted(lines, key=lambda entry: entry[0]))

        replace_file(str(path), write)
    return len(values)


def _is_replaced(line: bytes, values: dict[_Key, tuple[Scalar, int]]) -> bool:
    recorded = next(read_events([line], (Measured,)), None)
    if recorded is None or recorded.event.task:
        return False
    return (recorded.event.epoch, recorded.event.name) in values


def _lines(run: Path) -> Iterator[bytes]:
    try:
        yield from read_lines(run / METRICS_NAME)
    except FileNotFoundError:
        return
