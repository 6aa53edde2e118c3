"""Every byte of a checkpoint changed, every length tried: each is told, and by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jobrun.checkpoint.stores.directory import DirectoryStore
from tests.support.saved_checkpoints import save

EPOCH = 3
# Beside the values a file has its headers and digests.
_FRAME_BYTES = 16_384


@dataclass
class Swept:
    """What came of some damage.

    Attributes:
        tried: How many changes there were.
        missed: Those that were not told, or not with the file's name.
    """

    tried: int = 0
    missed: list[str] = field(default_factory=list)


def checkpoint(root: Path, size_bytes: int = 0) -> Path:
    """Save an epoch of two nodes below ``root``, of so many bytes in sum; returns its directory."""
    count = max(8, (size_bytes - _FRAME_BYTES) // 8)
    values = np.random.default_rng(1).normal(size=count)
    return save(root, EPOCH, {"left": {"w": values, "k": 3}, "right": {"v": "text", "x": 0.5}})


def change_bytes(epoch: Path, stride: int = 1, value: int = 0xFF, first: int = 0) -> Swept:
    """Change each byte of each file in turn, and put it back.

    Args:
        epoch: The directory of an epoch.
        stride: Of the bytes one of so many.
        value: What each is changed by (exclusive or).
        first: Which is the first.
    """
    swept = Swept()
    for path in sorted(epoch.iterdir()):
        data = path.read_bytes()
        descriptor = os.open(path, os.O_WRONLY)
        for at in range(first % stride, len(data), stride):
            os.pwrite(descriptor, bytes([data[at] ^ value]), at)
            _look(epoch, path, f"byte {at} ^ {value}", swept)
            os.pwrite(descriptor, data[at : at + 1], at)
        os.close(descriptor)
    return swept


def change_lengths(epoch: Path, stride: int = 1) -> Swept:
    """Cut each file to each length, from the longest down, and let it become longer by a byte."""
    swept = Swept()
    for path in sorted(epoch.iterdir()):
        data = path.read_bytes()
        path.write_bytes(data + b"\0")
        _look(epoch, path, "a byte more", swept)
        for length in _lengths(len(data), stride):
            os.truncate(path, length)
            _look(epoch, path, f"cut to {length}", swept)
        path.write_bytes(data)
    return swept


def _lengths(size_bytes: int, stride: int) -> Iterator[int]:
    yield from range(size_bytes - 1, 0, -stride)
    yield 0


def _look(epoch: Path, path: Path, change: str, swept: Swept) -> None:
    swept.tried += 1
    damage = DirectoryStore(str(epoch.parent)).verify(EPOCH)
    reason = damage.reason if damage else "nothing is told"
    if path.name not in reason:
        swept.missed.append(f"{path.name}, {change}: {reason}")
