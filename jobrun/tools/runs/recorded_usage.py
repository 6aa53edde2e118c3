"""Read what a run has used, from ``usage.jsonl``: time over all starts, resources by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from jobrun.core.events import UsageMeasured
from jobrun.core.files.json_files import read_lines
from jobrun.core.resource_usage import ProcessUse
from jobrun.core.time_use import TimeUse
from jobrun.runner.rundir.logs import read_events, read_last_usage, unreadable_file_error
from jobrun.runner.rundir.run_directories import USAGE_NAME
from jobrun.tools.runs.metrics import Metrics, Number


class RunUsage(Struct, frozen=True):
    """What a run has used over all of its starts, up to its last record.

    Attributes:
        times: Where the wall time went, all starts together.
        starts: How many there were.
        processes: What each process of the last start has used.
        epoch: That of the record.
        within: The record was made within the next epoch, since memory had grown.
        advice: What to write where time is lost; empty for nothing.
    """

    times: TimeUse = TimeUse()
    starts: int = 0
    processes: tuple[ProcessUse, ...] = field(default_factory=tuple)
    epoch: int = -1
    within: bool = False
    advice: str = ""


def sum_usage(last: UsageMeasured | None) -> RunUsage:
    """Sum the time that all starts of a run used, from its last record in ``usage.jsonl``."""
    if last is None:
        return RunUsage()
    return RunUsage(
        last.before.add(last.times),
        last.starts,
        last.processes,
        last.epoch,
        last.within,
        last.advice,
    )


def usage_values(usage: RunUsage) -> dict[str, Any]:
    """Convert the recorded usage of a run to values for JSON: times in seconds, sizes in bytes."""
    return {
        "starts": usage.starts,
        "times_s": {**to_builtins(usage.times), "total": usage.times.total_s},
        "processes": [to_builtins(process) for process in usage.processes],
        "advice": usage.advice,
    }


def read_total_usage(run: Path) -> RunUsage:
    """Read a run's recorded usage: wall time over all its starts, resources of its processes."""
    return sum_usage(read_last_usage(run))


def read_resources(run: Path) -> Metrics:
    """Read a run's recorded use of time, memory and disk as a table with a row per epoch.

    Columns are named as the fields of ``ProcessUse``, with ``NODE.`` before them for the process of
    a node; ``seconds``, ``cpu_s``, ``read_bytes`` and ``written_bytes`` are those since the row
    before, of the same start. Columns without any value but 0 are left out. Where an epoch ran more
    than once, its last row counts.

    Raises:
        CheckpointError: E470, the file is no regular file, or cannot be read.
    """
    path = run / USAGE_NAME
    damaged: list[None] = []
    rows: dict[int, tuple[float, dict[str, Number | None]]] = {}
    before: UsageMeasured | None = None
    try:
        for line in read_events(read_lines(path), (UsageMeasured,), lambda: damaged.append(None)):
            usage = line.event
            earlier = before if before and before.started == usage.started else None
            # Within an epoch there may be several records, whose differences add up.
            epoch = usage.epoch + usage.within
            started, row = rows.get(epoch, (0.0, {}))
            row = row if started == usage.started else {}
            for name, value in _row(usage, earlier):
                last = row.get(name)
                is_added = name.rpartition(".")[2] in _ADDED and isinstance(last, float | int)
                row[name] = round(last + value, 3) if is_added else value
            rows[epoch] = usage.started, row
            before = usage
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unreadable_file_error(path, error) from error
    used_names = dict.fromkeys(name for _, row in rows.values() for name in row if row[name])
    names = tuple(sorted(used_names, key=lambda name: "." in name))
    table = tuple((epoch, tuple(map(row.get, names))) for epoch, (_, row) in sorted(rows.items()))
    return Metrics(names, table, len(damaged))


_GROWING = ("cpu_s", "read_bytes", "written_bytes")
_ADDED = ("seconds", *_GROWING)


def _row(record: UsageMeasured, before: UsageMeasured | None) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each resource recorded in a line of ``usage.jsonl``."""
    seconds = record.times.total_s - (before.times.total_s if before else 0.0)
    yield "seconds", round(seconds, 3)
    known = {process.node: process for process in before.processes} if before else {}
    for process in record.processes:
        prefix = f"{process.node}." if process.node else ""
        last = known.get(process.node, ProcessUse())
        for name in ProcessUse.__struct_fields__:
            value = getattr(process, name)
            if name in _GROWING:
                value = round(max(0, value - getattr(last, name)), 3)
            if name != "node":
                yield f"{prefix}{name}", value
