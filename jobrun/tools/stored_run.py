"""Read a run, or all runs of a directory, from their files; nothing is read before it is needed.

What they hold is also rendered as HTML for notebooks, without scripts or style sheets.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, overload

import numpy as np
from msgspec.structs import replace

from jobrun.checkpoint.read.load import load_blobs
from jobrun.checkpoint.stores.object_references import open_checkpoint
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, JobrunError, UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.units import number
from jobrun.graph.readers import POSITION_PREFIX
from jobrun.runner.rundir.run_directories import Run, find_run, open_run
from jobrun.tools.inspection import stored_epochs
from jobrun.tools.lazy_blobs import StoredEpoch, find_stored_epoch
from jobrun.tools.report.html import Html, joined, table, tag
from jobrun.tools.runs.metrics import Metrics, Number, find_gaps, read_metrics, select_metrics
from jobrun.tools.runs.status import Status, read_status
from jobrun.tools.runs.summarise_runs import RunSummary, read_summaries
from jobrun.tools.runs.tag_and_remove_runs import read_tags
from jobrun.tools.runs.task_logs import read_log, require_logs
from jobrun.values.blob_kinds import Value

Array = np.ndarray[Any, np.dtype[Any]]
_INT64 = np.iinfo(np.int64)
# Beyond, not each integer is a float.
_EXACT = 1 << 53

# In a notebook's tables.
_MOST_RUNS, _MOST_EPOCHS = 50, 20
# Size in pixels, and most points, of a metric's curve in a notebook.
_WIDTH, _HEIGHT, _MOST_POINTS = 160, 24, 160


class StoredRun:
    """A run as its files describe it, whether it lives or has ended.

    Each method reads the files again, so a live run is seen as it is then.

    Args:
        path: The run's directory.

    Attributes:
        path: The run's directory, absolute.

    Raises:
        CheckpointError: E350, E375: it is no run's directory, or ``run.json`` is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._run = open_run(path)
        self.path = self._run.path

    @property
    def name(self) -> str:
        """Return the name of this stored run: ``job/20261121-0942-brisk-heron``."""
        return self._run.name

    @property
    def job(self) -> str:
        """Return the name of the job of this stored run."""
        return self._run.record.job

    @property
    def created(self) -> datetime:
        """Return the time at which this ``StoredRun`` was started, with a time zone."""
        return datetime.fromisoformat(self._run.record.created)

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags of this stored run, sorted."""
        return read_tags(self.path)

    @property
    def params(self) -> dict[str, Any]:
        """Return the params with which this stored run was started last.

        Secrets are hidden; a value from an environment variable is a reference, ``${env:NAME}``.
        """
        return dict(self._now().record.params)

    @property
    def epochs(self) -> tuple[int, ...]:
        """Return the epochs of this stored run that have a checkpoint, ascending."""
        return stored_epochs(self._now())

    def status(self) -> Status:
        """Read the present status of this ``StoredRun``, with its epoch and seconds left."""
        return read_status(self._now())

    def metrics(self, *names: str) -> MetricTable:
        """Read the metrics of this ``StoredRun``, all or some by name, as arrays.

        Lines that cannot be read are left out, with a ``RuntimeWarning``; and so is said which
        lines were lost since their epoch was saved.

        Raises:
            UsageError: E424, there is no metric of that name.
            CheckpointError: E470, the file is no regular file, or cannot be read.
        """
        selected = select_metrics(read_metrics(self.path), names)
        for gap in find_gaps(self._now()):
            warnings.warn(f"{self.name}: {gap}", RuntimeWarning, stacklevel=2)
        if selected.damaged:
            lines = "line" if selected.damaged == 1 else "lines"
            warnings.warn(
                f"{selected.damaged} {lines} of {self.path / 'metrics.jsonl'} cannot be read and "
                "left out",
                RuntimeWarning,
                stacklevel=2,
            )
        return MetricTable(selected)

    def blobs(self, epoch: int | None = None) -> EpochBlobs:
        """Open the blobs of one epoch of this stored run; each is verified when it is read.

        Args:
            epoch: Its number, 0 for what init made; None for the newest.

        Raises:
            CheckpointError: E408, there is no such checkpoint; or its manifest is damaged.
        """
        at = "" if epoch is None else f"@{epoch}"
        return EpochBlobs(find_stored_epoch(f"{self.path}{at}", self.path.parent.parent))

    def logs(self, task: str = "") -> list[str]:
        """Read the log lines of a task of this stored run; for all tasks, prefixed with the task.

        Raises:
            UsageError: E428, there is no log of that task.
            CheckpointError: E470, a log is no regular file, or cannot be read.
        """
        files = require_logs(self.path, task, self.name)
        return [
            line if task else f"{path.stem} {line}" for path in files for line in read_log(path)
        ]

    def __repr__(self) -> str:
        return f"<StoredRun {self.name}>"

    def _repr_html_(self) -> str:
        status = self.status()
        facts = [
            ("status", status.status),
            ("epoch", str(status.epoch)),
            ("saved", str(status.saved)),
        ]
        metrics = Metrics((), ())
        try:
            facts += [(name, str(value)) for name, value in self.params.items()]
            metrics = read_metrics(self.path)
        except JobrunError as error:
            # The rest is shown.
            facts += [("not readable", fault.message) for fault in error.faults]
        return render_run(self.name, facts, metrics)

    def _now(self) -> Run:
        return open_run(self.path)


class StoredRuns(Sequence[StoredRun]):
    """The runs below a directory, oldest first; also by name: ``runs["brisk-heron"]``.

    What cannot be read is a ``RuntimeWarning``, and the rest is there.

    Args:
        run_dir: The directory.
        job: Only the runs of this job; empty for all.

    Raises:
        UsageError: E351, there is no such directory, or no run of that job.
    """

    def __init__(self, run_dir: Path, job: str = "") -> None:
        if not run_dir.is_dir():
            raise UsageError.of(
                "E351", f"there is no directory {run_dir.absolute()}", "name the one of the runs"
            )
        self.run_dir = run_dir.absolute()
        listed = read_summaries(self.run_dir, job)
        self._found = listed.runs
        if job and not self._found:
            mend = did_you_mean(job, {summary.job for summary in read_summaries(self.run_dir).runs})
            raise UsageError.of("E351", f"no run of '{job}' in {self.run_dir}", mend)
        for fault in listed.faults:
            warnings.warn(f"{self.run_dir}: {fault}", RuntimeWarning, stacklevel=3)

    @overload
    def __getitem__(self, at: int | str) -> StoredRun: ...

    @overload
    def __getitem__(self, at: slice) -> list[StoredRun]: ...

    def __getitem__(self, at: int | str | slice) -> StoredRun | list[StoredRun]:
        """Open a stored run by its index or name, or a list of stored runs by a slice.

        Raises:
            UsageError: E351, no run is called so, or several are.
            CheckpointError: ``run.json`` is damaged, or the run was removed.
        """
        if isinstance(at, str):
            return StoredRun(find_run(at, self.run_dir).path)
        if isinstance(at, slice):
            return [self._open(summary) for summary in self._found[at]]
        return self._open(self._found[at])

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[StoredRun]:
        return (self._open(summary) for summary in self._found)

    def to_pandas(self) -> Any:
        """Convert a list of stored runs to a pandas DataFrame, with a row for each run.

        Its index is the run's name. Its columns are ``job``, ``status``, ``epoch``, ``created``,
        and ``params.NAME`` and ``metrics.NAME`` (the last value) of all runs.

        Raises:
            EnvironmentFaultError: E432, pandas is not installed.
        """
        pandas = import_pandas()
        rows = [
            {
                "job": summary.job,
                "status": summary.status,
                "epoch": summary.epoch,
                "created": datetime.fromisoformat(summary.created),
                **{f"params.{name}": value for name, value in summary.params.items()},
                **{f"metrics.{name}": value for name, value in summary.metrics.items()},
            }
            for summary in self._found
        ]
        names = [f"{summary.job}/{summary.name}" for summary in self._found]
        return pandas.DataFrame(rows, index=pandas.Index(names, name="run"))

    def __repr__(self) -> str:
        return f"<StoredRuns: {len(self)} in {self.run_dir}>"

    def _repr_html_(self) -> str:
        return render_runs(self._found)

    def _open(self, summary: RunSummary) -> StoredRun:
        return StoredRun(self.run_dir / summary.path)


class EpochBlobs(Mapping[str, Value]):
    """The blobs of one checkpoint by name: ``x``, or ``node.x`` where the job has several nodes.

    Arrays, numpy scalars, Python values and containers are what tasks have left; of an object (a
    network, a generator) it is the state as a tree, ``ObjectState``. While this object exists, its
    epoch is not deleted.

    Args:
        stored: The checkpoint.

    Raises:
        CheckpointError: A file is missing, or damaged where it lists its blobs.

    Attributes:
        epoch: Its number; 0 is what init made.
        path: The directory of the epoch.
    """

    def __init__(self, stored: StoredEpoch) -> None:
        self.epoch = stored.epoch
        self.path = Path(stored.path)
        self._stored = stored
        # Where each blob is: its file, the digest of that in the manifest, its name there.
        self._places: dict[str, tuple[str, str, str]] = {}
        for path, digest in stored.files:
            with open_checkpoint(path) as file:
                file.require_digest(digest)
                prefix = f"{file.header.node}." if len(stored.files) > 1 else ""
                for name in file.index.blobs:
                    if not name.startswith(POSITION_PREFIX):
                        self._places[prefix + name] = (path, digest, name)

    def __getitem__(self, name: str) -> Value:
        """Read one blob of a stored run's epoch, verifying all bytes that hold the blob.

        Raises:
            KeyError: There is no blob of that name; the message has the nearest.
            CheckpointError: It is damaged; the message begins with its name.
        """
        if name not in self._places:
            raise KeyError(f"epoch {self.epoch} has no blob '{name}': {self._nearest(name)}")
        path, digest, blob = self._places[name]
        try:
            with open_checkpoint(path) as file:
                file.require_digest(digest)
                return load_blobs(file, [blob])[blob]
        except CheckpointError as error:
            where = f"blob '{name}' of epoch {self.epoch}"
            faults = (replace(fault, message=f"{where}: {fault.message}") for fault in error.faults)
            raise CheckpointError(*faults) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __repr__(self) -> str:
        return f"<EpochBlobs of epoch {self.epoch}: {', '.join(self)}>"

    def _nearest(self, name: str) -> str:
        return did_you_mean(name, tuple(self._places))


class MetricTable(Mapping[str, Array]):
    """The metrics of a run: an array by name, each with an item for each of ``epochs``.

    Numbers that were measured in every epoch keep their type: int64, float64 or bool. Where an
    epoch lacks a value, numbers become float64 with NaN. Texts, integers that neither of these
    can hold, and columns of mixed kinds are arrays of objects, with None where a value is missing.

    Args:
        metrics: As they were read.

    Attributes:
        epochs: int64, ascending.
        damaged: How many lines of ``metrics.jsonl`` could not be read, and are not here.

    >>> table = MetricTable(Metrics(("loss", "size"), ((1, (0.5, 3)), (2, (0.25, None)))))
    >>> table["loss"]
    array([0.5 , 0.25])
    >>> table["size"]
    array([ 3., nan])
    >>> table.epochs
    array([1, 2])
    """

    def __init__(self, metrics: Metrics) -> None:
        self.epochs: Array = np.array([epoch for epoch, _ in metrics.rows], np.int64)
        self.damaged = metrics.damaged
        self._columns = {
            name: build_column([values[at] for _, values in metrics.rows])
            for at, name in enumerate(metrics.names)
        }

    def __getitem__(self, name: str) -> Array:
        """Return the values of one metric of a stored run.

        Raises:
            KeyError: There is no metric of that name.
        """
        if name not in self._columns:
            raise KeyError(f"no metric '{name}': {did_you_mean(str(name), self._columns)}")
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def to_pandas(self) -> Any:
        """Convert the metrics of a stored run to a pandas DataFrame, with the epochs as its index.

        Raises:
            EnvironmentFaultError: E432, pandas is not installed.
        """
        pandas = import_pandas()
        return pandas.DataFrame(self._columns, index=pandas.Index(self.epochs, name="epoch"))

    def __repr__(self) -> str:
        return f"<MetricTable: {len(self.epochs)} epochs of {', '.join(self) or 'nothing'}>"

    def _repr_html_(self) -> str:
        columns = {name: column.tolist() for name, column in self.items()}
        return render_metrics(self.epochs.tolist(), columns)


def build_column(values: Sequence[Number | None]) -> Array:
    """Convert a stored run's metric, a value or None per epoch, to an array."""
    kinds = {type(value) for value in values if value is not None}
    is_whole = None not in values
    if is_whole and kinds == {bool}:
        return np.array(values, np.bool_)
    if (
        is_whole
        and kinds == {int}
        and all(_INT64.min <= integer <= _INT64.max for integer in values)  # type: ignore[operator]
    ):
        return np.array(values, np.int64)
    if kinds <= {int, float} and not any(
        type(integer) is int and abs(integer) > _EXACT for integer in values
    ):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    column = np.empty(len(values), object)
    column[:] = values
    return column


