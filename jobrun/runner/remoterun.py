"""A run in an object store: its record and its spec beside its epochs, and the run made of them.

::

    JOB/RUN/run.json            what the run is, and the files of its spec/, as one object
    JOB/RUN/epoch-000012/…      see ``checkpoint.objectstore``
    JOB/RUN/g1/epoch-000013/…   of a later generation
"""

from __future__ import annotations

import atexit
import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobrun.checkpoint.bucket import Bucket
from jobrun.checkpoint.directory import DirectoryStore
from jobrun.checkpoint.objectstore import ObjectStore
from jobrun.checkpoint.store import Damage
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, UsageError
from jobrun.core.objecturl import ObjectUrl, parse_object_url
from jobrun.runner.durable import disk_faults, make_directory, write_whole
from jobrun.runner.holding import take_along
from jobrun.runner.journal import Journal
from jobrun.runner.record import RECORD_NAME, RunRecord, read_record, write_record
from jobrun.runner.rundir import Run, open_run

_FORMAT = 1
_MOST_BYTES = 1 << 26
_GENERATION = re.compile(r"g([1-9][0-9]{0,8})")
_EPOCH = re.compile(r"(.+?)(?:/g[0-9]+)?/epoch-([0-9]{6,18})")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. +-]{0,200}")
_PARTS = ("spec", "checkpoints", "logs", "artifacts", "superseded")


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run that is in an object store.

    Attributes:
        url: Its place.
        record: As it was at its last upload; nothing of what happened since.
        files: Those of its folder ``spec/``, by name.
    """

    url: ObjectUrl
    record: RunRecord
    files: dict[str, str]


def bring_record(run: Run, url: ObjectUrl) -> None:
    """Put the record and the spec of a run there, in place of older ones.

    Raises:
        EnvironmentFaultError: Another run is there, or the store says no.
    """
    bucket = Bucket(url)
    found = bucket.read(RECORD_NAME, _MOST_BYTES)
    if found is not None and _parsed(found, url).record.run_id != run.record.run_id:
        raise EnvironmentFaultError.of(
            "E332",
            f"{url} is the place of another run",
            "see which run made it; move it away, or upload to another place, then resume",
        )
    spec = run.path / "spec"
    with disk_faults(f"read {spec}"):
        files = {path.name: path.read_text("utf-8") for path in sorted(spec.iterdir())}
    form = {"format": _FORMAT, "run": asdict(open_run(run.path).record), "files": files}
    data = json.dumps(form, indent=2).encode()
    bucket.put(RECORD_NAME, [data], len(data))


def split_target(text: str) -> tuple[str, int | None]:
    """The URL of a run, and the epoch of ``URL@12`` or ``URL/epoch-000012``; None for the newest.

    Raises:
        UsageError: Behind the last ``@`` stands no number.
    """
    text = text.rstrip("/")
    if found := _EPOCH.fullmatch(text):
        return found[1], int(found[2])
    scheme, _, rest = text.partition("://")
    name, at, epoch = rest.rpartition("@")
    if not at or "/" in epoch:
        return text, None
    if not (epoch == "latest" or (epoch.isascii() and epoch.isdecimal())):
        raise UsageError.of(
            "E408", f"'{epoch}' is not an epoch's number", "write URL@12, or URL@latest"
        )
    return f"{scheme}://{name}", None if epoch == "latest" else int(epoch)


def remote_run(text: str) -> RemoteRun:
    """The run at a URL. Reads only its record.

    Raises:
        UsageError: It is no URL of a place.
        CheckpointError: There is no run.
        EnvironmentFaultError: The store says no.
    """
    url = parsed_url(text)
    data = Bucket(url).read(RECORD_NAME, _MOST_BYTES)
    if data is None:
        raise _no_run(url, "there is no record of a run", "")
    return _parsed(data, url)


def parsed_url(text: str) -> ObjectUrl:
    """The parts of a URL that a person gave.

    Raises:
        UsageError: It is no URL of a place in an object store.
    """
    try:
        return parse_object_url(text)
    except ValueError as error:
        mend = "write for example s3://bucket/runs/JOB/RUN"
        raise UsageError.of("E335", str(error), mend) from error


def epochs_below(url: ObjectUrl) -> dict[int, ObjectStore]:
    """The epochs of a run in a store, ascending, each with the store of its latest generation."""
    names = (_GENERATION.fullmatch(name) for name in Bucket(url).folders())
    numbers = sorted(int(found[1]) for found in names if found)
    stores = [ObjectStore(url), *(ObjectStore(url / f"g{one}") for one in numbers)]
    found: dict[int, ObjectStore] = {}
    for store in stores:
        epochs = store.epochs()
        if epochs:
            # What an older generation has made after the first of these was gone back behind.
            found = {epoch: one for epoch, one in found.items() if epoch < epochs[0]}
            found |= dict.fromkeys(epochs, store)
    return found


def fetch_run(remote: RemoteRun, place: Path, epoch: int | None = None) -> Run:
    """Make a run of what is in the store, in a directory that is not there, which appears whole.

    Args:
        remote: The run.
        place: Its directory.
        epoch: The one that is fetched; None for the newest that is whole.

    Raises:
        CheckpointError: There is no such epoch, or none that is whole.
        EnvironmentFaultError: The store, or the disk, says no.
    """
    there = epochs_below(remote.url)
    if not there or (epoch is not None and epoch not in there):
        what = "epoch" if epoch is None else f"epoch {epoch}"
        raise _no_run(remote.url, f"there is no {what}", ", ".join(map(str, there)))
    wanted = sorted(there, reverse=True) if epoch is None else [epoch]
    with _appearing(place) as beside:
        store = DirectoryStore(str(beside / "checkpoints"))
        chosen = _fetch_first(there, wanted, store)
        manifest = store.manifest(chosen)
        record = _again(remote.record, manifest.generation, chosen)
        for name, text in remote.files.items():
            write_whole(beside / "spec" / name, text.encode())
        with contextlib.closing(Journal.open(beside, record.run_id)) as journal:
            journal.acknowledge(chosen, manifest.generation)
        take_along(remote.url, beside)
        write_record(beside, record)
    return open_run(place)


def local_copy(remote: RemoteRun, run_dir: Path, epoch: int | None = None) -> Run:
    """The run below ``run_dir`` that is this one: fetched, unless it is there already.

    Raises:
        UsageError: E335, another run has that name.
        CheckpointError: As of ``fetch_run``.
    """
    place = run_dir.absolute() / remote.record.job / Path(remote.url.prefix).name
    if not place.exists():
        with disk_faults(f"make {place.parent}"):
            make_directory(place.parent)
        return fetch_run(remote, place, epoch)
    if (place / RECORD_NAME).is_file() and read_record(place).run_id == remote.record.run_id:
        return open_run(place)
    raise UsageError.of(
        "E335", f"{place} is there already, and is not the run at {remote.url}",
        "name another --run-dir",
    )  # fmt: skip


def copy_for_now(remote: RemoteRun, epoch: int | None = None) -> tuple[Run, int]:
    """A run with that epoch, or else its newest, that goes with this process; and the epoch.

    Raises:
        CheckpointError: There is no such epoch, or it is damaged.
    """
    there = epochs_below(remote.url)
    chosen = max(there, default=-1) if epoch is None else epoch
    root = tempfile.mkdtemp(prefix="jobrun-fetched-")
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return fetch_run(remote, Path(root) / Path(remote.url.prefix).name, chosen), chosen


def verify_remote(
    target: str, told: Callable[[int, Damage | None], None]
) -> tuple[str, dict[int, Damage | None]]:
    """Fetch epochs of a run in an object store and compare every byte; its name, and how each is.

    Args:
        target: The URL of a run: all its epochs. Or of one of its epochs.
        told: Is told of each as it was looked at.

    Raises:
        UsageError: It is no URL of a place.
        CheckpointError: There is no such epoch.
    """
    text, wanted = split_target(target)
    url = parsed_url(text)
    there = epochs_below(url)
    if not there or (wanted is not None and wanted not in there):
        what = "epoch" if wanted is None else f"epoch {wanted}"
        raise _no_run(url, f"there is no {what}", ", ".join(map(str, there)))
    found: dict[int, Damage | None] = {}
    for epoch in there if wanted is None else (wanted,):
        found[epoch] = there[epoch].verify(epoch)
        there[epoch].close()
        told(epoch, found[epoch])
    return Path(url.prefix).name, found


def _fetch_first(there: dict[int, ObjectStore], wanted: list[int], store: DirectoryStore) -> int:
    errors: list[CheckpointError] = []
    for epoch in wanted:
        try:
            there[epoch].fetch(epoch, store)
        except CheckpointError as error:
            errors.append(error)
        else:
            return epoch
    raise CheckpointError(*(fault for error in errors for fault in error.faults))


def _again(record: RunRecord, generation: int, epoch: int) -> RunRecord:
    return RunRecord(
        **{
            **asdict(record),
            "accepted": record.accepted,
            "resized": record.resized,
            "status": "stopped",
            "exit_code": None,
            "reason": "brought here from an object store",
            "generation": generation,
            "epoch": epoch,
        }
    )


@contextlib.contextmanager
def _appearing(place: Path) -> Iterator[Path]:
    beside = place.with_name(f".{place.name}.fetched")
    with disk_faults(f"make {place}"):
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(mode=0o755)
        for part in _PARTS:
            (beside / part).mkdir()
    try:
        yield beside
        with disk_faults(f"make {place}"):
            beside.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _parsed(data: bytes, url: ObjectUrl) -> RemoteRun:
    try:
        form: Any = json.loads(data)
        if form["format"] != _FORMAT:
            raise _no_run(url, f"its record is of format {form['format']!r}", "")
        given = {**form["run"]}
        for name in ("accepted", "resized"):
            given[name] = tuple(given.get(name, ()))
        record = RunRecord(**given)
        files = {str(name): str(text) for name, text in form["files"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _no_run(url, f"its record is damaged ({error})", "") from error
    names = (record.job, *files)
    if not all(_FILE.fullmatch(name) for name in names) or not isinstance(record.run_id, str):
        raise _no_run(url, "its record names what is no file of a run", "")
    return RemoteRun(url, record, files)


def _no_run(url: ObjectUrl, why: str, there: str) -> CheckpointError:
    mend = "name the place of a run: the URL of 'upload.to', and then /JOB/RUN"
    return CheckpointError.of(
        "E335", f"no run can be made of {url}: {why}", f"epochs there: {there}" if there else mend
    )
