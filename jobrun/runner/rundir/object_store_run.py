"""Read, lease, fetch and verify a run in an object store; write its record and spec there.

::

    JOB/RUN/run.json            what the run is, and the files of its spec/, as one object
    JOB/RUN/epoch-000012/…      see ``checkpoint.objectstore``
    JOB/RUN/g1/epoch-000013/…   of a later generation
    JOB/RUN/newest.json         the newest epoch that was uploaded, by which a loss is noticed
"""

from __future__ import annotations

import atexit
import contextlib
import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from jobrun.checkpoint.store_protocol import Damage
from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.object_store import ObjectStore
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, UsageError
from jobrun.core.events import Listener, Noted, ignore
from jobrun.core.files.disk import disk_faults, make_directory, read_regular, write_file
from jobrun.core.files.json_files import parse_json
from jobrun.core.text.object_url import ObjectUrl, parse_object_url
from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.rundir.journal import Journal
from jobrun.runner.rundir.run_directories import Run, open_run
from jobrun.runner.rundir.run_json import (
    RECORD_NAME,
    RunRecord,
    build_record,
    read_record,
    write_record,
)

_FORMAT = 1
_MOST_BYTES = 1 << 26
_GENERATION = lazy_pattern(r"g([1-9][0-9]{0,8})")
_EPOCH = lazy_pattern(r"(.+?)(?:/g[0-9]+)?/epoch-([0-9]{6,18})")
_FILE = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_. +-]{0,200}")
_PARTS = ("spec", "checkpoints", "logs", "artifacts", "superseded")

NEWEST_NAME = "newest.json"
HOLDER_NAME = "holder"
_MOST_HOLDER_BYTES = 1 << 10


class RemoteRun(Struct, frozen=True):
    """A run in an object store.

    Attributes:
        url: Its place.
        record: As it was at its last upload; nothing of what happened since.
        files: Those of its folder ``spec/``, by name.
    """

    url: ObjectUrl
    record: RunRecord
    files: dict[str, str]


def upload_record(run: Run, url: ObjectUrl) -> None:
    """Upload a run's record and spec to an object store URL; raise if another run is there.

    Raises:
        EnvironmentFaultError: Another run is there, or the store refuses.
    """
    bucket = Bucket(url)
    present = bucket.read(RECORD_NAME, _MOST_BYTES)
    if present is not None and _parsed(present, url).record.run_id != run.record.run_id:
        raise EnvironmentFaultError.of(
            "E332",
            f"{url} holds another run",
            "see which run made it; move it away, or upload to another place, then resume",
        )
    spec = run.path / "spec"
    with disk_faults("E354", f"read {spec}"):
        files = {path.name: read_regular(path).decode() for path in sorted(spec.iterdir())}
    content = {"format": _FORMAT, "run": to_builtins(open_run(run.path).record), "files": files}
    data = json.dumps(content, indent=2).encode()
    bucket.put(RECORD_NAME, [data], len(data))


def split_target(text: str) -> tuple[str, int | None]:
    """Split ``s3://…/RUN@12``, an epoch of a run in an object store, into URL and epoch.

    Raises:
        UsageError: Behind the last ``@`` is no number.
    """
    text = text.rstrip("/")
    if match := _EPOCH.fullmatch(text):
        return match[1], int(match[2])
    scheme, _, path = text.partition("://")
    name, at, epoch = path.rpartition("@")
    if not at or "/" in epoch:
        return text, None
    if not (epoch == "latest" or (epoch.isascii() and epoch.isdecimal())):
        raise UsageError.of(
            "E408", f"'{epoch}' is not the number of an epoch", "write URL@12, or URL@latest"
        )
    return f"{scheme}://{name}", None if epoch == "latest" else int(epoch)


