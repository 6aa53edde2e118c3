"""Summarise all runs below a directory: params, last metrics, status, tags, and what is damaged."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice, starmap
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import JobrunError
from jobrun.core.text.big_integers import integer_hex, is_long
from jobrun.runner.rundir.lock import is_live
from jobrun.runner.rundir.run_directories import METRICS_NAME, find_missing_records, open_run
from jobrun.runner.rundir.run_index import IndexedRun, OrderedRuns, RunIndex, read_index
from jobrun.runner.rundir.run_json import KILLED, RunRecord, creation_order, read_record
from jobrun.tools.runs.tag_and_remove_runs import read_tags

Value = float | int | bool | str
INDEX_NAME = ".summaries.json"
_SWEEP = "sweep="


class RunSummary(Struct, frozen=True):
    """One run, as a row of a table of runs.

    Attributes:
        path: Relative to the directory of the runs: ``job/name``.
        created: UTC, ISO 8601.
        order: Ascending in the order in which runs were made.
        status: As ``run.json`` says; ``killed`` when it says that it runs and no process holds it.
        epoch: The newest epoch that is saved, of a live run the newest that ended; -1 for none.
        parent: Of a fork: the run it started from, ``job/name``; empty for none.
        parent_id: The ``run_id`` of that run.
        parent_epoch: The epoch it started from; -1 for none.
        params: By name; see ``RunRecord.params``.
        metrics: The last value of each metric that the job declares; integers of more than 4000
            digits as text.
        tags: Sorted.
        faults: What could not be read, in words.
        code: What the code of the run is known by, a short digest; empty without any. Another one
            where a change was accepted within the run.
        data: The same of its data files.
        versions: The same of packages and numerics.
        total_epochs: Of a live run: after which it ends, if it says so.
        left_s: Of a live run: the estimated seconds until then.
        best_epoch: Where ``metrics`` are not the last ones: the epoch of these.
    """

    path: str
    job: str
    created: str
    order: int
    status: str
    epoch: int
    exit_code: int | None
    reason: str
    resumable: bool
    run_id: str
    parent: str
    parent_id: str
    parent_epoch: int
    seed: int
    params: Mapping[str, Value]
    metrics: Mapping[str, Value]
    tags: tuple[str, ...]
    faults: tuple[str, ...]
    code: str = ""
    data: str = ""
    versions: str = ""
    total_epochs: int | None = None
    left_s: float | None = None
    best_epoch: int | None = None

    @property
    def name(self) -> str:
        """Return the summarised run's name without its job: ``20261121-0942-brisk-heron``."""
        return self.path.rpartition("/")[2]

    @property
    def words(self) -> str:
        """Return the words that end the name of a run in this summary: ``brisk-heron``."""
        return self.name.split("-", 2)[-1]

    @property
    def sweep(self) -> str:
        """Return the name of the sweep that a summarised run belongs to; empty text if none."""
        tags = (tag for tag in self.tags if tag.startswith(_SWEEP))
        return next(tags, "").removeprefix(_SWEEP)

    def age_s(self, now: datetime) -> float:
        """Return the age in seconds of the summarised run, since it was created."""
        return max(0.0, (now - datetime.fromisoformat(self.created)).total_seconds())


class RunListing(Struct, frozen=True):
    """The runs below a directory, oldest first, and which of them cannot be read, in words."""

    runs: tuple[RunSummary, ...]
    faults: tuple[str, ...]


def read_summaries(run_dir: Path, job: str = "", newest: int | None = None) -> RunListing:
    """Summarise all runs below a directory, or those of one job, with their current status.

    Only runs that have changed since the last time are read; live ones always are.

    Args:
        run_dir: The directory of the runs.
        job: Only the runs of this job, or of the sweep of this name; empty for all.
        newest: Only so many, the newest; the files of the others are not looked at.
    """
    faults: list[str] = []

    def note(path: str, error: Exception) -> None:
        if not job or path.split("/", maxsplit=1)[0] == job:
            faults.append(f"{path}: {_describe(error)}")

    if newest is None:
        summaries = list(read_index(run_dir, _SUMMARIES, note))
        listed, known = iter(summaries), {path for path, _ in summaries}
    else:
        ordered = OrderedRuns(run_dir, _SUMMARIES, note)
        known = set(ordered.paths)
        # Each is read when it is asked for.
        read = ((path, ordered.read(path)) for path in ordered.paths)
        listed = ((path, values) for path, values in read if values is not None)
    # The jobs of a sweep's points begin with its name.
    near = (entry for entry in listed if f"{entry[1][0]}.".startswith(f"{job}.")) if job else listed
    matching: Iterator[RunSummary] = starmap(_build, near)
    if job:
        matching = (run for run in matching if job in (run.job, run.sweep))
    runs = list(islice(matching, newest))
    runs.sort(key=attrgetter("order", "path"))
    present = tuple(
        [_with_present_status(run_dir, run) if run.status == "running" else run for run in runs]
    )
    for path in find_missing_records(run_dir, job, known):
        try:
            read_record(path)
        except JobrunError as error:
            faults.append(_words_of(error))
    faults += [f"{run.path}: {fault}" for run in present if run.faults for fault in run.faults]
    return RunListing(present, tuple(faults))


def _words_of(error: JobrunError) -> str:
    fault = error.faults[0]
    return f"{fault.message}: {fault.mend}"


