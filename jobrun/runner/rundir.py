"""Runs on disk: make one, find one, list them. What is inside a run's files is others' matter."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from jobrun.core.errors import CheckpointError, EnvironmentFaultError, UsageError
from jobrun.core.names import did_you_mean
from jobrun.runner.durable import disk_faults, make_directory, sync_directory
from jobrun.runner.journal import JOURNAL_NAME
from jobrun.runner.record import RECORD_NAME, RunRecord, read_record, write_record
from jobrun.runner.runindex import Indexed, indexed_runs
from jobrun.runner.words import two_words

LATEST = "latest"
# Other users may read a run, never change it, whatever the umask says.
_DIRECTORY_MODE = 0o755
_TRIES = 100
DEFAULT_RUN_DIR = "runs"
# Files of a run, beside its record and its checkpoints.
METRICS_NAME = "metrics.jsonl"
EVENTS_NAME = "events.jsonl"
# Of fewer runs, all records are read in no time.
_WORTH_AN_INDEX = 64
_MOST_COMPARED = 500


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its directory, absolute, and what its ``run.json`` said when it was read."""

    path: Path
    record: RunRecord

    @property
    def name(self) -> str:
        """``job/20261121-0942-brisk-heron``: what a person calls it."""
        return f"{self.record.job}/{self.path.name}"

    def handle(self, run_dir: Path) -> str:
        """What to call it in a command given here: its name, or its path where that is needed."""
        try:
            known = Path(DEFAULT_RUN_DIR).resolve() == run_dir.resolve()
            return self.name if known else os.path.relpath(self.path)
        except OSError:
            # The working directory is gone.
            return str(self.path)

    @property
    def folder(self) -> Path:
        """The spec's folder, absolute."""
        return Path(os.path.normpath(self.path / self.record.folder))

    @property
    def unfinished(self) -> bool:
        """Whether ``resume`` has something to go on with."""
        return self.record.resumable and self.record.status != "finished"

    @property
    def has_saved(self) -> bool:
        """Whether an epoch of it was ever saved, or may have been."""
        journal = self.path / JOURNAL_NAME
        told = journal.exists() and journal.stat().st_size > 0
        return told or any((self.path / "checkpoints").glob("epoch-*"))

    def write(self, **changes: object) -> Run:
        """Change fields of ``run.json``, durably; the run as it is then."""
        record = replace(self.record, **changes)  # type: ignore[arg-type]  # checked by replace
        write_record(self.path, record)
        return replace(self, record=record)