def remote_run(text: str) -> RemoteRun:
    """Read ``run.json`` of the run at a URL in an object store, and return the run.

    Raises:
        UsageError: It is no URL of a place.
        CheckpointError: There is no run.
        EnvironmentFaultError: The store refuses.
    """
    url = parse_run_url(text)
    data = Bucket(url).read(RECORD_NAME, _MOST_BYTES)
    if data is None:
        raise _no_run(url, "there is no record of a run", "")
    return _parsed(data, url)


def parse_run_url(text: str) -> ObjectUrl:
    """Parse the URL of a run in an object store (``s3://…``); raise E335 for any other text.

    Raises:
        UsageError: It is no URL of a place in an object store.
    """
    try:
        return parse_object_url(text)
    except ValueError as error:
        mend = "write for example s3://bucket/runs/JOB/RUN"
        raise UsageError.of("E335", str(error), mend) from error


def epochs_below(url: ObjectUrl) -> dict[int, ObjectStore]:
    """List the epochs of a run in an object store; return the ``ObjectStore`` of each.

    Of an epoch that was computed again, after the run went back, it is that of the newest time.
    """
    names = (_GENERATION.fullmatch(name) for name in Bucket(url).folders())
    numbers = sorted(int(match[1]) for match in names if match)
    stores = [ObjectStore(url), *(ObjectStore(url / f"g{number}") for number in numbers)]
    stores_by_epoch: dict[int, ObjectStore] = {}
    for store in stores:
        epochs = store.epochs()
        if epochs:
            # Later epochs of an older generation were superseded by the first epoch of this one.
            stores_by_epoch = {
                epoch: store for epoch, store in stores_by_epoch.items() if epoch < epochs[0]
            }
            stores_by_epoch |= dict.fromkeys(epochs, store)
    return stores_by_epoch


def record_newest(url: ObjectUrl, epoch: int, generation: int) -> None:
    """Record in an object store that an epoch of a run is there, unless a newer one is recorded."""
    bucket = Bucket(url)
    if (generation, epoch) > _read_newest(bucket):
        data = json.dumps({"epoch": epoch, "generation": generation}).encode()
        bucket.put(NEWEST_NAME, [data], len(data))


def _read_newest(bucket: Bucket) -> tuple[int, int]:
    """Read the generation and number of a run's newest epoch; (0, -1) where none is recorded."""
    data = bucket.read(NEWEST_NAME, _MOST_HOLDER_BYTES)
    if data is None:
        return 0, -1
    try:
        content = parse_json(data)
        return int(content["generation"]), int(content["epoch"])
    except (ValueError, TypeError, KeyError) as error:
        raise _no_run(bucket.url, f"{NEWEST_NAME} is damaged ({error})", "") from error


def find_lost_upload(url: ObjectUrl) -> int:
    """Return the newest epoch that was uploaded for a run if it is not there any more, else -1."""
    generation, epoch = _read_newest(Bucket(url))
    epochs_url = url / f"g{generation}" if generation else url
    return -1 if epoch < 0 or epoch in ObjectStore(epochs_url).epochs() else epoch


def _require_epochs(url: ObjectUrl, epoch: int | None) -> dict[int, ObjectStore]:
    """Return the epochs of a run in an object store, or only a given one; refuse none (E335)."""
    there = epochs_below(url)
    if not there or (epoch is not None and epoch not in there):
        subject = "epoch" if epoch is None else f"epoch {epoch}"
        raise _no_run(url, f"there is no {subject}", ", ".join(map(str, there)))
    return there if epoch is None else {epoch: there[epoch]}


def _choose_epochs(url: ObjectUrl, epoch: int | None) -> dict[int, ObjectStore]:
    """List the epochs of a run in an object store, newest first; only ``epoch`` if it is given.

    Raises:
        CheckpointError: E335, there is none; E357, the newest that was uploaded is gone.
    """
    there = _require_epochs(url, epoch)
    if epoch is not None:
        return there
    lost = find_lost_upload(url)
    if lost >= 0:
        raise CheckpointError.of(
            "E357",
            f"epoch {lost} was uploaded to {url} and is gone; there are "
            f"{', '.join(map(str, there))}",
            f"put it back, or name an older one: {url}@{max(there)} (resume: --epoch {max(there)})",
        )
    return dict(sorted(there.items(), reverse=True))


