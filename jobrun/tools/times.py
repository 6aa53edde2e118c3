"""How long a checkpoint took to save, from the log of its run. The checkpoint does not say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jobrun.core.events import CheckpointTimes, NodeTime
from jobrun.runner.rundir import EVENTS_NAME


def saved_times(run: Path, epoch: int, generation: int) -> CheckpointTimes | None:
    """The times of an epoch's save; None when the run's log does not tell.

    Args:
        run: The run's directory.
        epoch: Which epoch.
        generation: That in which it was saved.
    """
    found = None
    try:
        with (run / EVENTS_NAME).open(encoding="utf-8", errors="replace") as file:
            for line in file:
                # Nearly all lines are of other events, and need no parsing.
                if '"CheckpointTimes"' in line:
                    found = _times(line, epoch, generation) or found
    except OSError:
        return None
    return found


def _times(line: str, epoch: int, generation: int) -> CheckpointTimes | None:
    try:
        fields: Any = json.loads(line)
        what = (fields["event"], fields["action"], fields["epoch"], fields["generation"])
        if what != ("CheckpointTimes", "save", epoch, generation):
            return None
        nodes = tuple(NodeTime(**node) for node in fields.pop("nodes"))
        for key in ("event", "time", "generation"):
            del fields[key]
        return CheckpointTimes(nodes=nodes, **fields)
    except (ValueError, KeyError, TypeError):
        # A torn line of a killed run.
        return None