def _describe(error: Exception) -> str:
    is_gone = isinstance(error, JobrunError) and error.faults[0].code == "E350"
    if is_gone or isinstance(error, FileNotFoundError):
        return "it disappeared while it was read"
    if isinstance(error, JobrunError):
        return _words_of(error)
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def _with_present_status(run_dir: Path, summary: RunSummary) -> RunSummary:
    """Replace in the summary of a running run the recorded status and epoch by the present ones."""
    from jobrun.runner.rundir.journal import JOURNAL_NAME, read_journal  # noqa: PLC0415 - few run

    run = run_dir / summary.path
    if not is_live(run):
        try:
            epoch = read_journal(run, summary.run_id).newest
        except JobrunError:
            faults = (*summary.faults, f"cannot read {JOURNAL_NAME}")
            return replace(summary, status=KILLED, faults=faults)
        return replace(summary, status=KILLED, epoch=epoch)
    from jobrun.tools.runs.status import read_status  # noqa: PLC0415 - few are live

    try:
        state = read_status(open_run(run), lines=0)
    except JobrunError as error:
        return replace(summary, faults=(*summary.faults, _describe(error)))
    return replace(
        summary,
        status=state.status,
        epoch=state.epoch,
        total_epochs=state.total_epochs,
        left_s=state.left_s,
    )


def _read(run: Path) -> list[Any]:
    """Read a run's directory for the fields of its summary, in the order of ``RunSummary``."""
    from jobrun.tools.runs.metrics import read_last_values  # noqa: PLC0415 - if it has changed

    record = read_record(run)
    faults: list[str] = []
    metrics: Mapping[str, Value] = {}
    try:
        metrics, damaged = read_last_values(run)
    except OSError as error:
        faults.append(f"cannot read {METRICS_NAME}: {error.strerror or error}")
    else:
        if damaged:
            lines, are = ("1 line", "is") if damaged == 1 else (f"{damaged} lines", "are")
            faults.append(f"{lines} of {METRICS_NAME} cannot be read and {are} skipped")
    parent = record.parent
    return [
        record.job, record.created, creation_order(record.order, record.created), record.status,
        record.epoch, record.exit_code, record.reason, record.resumable, record.run_id,
        parent.get("run", ""), parent.get("run_id", ""), parent.get("epoch", -1), record.seed,
        _storable(record.params), _storable(metrics), list(read_tags(run)), faults,
        *_digest_origins(record),
    ]  # fmt: skip


def _digest_origins(record: RunRecord) -> tuple[str, str, str]:
    """Digest the code, the data and the versions that a run recorded."""
    data = {name: facts.get("digest") for name, facts in record.data.items()}
    code = [dict(record.callables), *record.accepted]
    return (
        _digest(code) if any(code) else "",
        _digest(data) if data else "",
        _digest(record.versions),
    )


def _digest(values: Any) -> str:
    text = json.dumps(values, sort_keys=True, default=str)
    return f"{zlib.crc32(text.encode()):08x}"


def _storable(values: Mapping[str, Value]) -> dict[str, Value]:
    return {
        name: integer_hex(value) if isinstance(value, int) and is_long(value) else value
        for name, value in values.items()
    }


def _build(path: str, values: list[Any]) -> RunSummary:
    *plain, tags, faults, code, data, versions = values
    listed: list[Any] = [*plain, tuple(tags), tuple(faults), code, data, versions]
    return RunSummary(path, *listed)


_NAMES = RunSummary.__struct_fields__[1:-3]
_TEXTS = (str, str, str)
_TYPES = [
    [str, str, int, str, int, code, str, bool, *_TEXTS, int, int, dict, dict, list, list, *_TEXTS]
    for code in (int, type(None))
]


def _fits(values: list[Any]) -> bool:
    if list(map(type, values)) not in _TYPES:
        return False
    params, metrics, tags, faults = values[-7:-3]
    scalars = {*map(type, params.values()), *map(type, metrics.values())}
    texts = (*tags, *faults)
    return scalars <= _SCALARS and (not texts or {*map(type, texts)} == {str})


_SCALARS = frozenset({float, int, bool, str})
_SUMMARIES = RunIndex(INDEX_NAME, _NAMES, _read, _fits, METRICS_NAME)


class NewestFirst:
    """The runs below a directory, newest first; only those that are asked for are looked at."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._ordered = OrderedRuns(run_dir)

    def runs(self, is_wanted: Callable[[str], bool]) -> Iterator[IndexedRun]:
        """Yield short summaries of the wanted runs, newest first, with current status."""
        for path in self._ordered.paths:
            if is_wanted(path) and (values := self._ordered.read(path)) is not None:
                yield _killed_or_same(self._run_dir, IndexedRun(path, *values))

    def newest_of_jobs(self) -> Iterator[IndexedRun]:
        """List each job's newest run, newest first, reading as few runs to summarise as needed."""
        pending_jobs = {path.partition("/")[0] for path in self._ordered.paths}
        for run in self.runs(lambda path: path.partition("/")[0] in pending_jobs):
            pending_jobs.discard(run.path.partition("/")[0])
            yield run
            if not pending_jobs:
                return


def _killed_or_same(run_dir: Path, run: IndexedRun) -> IndexedRun:
    if run.status == "running" and not is_live(run_dir / run.path):
        return replace(run, status=KILLED)
    return run
