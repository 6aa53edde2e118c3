"""Read and decompress the chunks of compressed blobs of an open checkpoint file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from jobrun.checkpoint.hdf5.dtypes import storage_dtype
from jobrun.checkpoint.hdf5.filters import Bytes, encoder_for
from jobrun.checkpoint.hdf5.index_parser import StructureError
from jobrun.checkpoint.hdf5.value_codec import Array
from jobrun.checkpoint.read.verified_file import StateFile

# Chunks that are read by one call.
_TOGETHER = 8


def split_chunks(file: StateFile, row: int) -> list[range]:
    """Split a blob's compressed chunks into short ranges, to read one range at a time."""
    count = file.index.packings[row][0].count
    return [range(at, min(at + _TOGETHER, count)) for at in range(0, count, _TOGETHER)]


def read_chunks(file: StateFile, row: int, target: Array, chunks: range) -> None:
    """Read, verify and decompress some chunks of a compressed blob into its array.

    Raises:
        CheckpointError: They are damaged, or not as jobrun makes them.
    """
    packing, first = file.index.packings[row]
    places = file.tail.chunks[first + chunks.start : first + chunks.stop]
    begin = int(places["offset"].min())
    data = file.verified(begin, int((places["offset"] + places["size"]).max()))
    starts = itertools.islice(chunk_origins(target.shape, packing.chunk), chunks.start, chunks.stop)
    stored_target = target.view(storage_dtype(target.dtype))
    with file.structure():
        try:
            encoder = encoder_for(packing.codec, stored_target.dtype, packing.chunk)
            for start, (offset, size) in zip(starts, places.tolist(), strict=True):
                stored = data[offset - begin : offset - begin + size].tobytes()
                _put_chunk(stored_target, packing.chunk, start, encoder.decode(stored))
        except ValueError as error:
            raise StructureError(f"blob '{file.index.names[row]}': {error}") from error


def chunk_origins(shape: tuple[int, ...], chunk: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the indexes at which a compressed blob's chunks begin in its array."""
    return itertools.product(*(range(0, n, part) for n, part in zip(shape, chunk, strict=True)))


def chunk_slices(
    shape: tuple[int, ...], chunk: tuple[int, ...], start: tuple[int, ...]
) -> tuple[slice, ...]:
    """Return the slices of an array that a compressed chunk fills, cut at the array's end."""
    return tuple(
        slice(at, min(at + part, n)) for at, part, n in zip(start, chunk, shape, strict=True)
    )


def _put_chunk(target: Array, chunk: tuple[int, ...], start: tuple[int, ...], data: Bytes) -> None:
    part = target[chunk_slices(target.shape, chunk, start)]
    whole = data.view(target.dtype).reshape(chunk)
    part[...] = whole[tuple(map(slice, part.shape))]
