"""Build an ``Inspection``: what a checkpoint holds, as values or text; of a file, epoch or run.

A single file may come from elsewhere, made to crash libhdf5, to keep it busy for ever, or to have
it take all memory. So a child process reads it first, with limits; and what is read afterwards must
be the very bytes that the child has survived.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from jobrun.checkpoint.blob_parts import MOST_LEVELS
from jobrun.checkpoint.checkpoint_file import BlobFacts, FileFacts, inspect_state
from jobrun.checkpoint.hdf5.dataset_names import is_part_of, is_structure
from jobrun.checkpoint.hdf5.dtypes import parse_dtype
from jobrun.checkpoint.read.verified_file import open_state
from jobrun.checkpoint.store_protocol import EpochHold
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.manifest import NAME as MANIFEST
from jobrun.checkpoint.stores.mid_epoch_store import (
    MidEpochStore,
    list_mid_epochs,
    parse_mid_epoch_name,
)
from jobrun.checkpoint.stores.read_locks import hold_chosen
from jobrun.core.child_process import run_and_capture
from jobrun.core.errors import CheckpointError, JobrunError, UsageError
from jobrun.core.events import CheckpointTimes
from jobrun.core.files.json_files import parse_json, read_lines
from jobrun.core.partly_compared import PartlyCompared
from jobrun.core.stop_signals import signal_name
from jobrun.core.text.big_integers import integer_text
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.object_url import is_object_url
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.readers import POSITION, POSITION_PREFIX
from jobrun.graph.steps import STATE_DIRS
from jobrun.runner.identity.recorded_job import is_from_python
from jobrun.runner.rundir.logs import read_events
from jobrun.runner.rundir.lost_epochs import require_newest_epoch
from jobrun.runner.rundir.object_store_run import download_temporarily, remote_run, split_target
from jobrun.runner.rundir.run_directories import EVENTS_NAME, Run, find_run, newest_run
from jobrun.runner.rundir.run_json import RECORD_NAME
from jobrun.runner.rundir.spec_folder import load_recorded_spec
from jobrun.runner.saved_progress import from_json
from jobrun.runtime.records.reader_position import Position, decode_positions
from jobrun.values.blob_kinds import Value

_EPOCH = lazy_pattern(r"epoch-(\d+)")

_MOST_ITEMS = 40

_TIMEOUT_S = 60.0
_CPU_S = 30
# Memory for the child that reads an untrusted file: the interpreter, numpy and h5py, and
# so many copies of the file.
_ROOM_BYTES = 1 << 30
_COPIES = 6
_SANDBOX = """
import json, resource, sys
path, places, bytes_, seconds = sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:5])
sys.path[:] = places
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
from jobrun.checkpoint.checkpoint_file import inspect_state
from jobrun.core.errors import JobrunError
try:
    said = {"digest": inspect_state(path).header.digest}
except JobrunError as error:
    fault = error.faults[0]
    said = {"fault": [fault.code, fault.message, fault.mend]}
print(json.dumps(said))
"""


class Inspection(Struct, frozen=True):
    """The facts about a verified checkpoint, or about one verified file of it.

    Attributes:
        path: Of the file, or of the epoch's directory.
        epoch: 0 is what init made.
        run_id: Of the run that wrote it.
        age_s: Seconds since it was written.
        files: One per node.
        spec_digest: Of the spec that ran; empty for a single file.
        metrics: The job's metrics after that epoch.
        times: How long saving it took; None if not logged.
        records: Not a whole epoch: saved after so many of its records; 0 for a whole one.
        streams: Within an epoch, the random streams in use: the generator's name by its place.
        ahead: After how many records the next epoch is saved, too; 0 when it is not.
    """

    path: str
    epoch: int
    run_id: str
    age_s: float
    files: tuple[FileFacts, ...]
    spec_digest: str = ""
    generation: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    times: CheckpointTimes | None = None
    records: int = 0
    ahead: int = 0
    streams: Mapping[str, str] = field(default_factory=dict)


class CheckpointLocation(PartlyCompared, frozen=True):
    """The location of a checkpoint: its run, epoch and directory.

    Attributes:
        path: Of the file, or of the epoch's directory.
        store: Of the epoch; None for a single file.
        epoch: Its number; -1 for a single file, which records it itself.
        run: The run's directory, or what would be it.
        records: Not a whole epoch: saved after so many of its records.
        hold: Keeps the epoch from being deleted while this object is in use.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("hold",)

    path: Path
    store: DirectoryStore | None = None
    epoch: int = -1
    run: Path = Path()
    records: int = 0
    hold: EpochHold | None = None


