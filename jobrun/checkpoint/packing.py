"""Blobs in compressed chunks: which are worth it, how they are cut, and made whole again.

Chunks are cut so that each is one piece of its array, about 1 MiB of it; then any HDF5 tool
can show them, and several threads can work on them.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from jobrun.checkpoint.codec import Array, Coded
from jobrun.checkpoint.codecs import Bytes, Encoder, encoder_for
from jobrun.checkpoint.dtypes import storage_dtype
from jobrun.checkpoint.image import StructureError
from jobrun.checkpoint.layout import PAGED_BYTES, Entry, Packing
from jobrun.checkpoint.names import root_of, shown
from jobrun.checkpoint.statefile import StateFile
from jobrun.core.compression import Rules, codec_for

_CHUNK_BYTES = 1 << 20
# A blob is compressed if a sample of it becomes at least so much smaller.
_WORTH = 0.9
_SAMPLES = 3
_SAMPLE_BYTES = 1 << 18
_MOST_THREADS = 4
# Chunks that are read by one call.
_TOGETHER = 8


def packings(coded: Mapping[str, Coded], rules: Rules) -> dict[str, Packing]:
    """How to compress which blobs: those that a rule names, and that a probe finds worth it.

    Raises:
        EnvironmentFaultError: E326, a codec needs a package that is not there.
    """
    found: dict[str, Packing] = {}
    for name, one in coded.items():
        codec = codec_for(shown(name), rules) or codec_for(root_of(name), rules)
        if codec and _can(one.array) and _is_worth(one.array, codec):
            chunk = chunk_shape(one.array.shape, one.array.dtype.itemsize)
            counts = (-(-n // part) for n, part in zip(one.array.shape, chunk, strict=True))
            found[name] = Packing(codec, chunk, math.prod(counts))
    return found


def chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The shape of chunks: whole last axes, a part of one, one of each before it."""
    chunk = [1] * len(shape)
    left = max(1, _CHUNK_BYTES // itemsize)
    for axis in reversed(range(len(shape))):
        chunk[axis] = max(1, min(shape[axis], left))
        left //= chunk[axis]
        if left < 1 or chunk[axis] < shape[axis]:
            break
    return tuple(chunk)


def packed_chunks(entry: Entry, array: Array) -> Iterator[bytes]:
    """The stored chunks of an array, in their order; made by several threads, a few ahead."""
    packing = entry.packing
    assert packing is not None  # noqa: S101 - the caller looks
    array = array.view(storage_dtype(array.dtype))
    encoder = encoder_for(packing.codec, array.dtype, packing.chunk)
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, thread_name_prefix="checkpoint-codec") as pool:
        ahead: deque[Future[bytes]] = deque()
        for start in _starts(array.shape, packing.chunk):
            ahead.append(pool.submit(_encoded, encoder, array, packing.chunk, start))
            if len(ahead) > 2 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def portions(file: StateFile, row: int) -> list[range]:
    """The chunks of a compressed blob, a few at a time."""
    count = file.index.packings[row][0].count
    return [range(at, min(at + _TOGETHER, count)) for at in range(0, count, _TOGETHER)]


def unpack(file: StateFile, row: int, target: Array, chunks: range) -> None:
    """Fill some chunks of a compressed blob into its stored array; each is verified.

    Raises:
        CheckpointError: They are damaged, or not as jobrun makes them.
    """
    packing, first = file.index.packings[row]
    places = file.tail.chunks[first + chunks.start : first + chunks.stop]
    begin = int(places["offset"].min())
    data = file.verified(begin, int((places["offset"] + places["size"]).max()))
    starts = itertools.islice(_starts(target.shape, packing.chunk), chunks.start, chunks.stop)
    stored_target = target.view(storage_dtype(target.dtype))
    with file.structure():
        try:
            encoder = encoder_for(packing.codec, stored_target.dtype, packing.chunk)
            for start, (offset, size) in zip(starts, places.tolist(), strict=True):
                stored = data[offset - begin : offset - begin + size].tobytes()
                _put_chunk(stored_target, packing.chunk, start, encoder.decode(stored))
        except ValueError as error:
            raise StructureError(f"blob '{file.index.names[row]}': {error}") from error


def _can(array: Array) -> bool:
    return array.nbytes >= PAGED_BYTES and array.ndim > 0 and array.dtype.kind in "biufc"


def _is_worth(array: Array, codec: str) -> bool:
    """Whether samples from beginning, middle and end become smaller."""
    count = max(1, min(array.size, _SAMPLE_BYTES // array.dtype.itemsize))
    flat = array.reshape(-1)
    encoder = encoder_for(codec, array.dtype, (count,))
    firsts = np.linspace(0, array.size - count, _SAMPLES).astype(int).tolist()
    stored = sum(len(encoder.encode(np.ascontiguousarray(flat[at : at + count]))) for at in firsts)
    return bool(stored <= _WORTH * len(firsts) * count * array.dtype.itemsize)


def _starts(shape: tuple[int, ...], chunk: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The first item of each chunk, in the order of the array."""
    return itertools.product(*(range(0, n, part) for n, part in zip(shape, chunk, strict=True)))


def _inside(
    shape: tuple[int, ...], chunk: tuple[int, ...], start: tuple[int, ...]
) -> tuple[slice, ...]:
    return tuple(
        slice(at, min(at + part, n)) for at, part, n in zip(start, chunk, shape, strict=True)
    )


def _encoded(
    encoder: Encoder, array: Array, chunk: tuple[int, ...], start: tuple[int, ...]
) -> bytes:
    part = array[_inside(array.shape, chunk, start)]
    if part.shape != chunk:
        # HDF5 has whole chunks only.
        whole = np.zeros(chunk, array.dtype)
        whole[tuple(map(slice, part.shape))] = part
        part = whole
    return encoder.encode(np.ascontiguousarray(part))


def _put_chunk(target: Array, chunk: tuple[int, ...], start: tuple[int, ...], data: Bytes) -> None:
    part = target[_inside(target.shape, chunk, start)]
    whole = data.view(target.dtype).reshape(chunk)
    part[...] = whole[tuple(map(slice, part.shape))]
