"""Judge whether a run lost anything, with h5py and json alone: no code of jobrun decides."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from tests.support.stored_runs import Stored, blobs, epochs

# Small, with everything a sweep must pass: a commit, retention, a journal, an artifact.
SPEC = """\
jobrun: 1
name: tiny
seed: 3
init: [{task: start, steps: ["w = zeros(8)"]}]
epoch: [{task: step, steps: ["w += rng.normal(size=8)"]}]
exit: [{task: out, steps: [{save: {w: "${run.dir}/artifacts/w.npy"}}]}]
metrics: {top: max(w)}
stop: [{epochs: 3}]
checkpoint: {every: 1ep, keep: {last: 2}}
"""


@dataclass(frozen=True)
class Reference:
    """The contents of an undisturbed run with all its epochs."""

    epochs: dict[int, dict[str, Stored]]
    artifacts: dict[str, bytes]


def reference_of(run: Path) -> Reference:
    """Read an undisturbed run that kept every epoch."""
    return Reference({number: blobs(path) for number, path in epochs(run).items()}, artifacts(run))


def artifacts(run: Path) -> dict[str, bytes]:
    """Return the files of a run's artifacts, without those being written."""
    paths = sorted((run / "artifacts").glob("[!.]*"))
    return {path.name: path.read_bytes() for path in paths}


def runs_in(folder: Path) -> list[Path]:
    """Find every directory of a run, also one whose making was cut short."""
    return sorted(
        path for path in folder.glob("runs/*/*") if path.is_dir() and not path.is_symlink()
    )


def acknowledged(run: Path) -> list[int]:
    """Return the epochs that whole lines of ``committed.jsonl`` acknowledge."""
    path = run / "committed.jsonl"
    epochs_: list[int] = []
    for line in path.read_bytes().split(b"\n")[:-1] if path.is_file() else []:
        entry = json.loads(line)
        crc = entry.pop("crc32")
        assert crc == f"{zlib.crc32(json.dumps(entry, sort_keys=True).encode()):08x}"
        if entry["kind"] == "rewind":
            epochs_ = [epoch for epoch in epochs_ if epoch <= entry["epoch"]]
        elif not entry.get("records"):
            epochs_.append(entry["epoch"])
    return epochs_


def wrong(run: Path, reference: Reference, *, count_kept: int) -> list[str]:
    """Return what is not as promised in a run that may still continue; empty if nothing.

    Args:
        run: The run's directory.
        reference: The undisturbed one.
        count_kept: How many of the newest epochs the spec keeps.
    """
    present = epochs(run)
    acknowledged_ = acknowledged(run)
    faults = [
        f"epoch {epoch} was acknowledged and is gone"
        for epoch in acknowledged_[-count_kept:]
        if epoch not in present
    ]
    for number, path in present.items():
        if not (path / "manifest.json").is_file():
            faults.append(f"epoch {number} has no manifest")
        elif blobs(path) != reference.epochs[number]:
            faults.append(f"epoch {number} holds other values")
    return faults


def unfinished(run: Path, reference: Reference, root: Path | None = None) -> list[str]:
    """Return what a run that says it has finished lacks; empty if nothing.

    Args:
        run: The run's directory.
        reference: The undisturbed one.
        root: Where its epochs are, if not in the run.
    """
    last = max(reference.epochs)
    faults = []
    there = epochs(run, root)
    if last not in there or blobs(there[last]) != reference.epochs[last]:
        faults.append(f"epoch {last} is missing or other")
    if artifacts(run) != reference.artifacts:
        faults.append("the artifacts are other")
    if last not in acknowledged(run):
        faults.append(f"epoch {last} was never acknowledged")
    return faults