def import_pandas() -> Any:
    """Import pandas to make DataFrames of stored runs; refuse (E432) if it is not installed.

    Raises:
        EnvironmentFaultError: E432, it is not installed.
    """
    try:
        return import_module("pandas")
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E432", "a DataFrame needs the package 'pandas'", "install it: pip install pandas"
        ) from error


def render_run(name: str, facts: Sequence[tuple[str, str]], metrics: Metrics) -> Html:
    """Render a stored run as HTML for a notebook: name, facts, and a curve per metric."""
    curves = (
        (metric, draw_curve(metrics.column(metric)), _last(metrics, at))
        for at, metric in enumerate(metrics.names)
    )
    curve_table = table(("metric", "", "last"), curves) if metrics.names else Html("")
    head, values = zip(*facts, strict=True)
    return joined((tag("b", name), table(head, [values]), curve_table))


def render_runs(summaries: Sequence[RunSummary]) -> Html:
    """Render ``StoredRuns`` for a notebook, as an HTML table of the newest runs."""
    shown = summaries[-_MOST_RUNS:]
    rows_of = [{**summary.params, **summary.metrics} for summary in shown]
    names = list(dict.fromkeys(name for values in rows_of for name in values))
    rows = (
        (
            summary.path,
            summary.status,
            str(summary.epoch),
            *(number(values[name]) if name in values else "" for name in names),
        )
        for summary, values in zip(shown, rows_of, strict=True)
    )
    left_out = len(summaries) - len(shown)
    note = tag("p", f"{left_out} older runs are not shown") if left_out else Html("")
    return joined((note, table(("run", "status", "epoch", *names), rows)))