def inspect(target: str, run_dir: Path) -> Inspection:
    """Build the ``Inspection`` of a checkpoint: verify it, and return what it holds.

    Args:
        target: A ``.h5`` file, the directory of an epoch or of a checkpoint within one, a run
            (its newest epoch), or ``RUN@EPOCH``; or the URL of a run in an object store.
        run_dir: Where runs are looked for by name.

    Raises:
        CheckpointError: It is not there, or damaged.
        UsageError: No run is called so.
    """
    if is_object_url(target):
        text, epoch = split_target(target)
        run, epoch = download_temporarily(remote_run(text), epoch)
        inspection = inspect(f"{run.path}@{epoch}", run_dir)
        return replace(inspection, path=f"{text}@{epoch}")
    location = locate_checkpoint(target, run_dir)
    if location.store is None:
        return _of_file(location.path)
    inspection = _of_store(location.store, location.epoch, location.run, location.records)
    if location.records:
        return inspection
    ahead = [
        records
        for number, records in list_mid_epochs(str(location.path.parent))
        if number == location.epoch + 1
    ]
    return replace(inspection, ahead=max(ahead, default=0))


def locate_checkpoint(target: str, run_dir: Path) -> CheckpointLocation:
    """Locate the checkpoint of an ``Inspection``: a file, a directory, or a run.

    Raises:
        CheckpointError: It is not there; or, of a run, E357: its newest epoch is gone.
        UsageError: No run is called so.
    """
    path = Path(target)
    if path.is_file() and path.name != RECORD_NAME:
        return CheckpointLocation(path)
    whole = path.resolve()
    directory = _EPOCH.fullmatch(whole.name) if path.is_dir() else None
    within = parse_mid_epoch_name(whole.name) if path.is_dir() else None
    if within:
        store = MidEpochStore(str(whole.parent), within[1])
        hold = store.hold(within[0])
        return CheckpointLocation(whole, store, within[0], whole.parent.parent, within[1], hold)
    if directory:
        return _epoch_place(whole.parent, directory[1], whole.parent.parent)
    name, at, epoch = target.rpartition("@")
    if not at:
        name, epoch = target, ""
    run = find_run(name, run_dir)
    root = checkpoint_directory(run)
    if epoch in ("", "latest"):
        require_newest_epoch(run, partial(stored_epochs, run))
    return _epoch_place(root, epoch, run.path)


def _epoch_place(root: Path, text: str, run: Path) -> CheckpointLocation:
    store = DirectoryStore(str(root))
    epoch, hold = hold_chosen(lambda: _epoch(text, root), store.hold, str(root))
    return CheckpointLocation(Path(store.path(epoch)), store, epoch, run, hold=hold)


def _of_file(path: Path) -> Inspection:
    facts = inspect_guarded(str(path))
    header = facts.header
    return Inspection(str(path), header.epoch, header.run_id, _age_s(path), (facts,))


def _of_store(store: DirectoryStore, epoch: int, run: Path, records: int = 0) -> Inspection:
    damage = store.verify(epoch)
    if damage is not None:
        raise CheckpointError.of(
            "E407",
            f"epoch {epoch} in {Path(store.path(epoch)).parent} is damaged: {damage.reason}",
            _listed(tuple(other for other in store.epochs() if other != epoch)),
        )
    manifest = store.manifest(epoch)
    folder = Path(store.path(epoch))
    return Inspection(
        path=str(folder),
        epoch=epoch,
        run_id=manifest.run_id,
        age_s=_age_s(folder / MANIFEST),
        files=tuple(inspect_state(str(folder / file.name)) for file in manifest.files),
        spec_digest=manifest.spec_digest,
        generation=manifest.generation,
        metrics=dict(from_json(manifest.runner).metrics),
        times=None if records else saved_times(run, epoch, manifest.generation),
        records=records,
        streams=_streams(manifest.runner.get("midway")),
    )


def _streams(progress: Any) -> dict[str, str]:
    """List for an ``Inspection`` the kinds of the random streams whose states are stored."""
    streams = progress.get("streams") if isinstance(progress, Mapping) else None
    if not isinstance(streams, Mapping):
        return {}
    return {
        str(stream): str(state.get("bit_generator", "?"))
        for stream, state in streams.items()
        if isinstance(state, Mapping)
    }


