"""All that a report of a run shows, gathered from the run's files. Draws nothing.

What cannot be read is said in the report, and never keeps the rest of it from being made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobrun.checkpoint.directory import DirectoryStore
from jobrun.core.errors import JobrunError
from jobrun.core.quantities import size
from jobrun.graph.types import Job
from jobrun.runner.authored import GRAPH_NAME, recorded
from jobrun.runner.pins import read_pins
from jobrun.runner.rundir import Run
from jobrun.runner.specdir import PLAN_NAME, RESOLVED_NAME, compiled
from jobrun.tools.inspection import Inspection, checkpoints_of, inspect
from jobrun.tools.profiling.profiler import FOLDER as PROFILES
from jobrun.tools.report.blobs import MOST_DRAWN, Drawn, drawn_blobs
from jobrun.tools.report.history import History, read_history
from jobrun.tools.report.hollow import hollow_job
from jobrun.tools.report.lineage import Link, ancestors, children
from jobrun.tools.runs.status import Status, status_of

_LINES = 40
# Reading, verifying and counting that much takes about a second.
_MOST_STATE_BYTES = 256 << 20
_UNEXPECTED = 9


@dataclass(frozen=True, slots=True)
class Expectation:
    """An ``expect``; ``held`` is None when the run has not come to where it is looked at."""

    words: str
    held: bool | None


@dataclass(frozen=True, slots=True)
class Stored:
    """The checkpoints of a run.

    Attributes:
        epochs: That are there, ascending.
        pinned: Of these the pinned ones.
        newest: The newest, verified; None when there is none, or it cannot be shown.
        blobs: Of the newest.
        fault: Why it cannot be shown; else empty.
    """

    epochs: tuple[int, ...] = ()
    pinned: tuple[int, ...] = ()
    newest: Inspection | None = None
    blobs: tuple[Drawn, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run as a report shows it.

    Attributes:
        status: How it stands; with its metrics and last lines of its log.
        spec: The resolved spec, or the text of a job that was built in Python.
        job: The job; with only its tasks when the spec cannot be compiled here.
        whole: Whether ``job`` is the whole job.
        profile: The newest table of ``--profile``, as it was written; empty for none.
        following: Commands that a reader may want next.
        faults: What could not be read, in words.
    """

    status: Status
    history: History
    spec: str
    job: Job | None
    whole: bool
    expectations: tuple[Expectation, ...]
    stored: Stored
    ancestors: tuple[Link, ...]
    children: tuple[Link, ...]
    profile: Mapping[str, Any] = field(default_factory=dict)
    following: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def run(self) -> Run:
        """The run itself."""
        return self.status.run

    @property
    def metrics_last(self) -> dict[str, Any]:
        """The last value of each metric."""
        found: dict[str, Any] = {}
        for _, values in self.status.metrics.rows:
            pairs = zip(self.status.metrics.names, values, strict=True)
            found |= {name: value for name, value in pairs if value is not None}
        return found


def read_report(run: Run, run_dir: Path, runs: int = 1) -> RunReport:
    """Gather everything about a run, whatever its state.

    Args:
        run: The run.
        run_dir: Where runs are looked for, for the commands that are named.
        runs: How many runs share the page: so much less of the state of each is looked into.
    """
    status = status_of(run, _LINES)
    job, whole, faults = _job(run)
    return RunReport(
        status=status,
        history=read_history(run.path, live=status.owner is not None),
        spec=_spec(run.path / "spec"),
        job=job,
        whole=whole,
        expectations=_expectations(job, run) if job and whole else (),
        stored=_stored(run, runs),
        ancestors=ancestors(run),
        children=children(run),
        profile=_profile(run.path / PROFILES),
        following=_following(status, run.handle(run_dir)),
        faults=faults,
    )


def _job(run: Run) -> tuple[Job | None, bool, tuple[str, ...]]:
    why: tuple[str, ...] = ()
    if (run.path / "spec" / RESOLVED_NAME).is_file():
        try:
            return compiled(recorded(run)), True, ()
        except JobrunError as error:
            why = (f"the spec does not compile here: {error.faults[0].message}",)
    try:
        return hollow_job(json.loads((run.path / "spec" / PLAN_NAME).read_bytes())), False, why
    except (OSError, KeyError, TypeError, ValueError):
        return None, False, (*why, f"spec/{PLAN_NAME} cannot be read")


def _spec(folder: Path) -> str:
    for name in (RESOLVED_NAME, GRAPH_NAME):
        try:
            return (folder / name).read_text(encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
    return ""


def _expectations(job: Job, run: Run) -> tuple[Expectation, ...]:
    """What came of each: a run that ended names those that did not hold, and no other."""
    record = run.record
    looked_at = record.status == "finished" and record.exit_code in (0, _UNEXPECTED)
    return tuple(
        Expectation(probe.text, f"'{probe.text}'" not in record.reason if looked_at else None)
        for probe in job.expect
    )


def _stored(run: Run, runs: int) -> Stored:
    try:
        root = checkpoints_of(run)
        store = DirectoryStore(str(root))
        epochs = store.epochs()
        pinned = tuple(sorted(read_pins(run.path) & set(epochs)))
        if not epochs:
            return Stored()
        place = Path(store.path(epochs[-1]))
        # Also of files that would have to be fetched first.
        size_bytes = sum(file.size_bytes for file in store.manifest(epochs[-1]).files)
        if size_bytes > _MOST_STATE_BYTES // runs:
            fault = f"{size(size_bytes)} are too much to look into for a page; see it with"
            command = f"jobrun inspect-checkpoint {run.name}@{epochs[-1]} --html FILE"
            return Stored(epochs, pinned, fault=f"{fault} {command}")
    except JobrunError as error:
        return Stored(fault=error.faults[0].message)
    except OSError as error:
        return Stored(fault=f"the newest epoch went away while it was looked at: {error.strerror}")
    try:
        newest = inspect(str(place), root)
    except (JobrunError, OSError) as error:
        return Stored(epochs, pinned, fault=_words(error))
    blobs = drawn_blobs(newest, most_drawn=MOST_DRAWN // runs)
    return Stored(epochs, pinned, newest, blobs)


def _words(error: JobrunError | OSError) -> str:
    return error.faults[0].message if isinstance(error, JobrunError) else str(error)


def _profile(folder: Path) -> Mapping[str, Any]:
    files = sorted(folder.glob("table-*.json"), key=lambda path: (len(path.name), path.name))
    try:
        content = json.loads(files[-1].read_bytes()) if files else {}
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _following(status: Status, run: str) -> tuple[str, ...]:
    if status.owner is not None:
        return (f"jobrun status {run} --watch", f"jobrun stop {run}")
    if status.run.unfinished and status.saved >= 0:
        return (f"jobrun resume {run} --dry-run", f"jobrun resume {run}")
    if status.saved < 0:
        return (f"jobrun logs {run}",)
    return (f"jobrun inspect-checkpoint {run} --plot", f"jobrun fork {run}@{status.saved}")
