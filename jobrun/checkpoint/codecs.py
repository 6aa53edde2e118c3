"""Codecs of compressed blobs: which filters HDF5 undoes, and the encoders that make them."""

from __future__ import annotations

Filter = tuple[int, str, tuple[int, ...]]
SHUFFLE, DEFLATE = 2, 1
_LEVEL = 1


def filters(codec: str, itemsize: int) -> list[Filter]:
    """What HDF5 has to undo, last first: number, name and parameters of each filter."""
    shuffle: Filter = (SHUFFLE, "", (itemsize,))
    return [shuffle, (DEFLATE, "", (_LEVEL,))]
