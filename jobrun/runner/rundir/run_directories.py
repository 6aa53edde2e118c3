"""Create, find, open and list run directories; refuse those that other users can change.

Anyone may write into a directory that is writable by all, such as one under a shared /tmp; and
who owns a link decides where it leads. The superuser is trusted: he could do all this anyway.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import CheckpointError, EnvironmentFaultError, UsageError
from jobrun.core.files.disk import disk_faults, make_directory, sync_directory
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.rundir.journal import JOURNAL_NAME
from jobrun.runner.rundir.lock import is_live
from jobrun.runner.rundir.run_index import (
    IndexedRun,
    dump_inputs,
    find_newest,
    indexed_runs,
    remember_newest,
    stamp_jobs,
)
from jobrun.runner.rundir.run_json import (
    RECORD_NAME,
    RunRecord,
    creation_order,
    has_saved,
    read_record,
    write_record,
)

if TYPE_CHECKING:
    from jobrun.runner.rundir.run_inputs import RunInputs

LATEST = "latest"
# Other users may read a run but never change it, whatever the umask says.
_DIRECTORY_MODE = 0o755
_TRIES = 100
_MINUTE = "%Y%m%d-%H%M"
_EPOCH = lazy_pattern(r"epoch-([0-9]{6}|[1-9][0-9]{6,17})")
_MINUTE_LENGTH = len("20261231-2359")
_NAME = lazy_pattern(r"\d{8}-\d{4}-[a-z]+-[a-z]+")
DEFAULT_RUN_DIR = "runs"
# Files of a run other than its record and its checkpoints.
METRICS_NAME = "metrics.jsonl"
EVENTS_NAME = "events.jsonl"
USAGE_NAME = "usage.jsonl"
# With fewer runs an index is not worth it.
_WORTH_AN_INDEX = 64
_MOST_COMPARED = 500
# The directories of a run in which no other user may write.
_PARTS = ("", "checkpoints", "spec", "superseded", "artifacts", "logs")


class Run(Struct, frozen=True):
    """A run: its directory, absolute, and what its ``run.json`` said when it was read."""

    path: Path
    record: RunRecord

    @property
    def name(self) -> str:
        """The run's name for people, ``job/20261121-0942-brisk-heron``."""
        return f"{self.record.job}/{self.path.name}"

    def handle(self, run_dir: Path) -> str:
        """Return this run's name for a command; its directory's path if not in ``runs/``."""
        try:
            known = Path(DEFAULT_RUN_DIR).resolve() == run_dir.resolve()
            return self.name if known else os.path.relpath(self.path)
        except OSError:
            # The working directory is gone.
            return str(self.path)

    @property
    def folder(self) -> Path:
        """The absolute path of the spec's folder; ``run.json`` has it relative to this one."""
        return Path(os.path.normpath(self.path / self.record.folder))

    @property
    def unfinished(self) -> bool:
        """Return whether the run in this directory can be resumed and has not finished."""
        return self.record.resumable and self.record.status != "finished"

    @property
    def epoch_without_journal(self) -> int:
        """The newest epoch in ``run.json``, if this directory has no journal; else -1."""
        try:
            size_bytes = (self.path / JOURNAL_NAME).stat().st_size
        except FileNotFoundError:
            return self.record.epoch
        except OSError:
            return -1
        # The directory is empty after a run whose saves all failed with a warning.
        return -1 if size_bytes or self.record.status == "finished" else self.record.epoch

    @property
    def epochs_inside(self) -> tuple[int, ...]:
        """List the epochs in this run's own directory of checkpoints; the spec may name another."""
        directories = (path for path in _list_directory(self.path / "checkpoints") if path.is_dir())
        matches = (_EPOCH.fullmatch(path.name) for path in directories if not path.is_symlink())
        return tuple(sorted(int(match[1]) for match in matches if match))

    @property
    def has_saved(self) -> bool:
        """Return whether an epoch is known to have been saved in this run directory."""
        return self.epoch_without_journal >= 0 or has_saved(self.path)

    @property
    def is_stillborn(self) -> bool:
        """Return whether to pass over this run directory: a fork that ended before it saved.

        It has nothing that its parent lacks, so another run is continued in its place.
        """
        return bool(self.record.parent) and not (self.has_saved or is_live(self.path))

    def write(self, **changes: object) -> Run:
        """Change fields of this run in its directory's ``run.json``; return the new ``Run``."""
        record = replace(self.record, **changes)
        write_record(self.path, record)
        return replace(self, record=record)