def fetch_run(
    remote: RemoteRun, directory: Path, epoch: int | None = None, listen: Listener = ignore
) -> Run:
    """Download a run and one of its epochs from an object store into a new run directory.

    Args:
        remote: The run.
        directory: Its directory.
        epoch: The one that is fetched; None for the newest that is whole.
        listen: Receives a warning for each newer one that is damaged.

    Raises:
        CheckpointError: There is no such epoch, or none that is whole; or the newest is gone.
        EnvironmentFaultError: The store refuses, or writing failed.
    """
    wanted = _choose_epochs(remote.url, epoch)
    with _appearing(directory) as staged:
        store = DirectoryStore(str(staged / "checkpoints"))
        chosen = _fetch_first(wanted, store, listen)
        manifest = store.manifest(chosen)
        record = _again(remote.record, manifest.generation, chosen)
        for name, text in remote.files.items():
            write_file(staged / "spec" / name, text.encode(), private=True)
        with contextlib.closing(Journal.open(staged, record.run_id)) as journal:
            journal.acknowledge(chosen, manifest.generation)
        copy_lease(remote.url, staged)
        write_record(staged, record)
    return open_run(directory)


def local_copy(
    remote: RemoteRun, run_dir: Path, epoch: int | None = None, listen: Listener = ignore
) -> Run:
    """Return the local copy of a run in an object store; download it if needed.

    Raises:
        UsageError: E335, another run has that name, or the copy lacks an epoch that is there.
        CheckpointError: As of ``fetch_run``.
    """
    directory = run_dir.absolute() / remote.record.job / Path(remote.url.prefix).name
    if not directory.exists():
        with disk_faults("E354", f"make {directory.parent}"):
            make_directory(directory.parent)
        return fetch_run(remote, directory, epoch, listen)
    if (directory / RECORD_NAME).is_file() and read_record(
        directory
    ).run_id == remote.record.run_id:
        _require_here(directory, remote.url, epoch)
        return open_run(directory)
    raise UsageError.of(
        "E335",
        f"{directory} exists already, and is not the run at {remote.url}",
        "name another --run-dir",
    )


def _require_here(directory: Path, url: ObjectUrl, epoch: int | None) -> None:
    """Raise an error if an epoch is in an object store but not in the run's local copy.

    It is not put among those that are here: the copy may have continued in another way since.
    """
    here = DirectoryStore(str(directory / "checkpoints")).epochs()
    if here and epoch is not None and epoch not in here and epoch in epochs_below(url):
        raise UsageError.of(
            "E335",
            f"{directory} has epochs {', '.join(map(str, here))}, but not {epoch}, "
            f"which is at {url}",
            f"name another --run-dir, to which epoch {epoch} is downloaded",
        )


def download_temporarily(remote: RemoteRun, epoch: int | None = None) -> tuple[Run, int]:
    """Download a run with one epoch from the object store to a directory deleted at exit.

    Raises:
        CheckpointError: There is no such epoch, or it is damaged.
    """
    chosen = next(iter(_choose_epochs(remote.url, epoch)))
    root = tempfile.mkdtemp(prefix="jobrun-fetched-")
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return fetch_run(remote, Path(root) / Path(remote.url.prefix).name, chosen), chosen