def render_metrics(epochs: Sequence[int], columns: Mapping[str, Sequence[Number | None]]) -> Html:
    """Render a stored run's metrics in its last epochs as an HTML table for a notebook."""
    first = max(0, len(epochs) - _MOST_EPOCHS)
    rows = (
        (
            str(epochs[at]),
            *(
                "" if (value := column[at]) is None else number(value)
                for column in columns.values()
            ),
        )
        for at in range(first, len(epochs))
    )
    note = tag("p", f"{first} earlier epochs are not shown") if first else Html("")
    return joined((note, table(("epoch", *columns), rows)))


def draw_curve(points: Sequence[tuple[int, float]]) -> Html:
    """Draw a small curve of a metric for a notebook; empty with fewer than two finite points."""
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    shown = finite[:: max(1, len(finite) // _MOST_POINTS)]
    if len(shown) < 2:
        return Html("")
    low, high = min(y for _, y in shown), max(y for _, y in shown)
    # Halved first: the difference of two large numbers may be infinite.
    tall, wide = (high / 2 - low / 2) or 1.0, shown[-1][0] - shown[0][0]
    places = (
        f"{(x - shown[0][0]) / wide * _WIDTH:.1f},"
        f"{1 + (high / 2 - y / 2) / tall * (_HEIGHT - 2):.1f}"
        for x, y in shown
    )
    line = tag("polyline", points=" ".join(places), fill="none", stroke="currentColor")
    return tag("svg", line, width=_WIDTH, height=_HEIGHT, role="img", aria_label="curve")


def _last(metrics: Metrics, at: int) -> str:
    values: list[Number] = [row[at] for _, row in metrics.rows if row[at] is not None]  # type: ignore[misc]
    return number(values[-1]) if values else ""
