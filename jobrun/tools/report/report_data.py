"""Gather everything that a report shows about a run from the run's files.

What cannot be read is said in the report, and never keeps the rest of it from being made.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import JobrunError
from jobrun.core.files.disk import read_regular
from jobrun.core.files.json_files import read_json
from jobrun.core.text.units import size
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup
from jobrun.runner.identity.recorded_job import GRAPH_NAME, compile_authored, load_recorded
from jobrun.runner.resume.finished import describe_outdated, list_result_changes
from jobrun.runner.rundir.journal import read_pins
from jobrun.runner.rundir.logs import describe_losses
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.rundir.spec_folder import PLAN_NAME, RESOLVED_NAME
from jobrun.tools.inspection import Inspection, checkpoint_directory, inspect
from jobrun.tools.profile import FOLDER as PROFILES
from jobrun.tools.report.blob_pictures import MOST_DRAWN, DrawnBlob, draw_each_blob
from jobrun.tools.report.run_history import History, Link, ancestors, children, read_history
from jobrun.tools.runs.metrics import Metrics
from jobrun.tools.runs.recorded_usage import read_resources
from jobrun.tools.runs.status import Status, read_status

_LINES = 40
# Reading, verifying and counting that much takes about a second.
_MOST_STATE_BYTES = 256 << 20
_UNEXPECTED = 9
_HARDWARE = frozenset(
    f"numerics.{name}" for name in ("blas_kernel", "byte_order", "cpu_features", "gpus", "machine")
)


class Expectation(Struct, frozen=True):
    """An ``expect`` of a run; ``held`` is None before it is evaluated."""

    words: str
    held: bool | None


class Stored(Struct, frozen=True):
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
    blobs: tuple[DrawnBlob, ...] = ()
    fault: str = ""


class RunReport(Struct, frozen=True):
    """Everything that a report shows about one run.

    Attributes:
        status: Its status, with its metrics and last lines of its log.
        spec: The resolved spec, or the text of a job that was built in Python.
        job: The job; with only its tasks when the spec cannot be compiled here.
        whole: Whether ``job`` is the whole job.
        profile: The newest table of ``--profile``, as it was written; empty for none.
        resources: What its processes used, by epoch; see ``read_resources``.
        following: Commands that a reader may want next.
        faults: What could not be read, in words.
        outdated: What has changed since the run finished, in words: code, data, versions.
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
    resources: Metrics = Metrics((), ())
    following: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()

    @property
    def run(self) -> Run:
        """Return the run that a report's data are about."""
        return self.status.run

    @property
    def metrics_last(self) -> dict[str, Any]:
        """Return the last value of each metric of the reported run."""
        last_values: dict[str, Any] = {}
        for _, values in self.status.metrics.rows:
            pairs = zip(self.status.metrics.names, values, strict=True)
            last_values |= {name: value for name, value in pairs if value is not None}
        return last_values


def read_report(run: Run, run_dir: Path, runs: int = 1) -> RunReport:
    """Gather all data that the report of a run shows, whatever the run's state.

    Args:
        run: The run.
        run_dir: Where runs are looked for, for the commands that are named.
        runs: How many runs share the page: so much less of the state of each is looked into.
    """
    status = read_status(run, _LINES)
    job, whole, faults = _job(run)
    try:
        resources = read_resources(run.path)
    except JobrunError as error:
        resources, faults = Metrics((), ()), (*faults, error.faults[0].message)
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
        resources=resources,
        following=_following(status, run.handle(run_dir)),
        faults=(*faults, *status.faults, *describe_losses(status.lost)),
        outdated=_list_outdated(run) if whole else (),
    )


def _job(run: Run) -> tuple[Job | None, bool, tuple[str, ...]]:
    why: tuple[str, ...] = ()
    if (run.path / "spec" / RESOLVED_NAME).is_file():
        try:
            return compile_authored(load_recorded(run)), True, ()
        except JobrunError as error:
            why = (f"the spec does not compile here: {error.faults[0].message}",)
    try:
        return strip_job(read_json(run.path / "spec" / PLAN_NAME)), False, why
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        return None, False, (*why, f"spec/{PLAN_NAME} cannot be read")


def _list_outdated(run: Run) -> tuple[str, ...]:
    if run.record.status != "finished":
        return ()
    try:
        changes = list_result_changes(run)
        # A page is often made on another machine than its run.
        software = tuple(change for change in changes if change.field not in _HARDWARE)
        return describe_outdated(run, software)
    except JobrunError as error:
        return (error.faults[0].message,)


def _spec(folder: Path) -> str:
    for name in (RESOLVED_NAME, GRAPH_NAME):
        try:
            return read_regular(folder / name).decode(errors="backslashreplace")
        except OSError:
            continue
    return ""


def _expectations(job: Job, run: Run) -> tuple[Expectation, ...]:
    """Gather, for the data of a run's report, each ``expect`` condition and whether it held."""
    record = run.record
    looked_at = record.status == "finished" and record.exit_code in (0, _UNEXPECTED)
    return tuple(
        Expectation(probe.text, f"'{probe.text}'" not in record.reason if looked_at else None)
        for probe in job.expect
    )


def _stored(run: Run, runs: int) -> Stored:
    try:
        root = checkpoint_directory(run)
        store = DirectoryStore(str(root))
        epochs = store.epochs()
        pinned = tuple(sorted(read_pins(run.path) & set(epochs)))
        if not epochs:
            return Stored()
        folder = Path(store.path(epochs[-1]))
        # The manifest also has the sizes of files that would have to be fetched first.
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
        newest = inspect(str(folder), root)
    except (JobrunError, OSError) as error:
        return Stored(epochs, pinned, fault=_words(error))
    blobs = draw_each_blob(newest, most_drawn=MOST_DRAWN // runs)
    return Stored(epochs, pinned, newest, blobs)


def _words(error: JobrunError | OSError) -> str:
    return error.faults[0].message if isinstance(error, JobrunError) else str(error)


def _profile(folder: Path) -> Mapping[str, Any]:
    files = sorted(folder.glob("table-*.json"), key=lambda path: (len(path.name), path.name))
    try:
        content = read_json(files[-1]) if files else {}
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
    # Not 'fork', which at the end of a run would make one without an epoch to run.
    return (f"jobrun inspect-checkpoint {run} --plot",)


def strip_job(plan: Mapping[str, Any]) -> Job:
    """Build a ``Job`` with only what a run's report shows: names, nodes, and tasks' dependencies.

    Args:
        plan: The content of ``spec/plan.json``.

    Raises:
        KeyError, TypeError, ValueError: It is of another form.
    """
    groups = {name: _group(str(name), tasks) for name, tasks in plan["groups"].items()}
    return Job(
        name=str(plan["job"]),
        cluster=Cluster(tuple(Node(str(node)) for node in plan["nodes"])),
        init=groups["init"],
        epoch=groups["epoch"],
        download=groups["download"],
        exit=groups["exit"],
        seed=int(plan["seed"]),
    )


def _group(name: str, tasks: list[Mapping[str, Any]]) -> TaskGroup:
    return TaskGroup(name, tuple(_task(task) for task in tasks))


def _task(task: Mapping[str, Any]) -> Task:
    return Task(
        str(task["task"]),
        str(task["node"]),
        (),
        needs=tuple(map(str, task["needs"])),
        instances=int(task["instances"]),
        rebuild=bool(task["rebuild"]),
    )
