"""What a checkpoint holds, as values: of one file, one epoch, or a run. Shows nothing by itself."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from jobrun.blobs.values import Value
from jobrun.checkpoint.directory import DirectoryStore
from jobrun.checkpoint.dtypes import parse_dtype
from jobrun.checkpoint.hdf5 import BlobFacts, FileFacts, inspect_state
from jobrun.checkpoint.manifest import NAME as MANIFEST
from jobrun.checkpoint.midway import MidwayStore, midways, parsed_name
from jobrun.checkpoint.names import STRUCTURE
from jobrun.checkpoint.wholes import is_of, whole_names
from jobrun.core.errors import CheckpointError, UsageError
from jobrun.core.events import CheckpointTimes
from jobrun.core.names import did_you_mean
from jobrun.core.objecturl import is_object_url
from jobrun.graph.data import POSITION, POSITION_PREFIX
from jobrun.runner.authored import is_from_python
from jobrun.runner.progress import from_json
from jobrun.runner.record import RECORD_NAME
from jobrun.runner.remoterun import copy_for_now, remote_run, split_target
from jobrun.runner.rundir import Run, find_run
from jobrun.runner.specdir import recorded_spec
from jobrun.runtime.standing import Position, positions_of
from jobrun.tools.sandbox import inspect_guarded
from jobrun.tools.times import saved_times

_EPOCH = re.compile(r"epoch-(\d+)")
_MOST_ITEMS = 40


@dataclass(frozen=True, slots=True)
class Inspection:
    """A checkpoint, or one file of it, every byte of it verified.

    Attributes:
        path: Of the file, or of the epoch's directory.
        epoch: 0 is what init made.
        run_id: Of the run that wrote it.
        age_s: Seconds since it was written.
        files: One per node.
        spec_digest: Of the spec that ran; empty for a single file.
        metrics: The job's metrics after that epoch.
        times: How long saving it took; None when no log tells.
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a checkpoint is.

    Attributes:
        path: Of the file, or of the epoch's directory.
        store: Of the epoch; None for a single file.
        epoch: Its number; -1 for a single file, which tells it itself.
        run: The run's directory, or what would be it.
        records: Not a whole epoch: saved after so many of its records.
    """

    path: Path
    store: DirectoryStore | None = None
    epoch: int = -1
    run: Path = Path()
    records: int = 0


def inspect(target: str, run_dir: Path) -> Inspection:
    """Look at a checkpoint.

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
        run, epoch = copy_for_now(remote_run(text), epoch)
        made = inspect(f"{run.path}@{epoch}", run_dir)
        return replace(made, path=f"{text}@{epoch}")
    place = place_of(target, run_dir)
    if place.store is None:
        return _of_file(place.path)
    made = _of_store(place.store, place.epoch, place.run, place.records)
    if place.records:
        return made
    ahead = [records for number, records in midways(str(place.path.parent))
             if number == place.epoch + 1]  # fmt: skip
    return replace(made, ahead=max(ahead, default=0))


def place_of(target: str, run_dir: Path) -> Place:
    """Where the checkpoint is that a person means; see ``inspect``. Reads no checkpoint.

    Raises:
        CheckpointError: It is not there.
        UsageError: No run is called so.
    """
    path = Path(target)
    if path.is_file() and path.name != RECORD_NAME:
        return Place(path)
    whole = path.resolve()
    directory = _EPOCH.fullmatch(whole.name) if path.is_dir() else None
    within = parsed_name(whole.name) if path.is_dir() else None
    if within:
        store = MidwayStore(str(whole.parent), within[1])
        return Place(whole, store, within[0], whole.parent.parent, within[1])
    if directory:
        return _epoch_place(whole.parent, int(directory[1]), whole.parent.parent)
    name, at, epoch = target.rpartition("@")
    if not at:
        name, epoch = target, ""
    run = find_run(name, run_dir)
    root = checkpoints_of(run)
    return _epoch_place(root, _epoch(epoch, root), run.path)


def _epoch_place(root: Path, epoch: int, run: Path) -> Place:
    store = DirectoryStore(str(root))
    return Place(Path(store.path(epoch)), store, epoch, run)


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
    place = Path(store.path(epoch))
    return Inspection(
        path=str(place),
        epoch=epoch,
        run_id=manifest.run_id,
        age_s=_age_s(place / MANIFEST),
        files=tuple(inspect_state(str(place / file.name)) for file in manifest.files),
        spec_digest=manifest.spec_digest,
        generation=manifest.generation,
        metrics=dict(from_json(manifest.runner).metrics),
        times=None if records else saved_times(run, epoch, manifest.generation),
        records=records,
        streams=_streams(manifest.runner.get("midway")),
    )


