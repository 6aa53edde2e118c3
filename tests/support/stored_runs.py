"""Read runs as anyone can: with h5py and json alone, nothing of jobrun."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

# In the header of an archive of the files that a program keeps.
_DIRECTORY = b"comment=jobrun state_dir"


@dataclass(frozen=True)
class Stored:
    """One dataset: its contents, bit for bit, and its attributes."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes
    attributes: tuple[tuple[str, str], ...]


def epochs(run: Path, root: Path | None = None) -> dict[int, Path]:
    """Return the whole epochs that exist, by number; ``root``: their folder, if not in the run."""
    paths = {
        int(path.name.removeprefix("epoch-")): path
        for path in (root or run / "checkpoints").glob("epoch-*")
        # Saved within an epoch: "epoch-000002.records-000012".
        if path.is_dir() and path.name.removeprefix("epoch-").isdigit()
    }
    return dict(sorted(paths.items()))


def blobs(epoch: Path) -> dict[str, Stored]:
    """Return everything that an epoch stores, by ``node:/blobs/name``."""
    stored: dict[str, Stored] = {}
    for path in sorted(epoch.glob("*.h5")):
        with h5py.File(path, "r") as file:

            def visit(
                name: str, node_or_dataset: h5py.Dataset | h5py.Group, node: str = path.stem
            ) -> None:
                if isinstance(node_or_dataset, h5py.Dataset):
                    value = np.asarray(node_or_dataset[()])
                    content = value.tobytes()
                    if _DIRECTORY in content[:1024]:
                        # When its files were written is another time in each run.
                        content = re.sub(rb"mtime=-?\d+\.\d{9}", b"mtime", content)
                    attributes = sorted(
                        (key, repr(value)) for key, value in node_or_dataset.attrs.items()
                    )
                    stored[f"{node}:/blobs/{name}"] = Stored(
                        str(node_or_dataset.dtype),
                        node_or_dataset.shape,
                        content,
                        tuple(attributes),
                    )

            file["blobs"].visititems(visit)
    assert stored, f"no blobs in {epoch}"
    return stored


def progress(epoch: Path) -> dict[str, object]:
    """Return what the manifest keeps of the runner's own state, without the times."""
    manifest = json.loads((epoch / "manifest.json").read_text())
    state = dict(manifest["runner"])
    for name in ("elapsed_s", "epoch_s"):
        state.pop(name, None)
    return state


def only_run(run_dir: Path) -> Path:
    """Return the one run below ``run_dir``."""
    (path,) = (path for path in run_dir.glob("*/*") if path.is_dir() and not path.is_symlink())
    return path