def make_job_directory(run_dir: Path, job: str) -> None:
    """Create the directory of a job's runs, if it is missing.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    parent = run_dir.absolute() / job
    with disk_faults("E354", f"make a run directory in {parent}"):
        make_directory(parent, _DIRECTORY_MODE, own_names=2)


def create_directory(run_dir: Path, job: str) -> Path:
    """Create an empty directory for a new run of ``job``, under an unused name.

    It is not a run before its ``run.json`` is written.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    make_job_directory(run_dir, job)
    parent = run_dir.absolute() / job
    with disk_faults("E354", f"make a run directory in {parent}"):
        path = _make_exclusively(parent)
        for part in ("spec", "checkpoints", "logs", "artifacts", "superseded"):
            (path / part).mkdir(mode=_DIRECTORY_MODE)
        for directory in (path, parent, parent.parent):
            sync_directory(directory)
    return path


def remove_directory(path: Path) -> None:
    """Remove a run directory whose lock the caller holds: hide it by a rename, then delete it.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    import shutil  # noqa: PLC0415 - seldom

    with disk_faults("E354", f"remove {path}"):
        aside = path.with_name(f".removed-{path.name}")
        path.rename(aside)
        sync_directory(path.parent)
        shutil.rmtree(aside)


def point_latest(path: Path) -> None:
    """Point the link ``latest`` at a run directory; ignore an error."""
    link = path.parent / LATEST
    temporary = path.parent / f".{LATEST}.{path.name}"
    with contextlib.suppress(OSError):
        temporary.symlink_to(path.name)
        temporary.replace(link)


def find_moved_latest(run_dir: Path, job: str, newest: Run | None) -> str:
    """Find the name of the run that ``latest`` points to, if it was moved away or removed.

    Args:
        run_dir: The directory of the runs.
        job: Whose link is looked at.
        newest: The newest run that there is; perhaps the one looked for, under another name.

    Returns:
        Empty where the link leads to a run, or is not there.
    """
    link = run_dir / job / LATEST
    try:
        name = str(link.readlink())
    except OSError:
        return ""
    if os.path.lexists(link.parent / name):
        return ""
    if newest is None or _NAME.fullmatch(newest.path.name):
        return Path(name).name
    # The newest run may be the renamed one. Names begin with the minute of the run's creation.
    created = datetime.fromisoformat(newest.record.created).astimezone().strftime(_MINUTE)
    return Path(name).name if created < name[: len(created)] else ""


def open_run(path: Path) -> Run:
    """Open a run directory: read its ``run.json`` and return its ``Run``.

    Raises:
        CheckpointError: It is no run's directory, or its ``run.json`` is damaged.
    """
    return Run(path.absolute(), read_record(path))


def runs(run_dir: Path, job: str = "") -> tuple[Run, ...]:
    """Open all readable run directories below ``run_dir``, or of one job; oldest first."""
    opened = (_try_open(path) for path in _run_paths(run_dir, job))
    return tuple(sorted((run for run in opened if run), key=_rank_of))


def _rank_of(run: Run) -> tuple[int, str]:
    return creation_order(run.record.order, run.record.created), run.path.name


def next_order(run_dir: Path) -> int:
    """Return a number that sorts a new run directory after all existing ones.

    It is the time in microseconds, and a counter where the clock was set back.
    """
    known = indexed_runs(run_dir, _WORTH_AN_INDEX)
    newest = max((entry.order for entry in known), default=0)
    return max(time.time_ns() // 1000, newest + 1)


def unreadable_runs(run_dir: Path, job: str) -> tuple[Path, ...]:
    """List a job's run directories with saved epochs whose ``run.json`` cannot be read."""
    paths = _list_directory(run_dir / job)
    indexed = indexed_runs(run_dir, _WORTH_AN_INDEX) if len(paths) >= _WORTH_AN_INDEX else ()
    readable = {entry.path for entry in indexed}
    return tuple(
        path
        for path in paths
        if f"{job}/{path.name}" not in readable
        and not path.is_symlink()
        and _try_open(path) is None
        and has_saved(path)
    )