def measure_state_directories(run_dir: Path, job: str) -> dict[str, int]:
    """Read how much the newest checkpoint of a job's newest run holds of each ``state_dir``.

    Returns:
        Bytes by node and name (``solver.own``); empty if there is no checkpoint to be read.
    """
    sizes: dict[str, int] = {}
    with contextlib.suppress(JobrunError, OSError):
        run = newest_run(run_dir, job)
        if run is None:
            return {}
        store = DirectoryStore(str(checkpoint_directory(run)))
        epoch = max(store.epochs(), default=-1)
        for file in store.manifest(epoch).files if epoch >= 0 else ():
            with open_state(str(Path(store.path(epoch), file.name))) as state:
                index = state.index
                for name, row in index.blob_rows().items():
                    if name.startswith(STATE_DIRS):
                        key = f"{file.node}.{name.removeprefix(STATE_DIRS)}"
                        sizes[key] = int(index.type_of(row).shape[0])
    return sizes


def sort_objects_first(blobs: tuple[BlobFacts, ...]) -> tuple[BlobFacts, ...]:
    """Sort inspected blobs so that an object's own entry comes before the values inside it."""
    order = {blob.name.partition("/")[0]: at for at, blob in reversed([*enumerate(blobs)])}
    return tuple(
        sorted(blobs, key=lambda b: (order[b.name.partition("/")[0]], not render_structure(b)))
    )


def stored_epochs(run: Run) -> tuple[int, ...]:
    """List the epochs of a run that its directory of checkpoints has, ascending."""
    return DirectoryStore(str(checkpoint_directory(run))).epochs()


def checkpoint_directory(run: Run) -> Path:
    """Find the directory with a run's checkpoints for an ``Inspection``; the spec may name it."""
    inside = run.path / "checkpoints"
    if DirectoryStore(str(inside)).epochs():
        return inside
    if is_from_python(run):
        return inside
    # Only the spec knows of another place.
    other = getattr(load_recorded_spec(run).spec.checkpoint, "dir", None)
    return run.folder / other / run.record.job / run.path.name if other else inside


def _epoch(text: str, root: Path) -> int:
    known = DirectoryStore(str(root)).epochs()
    if not known:
        raise CheckpointError.of(
            "E408", f"there is no checkpoint in {root}", "let the run save an epoch first"
        )
    if text in ("", "latest"):
        return known[-1]
    if not text.isdecimal():
        raise UsageError.of(
            "E408", f"'{text}' is not the number of an epoch", "write RUN@12, or RUN@latest"
        )
    if int(text) not in known:
        raise CheckpointError.of(
            "E408", f"there is no checkpoint of epoch {text} in {root}", _listed(known)
        )
    return int(text)


def _listed(epochs: tuple[int, ...]) -> str:
    return f"there are {', '.join(map(str, epochs))}" if epochs else "there is none"


def _age_s(path: Path) -> float:
    return max(0.0, time.time() - path.stat().st_mtime)


def select_blobs(inspection: Inspection, node: str, blob: str) -> tuple[FileFacts, ...]:
    """Select the files and blobs of an ``Inspection`` by name; all by default.

    Raises:
        UsageError: There is no such node or blob.
    """
    files = [file for file in inspection.files if node in ("", file.header.node)]
    if not files:
        known = [file.header.node for file in inspection.files]
        raise UsageError.of("E406", f"no node '{node}' in it", did_you_mean(node, known))
    if not blob:
        return tuple(files)
    selected = [
        replace(file, blobs=blobs)
        for file in files
        if (blobs := tuple(facts for facts in file.blobs if is_part_of(facts.name, blob)))
    ]
    if not selected:
        known = [name for file in files for name in file.names]
        raise UsageError.of("E406", f"no blob '{blob}' in it", did_you_mean(blob, known))
    return tuple(selected)


def inspection_values(
    inspection: Inspection, files: tuple[FileFacts, ...], *, values: bool
) -> dict[str, Any]:
    """Convert an ``Inspection`` to JSON values, with the values of blobs on request."""
    return {
        "path": inspection.path,
        "epoch": inspection.epoch,
        "records": inspection.records,
        "streams": dict(inspection.streams),
        "run_id": inspection.run_id,
        "generation": inspection.generation,
        "age_s": round(inspection.age_s, 3),
        "spec_digest": inspection.spec_digest,
        "metrics": dict(inspection.metrics),
        "saved": None if inspection.times is None else to_builtins(inspection.times),
        "nodes": [
            {
                "node": file.header.node,
                "file": file.path,
                "size_bytes": file.size_bytes,
                "digest": file.header.digest,
                "blobs": [_blob(blob, values=values) for blob in file.blobs],
            }
            for file in files
        ],
    }


def _blob(blob: BlobFacts, *, values: bool) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": blob.name,
        "kind": blob.kind,
        "dtype": dtype_name(blob.dtype),
        "shape": list(blob.shape),
        "size_bytes": blob.size_bytes,
        "min": blob.minimum,
        "mean": blob.mean,
        "max": blob.maximum,
        "nan": blob.nans,
    }
    if render_position(blob):
        content["columns"] = list(POSITION)
    if values:
        content["value"] = _json_value(blob.value)
    return content


