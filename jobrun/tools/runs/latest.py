"""The last values that a run measured, and its last epoch, from the ends of its files alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobrun.runner.rundir import EVENTS_NAME, METRICS_NAME
from jobrun.tools.runs.series import Number

# Of a long file, nobody waits for the beginning.
_TAIL_BYTES = 64 << 10


def last_metrics(run: Path) -> dict[str, Number]:
    """The last value of each metric of the job; those that steps record are left out."""
    found: dict[str, Number] = {}
    for entry in _tail(run / METRICS_NAME):
        if "name" in entry and "value" in entry and not entry.get("task"):
            found[str(entry["name"])] = _number(entry["value"])
    return found


def last_epoch(run: Path) -> tuple[int, Mapping[str, Number]]:
    """The newest epoch that has ended, and what it measured; -1 for none."""
    for entry in reversed(_tail(run / EVENTS_NAME)):
        if entry.get("event") == "EpochEnded":
            values = {name: _number(value) for name, value in entry["metrics"]}
            return int(entry["epoch"]), values
    return -1, {}


def _tail(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            # The first is cut off by the limit, the last may be half written.
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found


def _number(value: Number) -> Number:
    # What JSON has no number for was written as text.
    return float(value) if value in ("nan", "inf", "-inf") else value