def newest_run(run_dir: Path, job: str, inputs: RunInputs | None = None) -> Run | None:
    """Find a job's newest run directory; forks that never saved an epoch come last.

    Args:
        run_dir: The directory of the runs.
        job: Its name.
        inputs: Only runs with these params and this seed; None for all runs.
    """
    if inputs is None:
        return _newest_where(run_dir, job, lambda _: True)
    # Lazy: most commands do not need it.
    from jobrun.runner.rundir.run_inputs import read_inputs  # noqa: PLC0415

    # A run with exactly these values is preferred to one of a spec whose defaults were edited.
    return _newest_where(
        run_dir, job, lambda text: inputs.equal(read_inputs(text))
    ) or _newest_where(run_dir, job, lambda text: inputs.match(read_inputs(text)))


def _newest_where(run_dir: Path, job: str, is_wanted: Callable[[str], bool]) -> Run | None:
    """Find a job's newest run of which ``dump_inputs`` makes a text that is wanted."""
    if len(_list_directory(run_dir / job)) < _WORTH_AN_INDEX:
        return _newest([run for run in runs(run_dir, job) if is_wanted(dump_inputs(run.record))])
    remembered = _find_remembered(job, run_dir)
    if remembered is not None and is_wanted(dump_inputs(remembered.record)):
        return remembered
    newest: Run | None = None
    for entry in reversed(indexed_runs(run_dir)):
        if not (entry.path.startswith(f"{job}/") and is_wanted(entry.inputs)):
            continue
        run = _try_open(run_dir / entry.path)
        if run is not None and not run.is_stillborn:
            return run
        newest = newest or run
    return newest


def _newest(candidates: Sequence[Run]) -> Run | None:
    candidates_with_saves = (run for run in reversed(candidates) if not run.is_stillborn)
    return next(candidates_with_saves, candidates[-1] if candidates else None)


def newest_unfinished(run_dir: Path, job: str = "") -> Run:
    """Open the newest unfinished run directory; a fork that saved no epoch only as last choice.

    Raises:
        CheckpointError: There is none, or one that may be newer cannot be read.
    """
    newest = _newest([run for run in runs(run_dir, job) if run.unfinished])
    for name in [job] if job else [path.name for path in _list_directory(run_dir)]:
        require_readable_runs(run_dir, name, newest)
    if newest is None:
        of_job = f" of {job}" if job else ""
        raise CheckpointError.of(
            "E360",
            f"there is no unfinished run{of_job} in {run_dir}",
            "start one with 'jobrun run SPEC', or name a finished run, or another --run-dir",
        )
    return newest


def find_missing_records(run_dir: Path, job: str, known: Collection[str]) -> Iterator[Path]:
    """Find run directories with saved epochs that have lost their ``run.json``.

    Args:
        run_dir: The directory of the runs.
        job: Only runs of this job or of the points of this sweep; empty for all.
        known: Paths below ``run_dir`` of runs whose record is there.
    """
    for parent in _list_directory(run_dir):
        if parent.is_symlink() or (job and not f"{parent.name}.".startswith(f"{job}.")):
            continue
        for path in _list_directory(parent):
            is_known = f"{parent.name}/{path.name}" in known or path.is_symlink()
            if not is_known and has_saved(path) and not os.path.lexists(path / RECORD_NAME):
                yield path