def create_directory(run_dir: Path, job: str) -> Path:
    """Make a new, empty directory for a run of ``job``, which nobody else gets.

    It is not a run before its ``run.json`` is written.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    parent = run_dir.absolute() / job
    with disk_faults(f"make a run directory in {parent}"):
        make_directory(parent, _DIRECTORY_MODE, own=2)
        path = _make_exclusively(parent)
        for part in ("spec", "checkpoints", "logs", "artifacts", "superseded"):
            (path / part).mkdir(mode=_DIRECTORY_MODE)
        for directory in (path, parent, parent.parent):
            sync_directory(directory)
    return path


def point_latest(path: Path) -> None:
    """Let ``latest`` lead to this run, for people; nothing depends on it, so nothing fails."""
    link = path.parent / LATEST
    beside = path.parent / f".{LATEST}.{path.name}"
    with contextlib.suppress(OSError):
        beside.symlink_to(path.name)
        beside.replace(link)


def open_run(path: Path) -> Run:
    """The run in a directory.

    Raises:
        CheckpointError: It is no run's directory, or its ``run.json`` is damaged.
    """
    return Run(path.absolute(), read_record(path))


def runs(run_dir: Path, job: str = "") -> tuple[Run, ...]:
    """All runs below ``run_dir``, or those of one job, oldest first. Damaged ones are left out."""
    found = (_try_open(path) for path in _run_paths(run_dir, job))
    return tuple(
        sorted((run for run in found if run), key=lambda run: (run.record.created, run.path.name))
    )


def unreadable_runs(run_dir: Path, job: str) -> tuple[Path, ...]:
    """Directories of a job that hold saved epochs, but no ``run.json`` that can be read."""
    parent = run_dir / job
    if not parent.is_dir():
        return ()
    found = []
    for path in sorted(parent.iterdir()):
        if not path.is_symlink() and path.is_dir() and _try_open(path) is None:
            journal = path / JOURNAL_NAME
            told = journal.is_file() and journal.stat().st_size > 0
            if told or any((path / "checkpoints").glob("epoch-*")):
                found.append(path)
    return tuple(found)


def newest_run(run_dir: Path, job: str) -> Run | None:
    """The newest run of a job, finished or not."""
    found = runs(run_dir, job)
    return found[-1] if found else None


def newest_unfinished(run_dir: Path, job: str = "") -> Run:
    """The newest run that can be continued.

    Raises:
        CheckpointError: There is none.
    """
    found = [run for run in runs(run_dir, job) if run.unfinished]
    if not found:
        of_job = f" of {job}" if job else ""
        raise CheckpointError.of(
            "E360",
            f"there is no unfinished run{of_job} in {run_dir}",
            "start one with 'jobrun run SPEC', or name a finished run, or another --run-dir",
        )
    return found[-1]


def find_run(text: str, run_dir: Path) -> Run:
    """The run that a person means.

    ``text`` is the path of a run's directory, ``latest``, a job's name (its newest run), a
    run's name (``brisk-heron`` or the whole), or the start of a run's name that only one
    run has; the last two also behind ``job/``.

    Raises:
        CheckpointError: It is a path, but not of a run.
        UsageError: It is no run's name, or the start of several.
    """
    if (Path(text) / RECORD_NAME).is_file():
        return open_run(Path(text))
    known = indexed_runs(run_dir, _WORTH_AN_INDEX)
    if text == LATEST and known:
        return open_run(run_dir / known[-1].path)
    job, slash, start = text.rpartition("/")
    of_job = [run for run in known if run.job == (job if slash else text)]
    if not slash and of_job:
        return open_run(run_dir / of_job[-1].path)
    if slash and start == LATEST and of_job:
        return open_run(run_dir / of_job[-1].path)
    matches = [run for run in (of_job if slash else known) if _is_called(run, start)]
    exact = [run for run in matches if run.name == start]
    if len(exact or matches) == 1:
        return open_run(run_dir / (exact or matches)[0].path)
    if len(matches) > 1:
        raise _ambiguous(text, matches)
    if Path(text).exists() or _is_path(text, known):
        raise CheckpointError.of(
            "E350",
            f"not a jobrun run directory: {text}",
            "name a run below --run-dir, or the path of its directory",
        )
    raise _unknown(text, run_dir, known)


def _make_exclusively(parent: Path) -> Path:
    for _ in range(_TRIES):
        # The user's own clock: a name is for people. Order comes from ``created``.
        minute = datetime.now().astimezone().strftime("%Y%m%d-%H%M")
        path = parent / f"{minute}-{two_words()}"
        try:
            path.mkdir(mode=_DIRECTORY_MODE)
        except FileExistsError:
            continue
        return path
    raise EnvironmentFaultError.of(
        "E354", f"no free name for a run in {parent}", "wait a minute, and try again"
    )


def _run_paths(run_dir: Path, job: str) -> Iterator[Path]:
    if not run_dir.is_dir():
        return
    for parent in [run_dir / job] if job else sorted(run_dir.iterdir()):
        if parent.is_symlink() or not parent.is_dir():
            continue
        for path in sorted(parent.iterdir()):
            # ``latest`` is a link, and would count its run twice.
            if not path.is_symlink() and (path / RECORD_NAME).is_file():
                yield path


def _try_open(path: Path) -> Run | None:
    try:
        return open_run(path)
    except CheckpointError:
        return None


def _is_called(run: Indexed, start: str) -> bool:
    words = run.name.split("-", 2)[-1]
    return bool(start) and (run.name.startswith(start) or words.startswith(start))


def _is_path(text: str, known: tuple[Indexed, ...]) -> bool:
    if not any(character in text for character in "/\\"):
        return False
    return text.startswith(("/", ".", "~")) or text.partition("/")[0] not in {
        run.job for run in known
    }


def _ambiguous(text: str, matches: list[Indexed]) -> UsageError:
    names = ", ".join(_whole_name(run) for run in matches[:6])
    return UsageError.of("E351", f"'{text}' may be any of {names}", "write more of the name")


def _unknown(text: str, run_dir: Path, known: tuple[Indexed, ...]) -> UsageError:
    # The newest are meant most often; comparing with ten thousand names takes a second.
    names = [_whole_name(run) for run in known[-_MOST_COMPARED:]]
    names += sorted({run.job for run in known})[:_MOST_COMPARED]
    return UsageError.of("E351", f"no run '{text}' in {run_dir}", did_you_mean(text, names))


def _whole_name(run: Indexed) -> str:
    return f"{run.job}/{run.name}"
