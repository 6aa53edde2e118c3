"""Other ways to write named arrays to a disk, as their users write them; each made durable.

What is not installed (see the dependency group ``bench``) is left out. None of them but
jobrun's own writer has a checksum of the data that it compares when it reads, and none
replaces a file at once; so these numbers are in their favour.
"""

from __future__ import annotations

import os
import pickle
import shutil
import warnings
from collections.abc import Callable, Mapping
from importlib import util
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Values = Mapping[str, Any]
Save = Callable[[Path, Values], None]


def sync(folder: Path) -> None:
    """Make a directory, and all that is in it, durable."""
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def np_savez(folder: Path, values: Values) -> None:
    np.savez(folder / "x.npz", **{f"a{n}": value for n, value in enumerate(values.values())})


def pickle_5(folder: Path, values: Values) -> None:
    with (folder / "x.pickle").open("wb") as file:
        pickle.dump(dict(values), file, protocol=5)


def h5py_default(folder: Path, values: Values) -> None:
    with h5py.File(folder / "x.h5", "w") as file:
        for name, value in values.items():
            file.create_dataset(name, data=value)


def torch_save(folder: Path, values: Values) -> None:
    import torch  # noqa: PLC0415

    torch.save(tensors(values), folder / "x.pt")


def safetensors(folder: Path, values: Values) -> None:
    from safetensors.numpy import save_file  # noqa: PLC0415

    save_file(dict(values), folder / "x.safetensors")


def dcp(folder: Path, values: Values) -> None:
    import torch.distributed.checkpoint as checkpoint  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.save(tensors(values), checkpoint_id=folder / "dcp", no_dist=True)


def orbax(folder: Path, values: Values) -> None:
    import orbax.checkpoint  # noqa: PLC0415

    saver = orbax.checkpoint.PyTreeCheckpointer()
    saver.save(folder / "orbax", dict(values))


def tensors(values: Values) -> dict[str, Any]:
    """The same memory as tensors of torch."""
    import torch  # noqa: PLC0415

    return {name: torch.from_numpy(value) for name, value in values.items()}


_NEEDED: dict[str, tuple[Save, str]] = {
    "np.savez": (np_savez, "numpy"),
    "pickle 5": (pickle_5, "numpy"),
    "h5py default": (h5py_default, "h5py"),
    "torch.save": (torch_save, "torch"),
    "safetensors": (safetensors, "safetensors"),
    "torch DCP": (dcp, "torch"),
    "Orbax": (orbax, "orbax"),
}


def installed() -> dict[str, Save]:
    """Those that can be used here."""
    return {name: save for name, (save, module) in _NEEDED.items() if util.find_spec(module)}


def durable(save: Save) -> Save:
    """The same, and everything made durable."""

    def act(folder: Path, values: Values) -> None:
        save(folder, values)
        sync(folder)

    return act


def empty(folder: Path) -> None:
    """Remove all that is in a directory."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
