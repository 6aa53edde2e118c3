"""Read and decompress the chunks of compressed blobs of an open checkpoint file."""

from __future__ import annotations

import itertools

from jobrun.checkpoint.hdf5.dtypes import storage_dtype
from jobrun.checkpoint.hdf5.filters import Bytes, chunk_origins, chunk_slices, encoder_for
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


def _put_chunk(target: Array, chunk: tuple[int, ...], start: tuple[int, ...], data: Bytes) -> None:
    part = target[chunk_slices(target.shape, chunk, start)]
    whole = data.view(target.dtype).reshape(chunk)
    part[...] = whole[tuple(map(slice, part.shape))]