def verify_remote(
    target: str, on_verified: Callable[[int, Damage | None], None]
) -> tuple[str, dict[int, Damage | None]]:
    """Read and verify a run's epochs in an object store; return its name, and damage by epoch.

    Args:
        target: The URL of a run: all its epochs. Or of one of its epochs.
        on_verified: Receives each epoch when it has been verified.

    Raises:
        UsageError: It is no URL of a place.
        CheckpointError: There is no such epoch.
    """
    text, wanted = split_target(target)
    url = parse_run_url(text)
    damages: dict[int, Damage | None] = {}
    for epoch, store in _require_epochs(url, wanted).items():
        damages[epoch] = store.verify(epoch)
        store.close()
        on_verified(epoch, damages[epoch])
    lost = find_lost_upload(url) if wanted is None else -1
    if lost >= 0:
        damages[lost] = Damage(lost, "it was uploaded and is gone")
        on_verified(lost, damages[lost])
    return Path(url.prefix).name, damages


def _fetch_first(wanted: dict[int, ObjectStore], store: DirectoryStore, listen: Listener) -> int:
    errors: list[CheckpointError] = []
    for epoch, source in wanted.items():
        try:
            source.fetch(epoch, store)
        except CheckpointError as error:
            errors.append(error)
        else:
            for damage in errors:
                reason = "; ".join(fault.message for fault in damage.faults)
                listen(
                    Noted(
                        f"epoch {epoch} is taken, as a newer one is unusable: {reason}", "warning"
                    )
                )
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
def _appearing(directory: Path) -> Iterator[Path]:
    staged = directory.with_name(f".{directory.name}.fetched")
    with disk_faults("E354", f"make {directory}"):
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(mode=0o755)
        for part in _PARTS:
            (staged / part).mkdir()
    try:
        yield staged
        with disk_faults("E354", f"make {directory}"):
            staged.rename(directory)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _parsed(data: bytes, url: ObjectUrl) -> RemoteRun:
    try:
        content: Any = parse_json(data)
        if content["format"] != _FORMAT:
            raise _no_run(url, f"its record is of format {content['format']!r}", "")
        record = build_record(content["run"])
        files = {str(name): str(text) for name, text in content["files"].items()}
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


class RunLease:
    """One invocation's lease of a run in an object store.

    Args:
        run: The run's directory.
        url: The run's place.
    """

    def __init__(self, run: Path, url: ObjectUrl) -> None:
        self._run = run
        self._url = url
        self._word = ""

    def require_lease(self) -> None:
        """Take the lease of a run in an object store; raise if another directory holds it.

        Raises:
            EnvironmentFaultError: E332, another one does; or the store refuses.
        """
        bucket = Bucket(self._url)
        holder = _word_of(bucket)
        known = (self._word,) if self._word else _known(self._run)
        if holder and holder not in known:
            raise EnvironmentFaultError.of(
                "E332",
                f"the run in {self._url} was continued from another directory than {self._run}",
                f"continue there; or fetch it again: jobrun resume {self._url} --run-dir ANOTHER",
            )
        if not holder or not self._word:
            word = secrets.token_hex(8)
            # The local file first: then a word in the store is known here even after a crash.
            _write(self._run, (*_known(self._run), word))
            bucket.put(HOLDER_NAME, [word.encode()], len(word))
            self._word = word


def copy_lease(url: ObjectUrl, run: Path) -> None:
    """Copy the lease of a run in an object store to the run directory fetched from there."""
    word = _word_of(Bucket(url))
    if word:
        _write(run, (word,))


def _word_of(bucket: Bucket) -> str:
    return (bucket.read(HOLDER_NAME, _MOST_HOLDER_BYTES) or b"").decode("ascii", "replace")


def _known(run: Path) -> tuple[str, ...]:
    with disk_faults("E354", f"read {run / HOLDER_NAME}"):
        try:
            return tuple(read_regular(run / HOLDER_NAME).decode("ascii", "replace").split())
        except FileNotFoundError:
            return ()


def _write(run: Path, words: tuple[str, ...]) -> None:
    with disk_faults("E354", f"write {run / HOLDER_NAME}"):
        write_file(run / HOLDER_NAME, "".join(f"{word}\n" for word in words).encode())