def require_readable_runs(run_dir: Path, job: str, newest: Run | None) -> None:
    """Refuse to pass over a job's run that has saved epochs and no readable ``run.json``.

    Args:
        run_dir: The directory of the runs.
        job: Whose runs are looked at.
        newest: The run that is to be used; only runs that may be newer matter.

    Raises:
        CheckpointError: E375, there is such a run.
    """
    for path in unreadable_runs(run_dir, job):
        # Names begin with the minute of the run's creation.
        if newest is None or path.name[:_MINUTE_LENGTH] >= newest.path.name[:_MINUTE_LENGTH]:
            open_run(path)


def _require_latest_readable(run: Run) -> Run:
    """Return a job's newest readable run, unless ``latest`` leads to another that is damaged."""
    latest = Path(os.path.realpath(run.path.parent / LATEST))
    if latest != run.path and has_saved(latest):
        open_run(latest)
    return run


def find_run(text: str, run_dir: Path) -> Run:
    """Find the run that a user's text names: a path, job, run name or its start, or ``latest``.

    ``text`` is the path of a run's directory, ``latest``, a job's name (its newest run), a
    run's name (``brisk-heron`` or the whole), or the start of a run's name that only one
    run has; the last two also behind ``job/``.

    Raises:
        CheckpointError: It is a path, but not of a run.
        UsageError: It is no run's name, or the start of several.
    """
    if os.path.lexists(Path(text) / RECORD_NAME):
        return open_run(Path(text))
    newest = _find_remembered(text, run_dir)
    if newest is not None:
        return _require_latest_readable(newest)
    stamps = stamp_jobs(run_dir)
    known = indexed_runs(run_dir, _WORTH_AN_INDEX)
    if len(known) >= _WORTH_AN_INDEX:
        remember_newest(run_dir, stamps, known)
    if text == LATEST and known:
        return _require_latest_readable(_newest_indexed(run_dir, known))
    job, slash, start = text.rpartition("/")
    of_job = [run for run in known if run.job == (job if slash else text)]
    if of_job and (not slash or start == LATEST):
        return _require_latest_readable(_newest_indexed(run_dir, of_job))
    matches = [run for run in (of_job if slash else known) if _is_called(run, start)]
    exact = [run for run in matches if start in (run.name, _words_of(run))]
    if len(exact or matches) == 1:
        return open_run(run_dir / (exact or matches)[0].path)
    if len(matches) > 1:
        raise _ambiguous(text, matches)
    _require_readable_named(text, run_dir, known)
    if Path(text).exists() or _is_path(text, known):
        mend = "name a run below --run-dir, or the path of its directory"
        if text.endswith((".yaml", ".yml")):
            mend += f"; a spec's newest run is continued by 'jobrun run {text} --resume auto'"
        raise CheckpointError.of("E350", f"not a jobrun run directory: {text}", mend)
    for path in _directories_called(start, run_dir, job):
        # The index leaves out unreadable runs; opening the run reports why it is unreadable.
        open_run(path)
    raise _unknown(text, run_dir, known)


def _require_readable_named(text: str, run_dir: Path, known: tuple[IndexedRun, ...]) -> None:
    """Refuse a text that may mean a run with saved epochs and no readable ``run.json``.

    Raises:
        CheckpointError: E375, there is one.
    """
    if has_saved(Path(text)):
        open_run(Path(text))
    job = text.partition("/")[0].partition("@")[0]
    names = [path.name for path in _list_directory(run_dir)]
    if job not in names and (known or Path(text).exists() or "/" in text):
        return
    for name in [job] if job in names else names:
        require_readable_runs(run_dir, name, None)


def _directories_called(name: str, run_dir: Path, job: str) -> Iterator[Path]:
    for parent in [run_dir / job] if job else _list_directory(run_dir):
        for path in [] if parent.is_symlink() else _list_directory(parent):
            if name in (path.name, _words(path.name)) and not path.is_symlink():
                yield path


