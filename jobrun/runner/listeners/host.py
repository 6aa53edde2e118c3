"""Run one listener in a process of its own; its name is the argument, its input JSON lines.

::

    {"begin": {…}, "epoch": 7, "metrics_bytes": 4096}   # read the history from metrics.jsonl
    {"record": 8, "at": 1796000000.5, "values": {"loss": 0.5}}
    {"end": "finished"}

The end of the input without ``end`` means that the run's process was killed. Standard output is for
the reason of a failure alone: whatever else is printed goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from jobrun.core.errors import JobrunError
from jobrun.core.events import Measured
from jobrun.core.files.json_files import read_lines
from jobrun.runner.listeners.listener import (
    EpochMetrics,
    ListenedRun,
    Number,
    RunListener,
    open_listener,
)
from jobrun.runner.rundir.event_lines import metric_name, read_events
from jobrun.runner.rundir.run_directories import METRICS_NAME

# Of one call. The run's process may be gone, and nothing else would end one that hangs.
_LONGEST_CALL_S = 600


def main(name: str) -> int:
    """Run one listener in this host process until its input ends; return 1 if it has failed."""
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        serve(open_listener(name), sys.stdin.buffer)
    except JobrunError as error:
        print("; ".join(fault.message for fault in error.faults), file=report)
        return 1
    except Exception as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0], file=report, flush=True)
        # With its traceback, for the log of the listener.
        raise
    return 0


def serve(listener: RunListener, lines: BinaryIO) -> None:
    """Call the hosted listener's methods as the lines on standard input say."""
    waiting: dict[int, dict[str, Number]] = {}
    has_begun = False
    for line in lines:
        signal.alarm(_LONGEST_CALL_S)
        if not line.endswith(b"\n"):
            # The run's process was killed while it wrote.
            break
        content = json.loads(line)
        if "begin" in content:
            run = _build_run(content["begin"])
            history = read_history(run.directory, content["metrics_bytes"])
            # What a part of the next epoch has measured comes with the rest of it.
            waiting = {
                one.epoch: dict(one.values) for one in history if one.epoch > content["epoch"]
            }
            listener.begin(run, [one for one in history if one.epoch <= content["epoch"]])
            has_begun = True
        elif "record" in content:
            epoch = content["record"]
            values = {**waiting.pop(epoch, {}), **content["values"]}
            if values:
                at = datetime.fromtimestamp(content["at"], UTC)
                listener.record(EpochMetrics(epoch, at, values))
        else:
            listener.end(content["end"])
            return
        signal.alarm(0)
    if has_begun:
        signal.alarm(_LONGEST_CALL_S)
        listener.end("failed")


def read_history(run: Path, size_bytes: int) -> list[EpochMetrics]:
    """Read the metrics so far from ``metrics.jsonl``, for the hosted listener to begin with.

    Of several values in one epoch the last counts. Lines that cannot be read are left out.

    Raises:
        OSError: The file is there and cannot be read.
    """
    rows: dict[int, tuple[datetime, dict[str, Number]]] = {}
    for one in read_events(_first_lines(run / METRICS_NAME, size_bytes), (Measured,)):
        _, values = rows.get(one.event.epoch, (one.at, {}))
        values[metric_name(one.event)] = one.event.value
        rows[one.event.epoch] = one.at, values
    return [EpochMetrics(epoch, *rows[epoch]) for epoch in sorted(rows)]


def _first_lines(path: Path, size_bytes: int) -> Iterator[bytes]:
    end = 0
    for line in read_lines(path) if size_bytes else ():
        end += len(line)
        if end > size_bytes:
            return
        yield line


def _build_run(facts: Mapping[str, Any]) -> ListenedRun:
    return ListenedRun(
        Path(facts["directory"]), facts["job"], facts["name"], facts["run_id"], facts["params"]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
