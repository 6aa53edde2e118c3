"""What a checkpoint holds, as values: of one file, one epoch, or a run. Shows nothing by itself."""

from __future__ import annotations

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
from jobrun.core.errors import CheckpointError, UsageError
from jobrun.core.events import CheckpointTimes
from jobrun.core.names import did_you_mean
from jobrun.runner.authored import is_from_python
from jobrun.runner.progress import from_json
from jobrun.runner.record import RECORD_NAME
from jobrun.runner.rundir import Run, find_run
from jobrun.runner.specdir import recorded_spec
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


def inspect(target: str, run_dir: Path) -> Inspection:
    """Look at a checkpoint.

    Args:
        target: A ``.h5`` file, the directory of an epoch or of a checkpoint within one, a run
            (its newest epoch), or ``RUN@EPOCH``.
        run_dir: Where runs are looked for by name.

    Raises:
        CheckpointError: It is not there, or damaged.
        UsageError: No run is called so.
    """
    path = Path(target)
    if path.is_file() and path.name != RECORD_NAME:
        return _of_file(path)
    directory = _EPOCH.fullmatch(path.resolve().name) if path.is_dir() else None
    within = parsed_name(path.resolve().name) if path.is_dir() else None
    if within:
        root = path.resolve().parent
        return _of_store(MidwayStore(str(root), within[1]), within[0], root.parent, within[1])
    if directory:
        root = path.resolve().parent
        return _of_epoch(root, int(directory[1]), root.parent)
    name, at, epoch = target.rpartition("@")
    if not at:
        name, epoch = target, ""
    run = find_run(name, run_dir)
    root = checkpoints_of(run)
    return _of_epoch(root, _epoch(epoch, root), run.path)


def _of_file(path: Path) -> Inspection:
    facts = inspect_guarded(str(path))
    header = facts.header
    return Inspection(str(path), header.epoch, header.run_id, _age_s(path), (facts,))


def _of_epoch(root: Path, epoch: int, run: Path) -> Inspection:
    made = _of_store(DirectoryStore(str(root)), epoch, run)
    ahead = [records for number, records in midways(str(root)) if number == epoch + 1]
    return replace(made, ahead=max(ahead, default=0))


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
    )


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
        if (blobs := tuple(one for one in file.blobs if one.name == blob))
    ]
    if not kept:
        known = [one.name for file in files for one in file.blobs]
        raise UsageError.of("E406", f"no blob '{blob}' in it", did_you_mean(blob, known))
    return tuple(kept)


def as_values(found: Inspection, files: tuple[FileFacts, ...], *, values: bool) -> dict[str, Any]:
    """The inspection as JSON values; with ``values`` those of the blobs too."""
    return {
        "path": found.path,
        "epoch": found.epoch,
        "records": found.records,
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