def _find_remembered(text: str, run_dir: Path) -> Run | None:
    """Open the newest run directory, of a job or of all, that the run index names; or None."""
    job, slash, start = text.rpartition("/")
    if slash and start != LATEST:
        return None
    path = find_newest(run_dir, job if slash else "" if text == LATEST else text)
    run = _try_open(run_dir / path) if path else None
    return None if run is None or run.is_stillborn else run


def _newest_indexed(run_dir: Path, known: Sequence[IndexedRun]) -> Run:
    """Open the newest of these run directories; forks that saved nothing come last."""
    for entry in reversed(known):
        run = open_run(run_dir / entry.path)
        if not run.is_stillborn:
            return run
    return open_run(run_dir / known[-1].path)


def _make_exclusively(parent: Path) -> Path:
    for _ in range(_TRIES):
        # Local time, because names are for people; runs are sorted by ``order``.
        minute = datetime.now().astimezone().strftime(_MINUTE)
        path = parent / f"{minute}-{random_name()}"
        try:
            path.mkdir(mode=_DIRECTORY_MODE)
        except FileExistsError:
            continue
        return path
    raise EnvironmentFaultError.of(
        "E354", f"no free name for a run in {parent}", "wait a minute, and try again"
    )


def _run_paths(run_dir: Path, job: str) -> Iterator[Path]:
    for parent in [run_dir / job] if job else _list_directory(run_dir):
        if parent.is_symlink():
            continue
        for path in _list_directory(parent):
            # ``latest`` is a link; its run would be counted twice.
            if not path.is_symlink() and _is_file(path / RECORD_NAME):
                yield path


def _list_directory(directory: Path) -> list[Path]:
    """List a directory of run directories, sorted; [] if it is missing or unreadable."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _is_file(path: Path) -> bool:
    # Path.is_file raises where a directory on the way may not be looked into.
    return os.path.isfile(path)  # noqa: PTH113


def _try_open(path: Path) -> Run | None:
    try:
        return open_run(path)
    except CheckpointError:
        return None


def _is_called(run: IndexedRun, start: str) -> bool:
    return bool(start) and (run.name.startswith(start) or _words_of(run).startswith(start))


def _words_of(run: IndexedRun) -> str:
    return _words(run.name)


def _words(name: str) -> str:
    """Return the name of a run without its date, ``brisk-heron``."""
    return name.split("-", 2)[-1]


def _is_path(text: str, known: tuple[IndexedRun, ...]) -> bool:
    if not any(character in text for character in "/\\"):
        return False
    return text.startswith(("/", ".", "~")) or text.partition("/")[0] not in {
        run.job for run in known
    }


def _ambiguous(text: str, matches: list[IndexedRun]) -> UsageError:
    names = ", ".join(_whole_name(run) for run in matches[:6])
    return UsageError.of(
        "E351", f"'{text}' matches several runs: {names}", "write more of the name"
    )


def _unknown(text: str, run_dir: Path, known: tuple[IndexedRun, ...]) -> UsageError:
    if not known:
        return UsageError.of("E351", f"there are no runs in {run_dir}", suggest_run_dir(run_dir))
    name, at, epoch = text.rpartition("@")
    if at and (epoch.isdecimal() or epoch == LATEST):
        return UsageError.of(
            "E351",
            f"'{text}' names an epoch, and a whole run is wanted here",
            f"write '{name}'; inspect-checkpoint, diff, fork and 'ckpt diff' take RUN@EPOCH",
        )
    # Only the newest, which are meant most often: comparing ten thousand names takes a second.
    names = [_whole_name(run) for run in known[-_MOST_COMPARED:]]
    names += sorted({run.job for run in known})[:_MOST_COMPARED]
    return UsageError.of("E351", f"no run '{text}' in {run_dir}", did_you_mean(text, names))


def suggest_run_dir(run_dir: Path) -> str:
    """Suggest which ``--run-dir`` to give where a directory has no run directories in it."""
    above = next(
        (directory for directory in _directories_above(run_dir) if _has_runs(directory)), None
    )
    if above is not None:
        return f"there is {os.path.relpath(above)}: add --run-dir {os.path.relpath(above)}"
    return "start one with 'jobrun run SPEC', or name the directory of the runs: --run-dir DIR"


def _has_runs(run_dir: Path) -> bool:
    return next(_run_paths(run_dir, ""), None) is not None


def _directories_above(run_dir: Path) -> Iterator[Path]:
    """Yield where a relative ``--run-dir`` would be in each parent folder, to suggest it."""
    if not run_dir.is_absolute():
        with contextlib.suppress(OSError):
            yield from (folder / run_dir for folder in Path.cwd().parents)


def _whole_name(run: IndexedRun) -> str:
    return f"{run.job}/{run.name}"


_ADJECTIVES = """
    able airy amber ample azure blithe bold brave bright brisk calm candid civil clear clever cool
    coral crisp deft eager early fair fleet fond frank free fresh gentle glad golden grand green
    handy happy hardy hazel keen kind light lively loyal lucid mellow merry mild neat nimble noble
    olive patient plain proud quick quiet rapid ready robust rosy royal sage silver smart snug
    sober solid sound spry steady still sturdy sunny sure tidy trim true upbeat vivid warm