def _json_value(value: Any) -> Any:
    plain = getattr(value, "value", value)
    if isinstance(plain, str | int):
        return plain
    array = np.asarray(plain)
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], axis=-1).tolist()
    return array.tolist() if array.dtype.kind in "biuf" else array.astype(str).tolist()


def saved_times(run: Path, epoch: int, generation: int) -> CheckpointTimes | None:
    """Read from a run's log, for an ``Inspection``, the duration of the epoch's save; or None.

    Args:
        run: The run's directory.
        epoch: Which epoch.
        generation: That in which it was saved.
    """
    saved = None
    with contextlib.suppress(OSError):
        for record in read_events(read_lines(run / EVENTS_NAME), (CheckpointTimes,)):
            event = record.event
            if (event.action, event.epoch, record.generation) == ("save", epoch, generation):
                saved = event
    return saved


def render_position(blob: BlobFacts) -> str:
    """Render a reader's stored position, as an ``Inspection`` shows it; empty for other blobs."""
    is_one = blob.name.startswith(POSITION_PREFIX) and blob.shape[1:] == (len(POSITION),)
    return "; ".join(map(_share_words, decode_positions(np.asarray(blob.value)))) if is_one else ""


def render_structure(blob: BlobFacts) -> str:
    """Render the structure of a container or object in an ``Inspection`` as text."""
    if not is_structure(blob.name):
        return ""
    try:
        structure = parse_json(str(blob.value), MOST_LEVELS)
        kind = structure.get("object")
        return f"object of class {kind}" if kind else str(next(iter(structure["tree"])))
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return "container"


def _share_words(position: Position) -> str:
    if not position.passes:
        return "nothing read yet"
    share = f"share {position.part + 1} of {position.parts}: " if position.parts > 1 else ""
    of_all = f" of {position.length}" if position.length >= 0 and position.parts == 1 else ""
    end = ", all read" if position.finished else ""
    records = f"{position.records} records, {position.rows}{of_all} rows{end}"
    return f"{share}pass {position.passes}, {records}"


def dtype_name(text: str) -> str:
    """Render the dtype of a blob in an ``Inspection`` as text: ``float64`` for ``<f8``."""
    try:
        return str(parse_dtype(text))
    except ValueError:
        return text


def value_text(value: Value) -> str:
    """Render the value of an inspected blob as text, with its middle elided if it is long."""
    if isinstance(value, str):
        return repr(value)
    plain = getattr(value, "value", value)
    if type(plain) is int:
        return integer_text(plain)
    array = np.asarray(plain)
    if array.ndim == 0:
        return str(array.item()) if array.dtype.kind in "biufc" else str(array[()])
    return np.array2string(array, threshold=_MOST_ITEMS, max_line_width=96)


def inspect_guarded(path: str, *, timeout_s: float = _TIMEOUT_S) -> FileFacts:
    """Inspect an untrusted checkpoint file in a sandbox, a child process that may crash.

    Args:
        path: The file.
        timeout_s: How long reading may take.

    Raises:
        CheckpointError: It is no checkpoint, it is damaged, or E384: its reader died of it.
    """
    answer = _read_in_child(path, timeout_s)
    if "fault" in answer:
        code, message, mend = answer["fault"]
        raise CheckpointError.of(code, message, mend)
    facts = inspect_state(path)
    if facts.header.digest != answer["digest"]:
        raise _deadly(path, "it changes while it is read")
    return facts


def _read_in_child(path: str, timeout_s: float) -> dict[str, Any]:
    size_bytes = Path(path).stat().st_size if Path(path).is_file() else 0
    limits = (str(_ROOM_BYTES + _COPIES * size_bytes), str(_CPU_S + (size_bytes >> 26)))
    import_paths = json.dumps([entry for entry in sys.path if entry])
    try:
        done = run_and_capture(
            [
                sys.executable,
                "-I",
                "-c",
                _SANDBOX,
                str(Path(path).absolute()),
                import_paths,
                *limits,
            ],
            limit_s=timeout_s,
            environment={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
    except TimeoutError:
        raise _deadly(path, f"reading it takes longer than {timeout_s:g} s") from None
    if done.returncode < 0:
        name = signal_name(-done.returncode)
        raise _deadly(path, f"the process that read it was ended by {name}")
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.strip().rpartition("\n")[2]
        raise _deadly(path, f"the process that read it failed ({last or 'no word'})") from None
    return answer


def _deadly(path: str, why: str) -> CheckpointError:
    return CheckpointError.of(
        "E384",
        f"{path} cannot be read safely: {why}",
        "do not use it; no file written by jobrun does this",
    )