def _streams(form: Any) -> dict[str, str]:
    """The kind of each random stream that a checkpoint within an epoch keeps the state of."""
    found = form.get("streams") if isinstance(form, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {
        str(place): str(state.get("bit_generator", "?"))
        for place, state in found.items()
        if isinstance(state, Mapping)
    }


def position_words(blob: BlobFacts) -> str:
    """How far a reader is, from the state blob of its position; empty for any other blob."""
    is_one = blob.name.startswith(POSITION_PREFIX) and blob.shape[1:] == (len(POSITION),)
    return "; ".join(map(_share_words, positions_of(np.asarray(blob.value)))) if is_one else ""


def structure_words(blob: BlobFacts) -> str:
    """What a container or an object is, from its structure; empty for any other blob."""
    if not blob.name.endswith(f"/{STRUCTURE}"):
        return ""
    try:
        form = json.loads(str(blob.value))
        kind = form.get("object")
        return f"object of class {kind}" if kind else str(next(iter(form["tree"])))
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return "container"


def heads_first(blobs: tuple[BlobFacts, ...]) -> tuple[BlobFacts, ...]:
    """The blobs in their order, but what an object is before its parts."""
    order = {blob.name.partition("/")[0]: at for at, blob in reversed([*enumerate(blobs)])}
    return tuple(
        sorted(blobs, key=lambda b: (order[b.name.partition("/")[0]], not structure_words(b)))
    )


def _share_words(one: Position) -> str:
    if not one.passes:
        return "nothing read yet"
    share = f"share {one.part + 1} of {one.parts}: " if one.parts > 1 else ""
    of_all = f" of {one.length}" if one.length >= 0 and one.parts == 1 else ""
    end = ", all read" if one.finished else ""
    return f"{share}pass {one.passes}, {one.records} records, {one.rows}{of_all} rows{end}"


def checkpoints_of(run: Run) -> Path:
    """The directory that holds the epochs of a run: inside it, or where its spec says."""
    inside = run.path / "checkpoints"
    if DirectoryStore(str(inside)).epochs():
        return inside
    if is_from_python(run):
        return inside
    # Only the spec knows of another place.
    other = getattr(recorded_spec(run).spec.checkpoint, "dir", None)
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
            "E408", f"'{text}' is not an epoch's number", "write RUN@12, or RUN@latest"
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


def chosen(found: Inspection, node: str, blob: str) -> tuple[FileFacts, ...]:
    """The files and blobs asked for; all where nothing is asked for.

    Raises:
        UsageError: There is no such node or blob.
    """
    files = [file for file in found.files if node in ("", file.header.node)]
    if not files:
        known = [file.header.node for file in found.files]
        raise UsageError.of("E406", f"no node '{node}' in it", did_you_mean(node, known))
    if not blob:
        return tuple(files)
    kept = [
        FileFacts(file.path, file.size_bytes, file.header, blobs)
        for file in files
        if (blobs := tuple(one for one in file.blobs if is_of(one.name, blob)))
    ]
    if not kept:
        known = [*whole_names(one.name for file in files for one in file.blobs)]
        raise UsageError.of("E406", f"no blob '{blob}' in it", did_you_mean(blob, known))
    return tuple(kept)


def as_values(found: Inspection, files: tuple[FileFacts, ...], *, values: bool) -> dict[str, Any]:
    """The inspection as JSON values; with ``values`` those of the blobs too."""
    return {
        "path": found.path,
        "epoch": found.epoch,
        "records": found.records,
        "streams": dict(found.streams),
        "run_id": found.run_id,
        "generation": found.generation,
        "age_s": round(found.age_s, 3),
        "spec_digest": found.spec_digest,
        "metrics": dict(found.metrics),
        "saved": None if found.times is None else asdict(found.times),
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


def dtype_name(text: str) -> str:
    """A stored dtype as people write it: ``float64`` for ``<f8``."""
    try:
        return str(parse_dtype(text))
    except ValueError:
        return text


def value_text(value: Value) -> str:
    """A value for people, cut in the middle when it is long."""
    if isinstance(value, str):
        return repr(value)
    array = np.asarray(getattr(value, "value", value))
    if array.ndim == 0:
        return str(array.item()) if array.dtype.kind in "biufc" else str(array[()])
    return np.array2string(array, threshold=_MOST_ITEMS, max_line_width=96)


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
    if position_words(blob):
        content["columns"] = list(POSITION)
    if values:
        content["value"] = _json_value(blob.value)
    return content


def _json_value(value: Any) -> Any:
    if isinstance(value, str):
        return value
    array = np.asarray(getattr(value, "value", value))
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], axis=-1).tolist()
    return array.tolist() if array.dtype.kind in "biuf" else array.astype(str).tolist()