"""
_ANIMALS = """
    ant badger bat bear beaver bee bison boar bream camel carp cat civet cod condor coot crab crane
    crow deer dingo dove duck eagle eel egret elk falcon ferret finch fox frog gecko gibbon gnu
    goat goose grouse gull hare hawk heron hippo horse ibex ibis jackal jay kestrel kiwi koala
    lark lemur lion llama lynx magpie marten mole moose moth newt ocelot okapi orca oryx osprey
    otter owl ox panda parrot perch pike plover puffin quail rabbit raven rhino robin rook salmon
    seal shark sheep shrew skua sloth snail sparrow squid stork swan swift tapir tern tiger toad
    trout turtle viper vole walrus wasp whale wolf wombat wren yak zebra
"""


def random_name() -> str:
    """Return a random name for a new run directory, such as ``brisk-heron``."""
    return f"{_any(_ADJECTIVES.split())}-{_any(_ANIMALS.split())}"


def _any(words: list[str]) -> str:
    # Not the module 'random', which a job may have seeded; 'secrets' takes long to import.
    return words[int.from_bytes(os.urandom(4)) % len(words)]


def require_own(run: Path, uid: int | None = None) -> None:
    """Raise if another user could change a run directory or a folder in it.

    Args:
        run: The run's directory.
        uid: Of the user; by default that of this process.

    Raises:
        EnvironmentFaultError: E380, a directory is another user's and writable by all, or a link
            that another user made.
    """
    ours = {0, os.geteuid() if uid is None else uid}
    for part in _PARTS:
        why = _find_danger(run / part, ours)
        if why:
            raise EnvironmentFaultError.of(
                "E380",
                f"{run / part} {why}",
                "use a directory of your own; or, if you trust everyone here, add --trust-dir",
            )


def require_own_parent(run_dir: Path, uid: int | None = None) -> None:
    """Raise if another user could change ``--run-dir``, by its owner, link or permissions.

    Raises:
        EnvironmentFaultError: E380, see there.
    """
    ours = {0, os.geteuid() if uid is None else uid}
    why = _find_danger(run_dir, ours)
    if why:
        raise EnvironmentFaultError.of(
            "E380",
            f"{run_dir} {why}",
            "choose another --run-dir; or, if you trust everyone here, add --trust-dir",
        )


def _find_danger(path: Path, ours: set[int]) -> str:
    """Return how another user could change a run directory; empty if none can."""
    try:
        named = path.lstat()
        facts = path.stat()
    except OSError:
        # A missing directory or dangling link is reported where it is needed.
        return ""
    if stat.S_ISLNK(named.st_mode) and named.st_uid not in ours:
        return f"is a link that another user (uid {named.st_uid}) made"
    if facts.st_uid not in ours and facts.st_mode & stat.S_IWOTH:
        return f"belongs to another user (uid {facts.st_uid}) and everyone may write into it"
    return ""
