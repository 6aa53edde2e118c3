"""Record the request of a sweep in its folder, and tag the runs of its points.

The record lets a sweep be shown and resumed without repeating the request; the status of its
points is in their own runs. Tags let ``jobrun runs --tag sweep=walk`` find them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from jobrun.core.errors import JobrunError, UsageError
from jobrun.core.files.disk import disk_faults, write_file
from jobrun.core.files.json_files import build, read_json
from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.patterns import lazy_pattern
from jobrun.tools.runs.tag_and_remove_runs import change_tags, read_tags
from jobrun.tools.sweep.axes import shown_value
from jobrun.tools.sweep.sweep_design import PlannedPoint

# Begins with a dot, as no job's name does: it is not taken for a folder of runs.
FOLDER = ".sweeps"
_NAME = "sweep.json"
_FORMAT = 1
_NOT_IN_TAGS = lazy_pattern(r"[^A-Za-z0-9_.=-]+")
_LONGEST = 64


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """The part of a sweep's command line that decides which points there are.

    Attributes:
        grid: The axes as written.
        random: How many points are drawn; None for all.
        seed: For the random points.
    """

    grid: tuple[str, ...]
    random: int | None = None
    seed: int = 0


def sweep_folder(run_dir: Path, name: str) -> Path:
    """Return the folder that holds the record and the lock of a sweep."""
    return run_dir / FOLDER / name


def write_request(folder: Path, request: SweepRequest) -> None:
    """Write the record of a sweep's request to its folder, atomically.

    Raises:
        EnvironmentFaultError: Writing or deleting fails.
    """
    with disk_faults("E354", f"write {folder / _NAME}"):
        folder.mkdir(parents=True, exist_ok=True)
        content = {"format": _FORMAT, **asdict(request)}
        write_file(folder / _NAME, json.dumps(content, indent=2).encode() + b"\n")


def read_request(folder: Path) -> SweepRequest:
    """Read from a sweep's record the request with which the sweep was run last.

    Raises:
        UsageError: E438, there is no such sweep yet.
    """
    cause: Exception | None = None
    try:
        request = build(SweepRequest, read_json(folder / _NAME))
        if request.grid:
            return request
    except (OSError, ValueError) as error:
        cause = error
    raise UsageError.of(
        "E438",
        f"there is no sweep '{folder.name}' in {folder.parent.parent} yet",
        "give the values to try, such as --grid lr=0.1,0.01",
    ) from cause


def build_tags(sweep: str, point: PlannedPoint) -> tuple[str, ...]:
    """Build the tags that record a sweep and point in a run, such as ``sweep=walk``, ``lr=0.1``."""
    pairs = [("sweep", sweep), *point.values.items()]
    return tuple(
        _NOT_IN_TAGS.sub("_", f"{name}={shown_value(value)}")[:_LONGEST] for name, value in pairs
    )


def tag_run(run: Path, sweep: str, point: PlannedPoint) -> None:
    """Record a run's sweep, and the values of its point there, in the run's tags; ignore errors."""
    wanted = build_tags(sweep, point)
    if set(wanted) <= set(read_tags(run)):
        return
    try:
        change_tags(run, wanted, ())
    except (JobrunError, OSError):
        # If the run directory cannot be written to, the run itself reports it.
        return
