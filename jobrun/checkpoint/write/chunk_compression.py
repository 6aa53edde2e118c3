"""Choose the blobs of a checkpoint file to compress, and compress them in chunks.

Chunks are cut so that each is one piece of its array, about 1 MiB of it; then any HDF5 tool
can show them, and several threads can work on them.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from jobrun.checkpoint.hdf5.dataset_names import display_name, root_blob
from jobrun.checkpoint.hdf5.dtypes import storage_dtype
from jobrun.checkpoint.hdf5.file_layout import PAGED_BYTES, Entry, Packing
from jobrun.checkpoint.hdf5.filters import Encoder, chunk_origins, chunk_slices, encoder_for
from jobrun.checkpoint.hdf5.value_codec import Array, Coded
from jobrun.graph.checkpoint_policy import Rules, codec_for

if TYPE_CHECKING:
    from concurrent.futures import Future

_CHUNK_BYTES = 1 << 20
# A blob is compressed if a sample of it becomes at least so much smaller.
_WORTH = 0.9
_SAMPLES = 3
_SAMPLE_BYTES = 1 << 18
_MOST_THREADS = 4


def choose_packings(coded: Mapping[str, Coded], rules: Rules) -> dict[str, Packing]:
    """Choose the blobs to compress: named in the spec, and smaller when a sample is compressed.

    Raises:
        EnvironmentFaultError: E326, a codec needs a package that is not there.
    """
    packings: dict[str, Packing] = {}
    for name, encoded in coded.items():
        codec = codec_for(display_name(name), rules) or codec_for(root_blob(name), rules)
        if codec and _is_compressible(encoded.array) and _is_worth(encoded.array, codec):
            chunk = choose_chunk_shape(encoded.array.shape, encoded.array.dtype.itemsize)
            counts = (-(-n // part) for n, part in zip(encoded.array.shape, chunk, strict=True))
            packings[name] = Packing(codec, chunk, math.prod(counts))
    return packings


def choose_chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Choose the shape of an array's chunks to be compressed: about 1 MiB, whole last axes."""
    chunk = [1] * len(shape)
    remaining = max(1, _CHUNK_BYTES // itemsize)
    for axis in reversed(range(len(shape))):
        chunk[axis] = max(1, min(shape[axis], remaining))
        remaining //= chunk[axis]
        if remaining < 1 or chunk[axis] < shape[axis]:
            break
    return tuple(chunk)


def compress_chunks(entry: Entry, array: Array) -> Iterator[bytes]:
    """Compress an array's chunks in several threads, and yield them in order, to be written."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - with logging

    packing = entry.packing
    assert packing is not None  # noqa: S101 - the caller looks
    array = array.view(storage_dtype(array.dtype))
    encoder = encoder_for(packing.codec, array.dtype, packing.chunk)
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, thread_name_prefix="checkpoint-codec") as pool:
        ahead: deque[Future[bytes]] = deque()
        for start in chunk_origins(array.shape, packing.chunk):
            ahead.append(pool.submit(_encode_chunk, encoder, array, packing.chunk, start))
            if len(ahead) > 2 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _is_compressible(array: Array) -> bool:
    return array.nbytes >= PAGED_BYTES and array.ndim > 0 and array.dtype.kind in "biufc"


def _is_worth(array: Array, codec: str) -> bool:
    """Return whether compression makes three samples of an array at least a tenth smaller."""
    count = max(1, min(array.size, _SAMPLE_BYTES // array.dtype.itemsize))
    flat = array.reshape(-1)
    encoder = encoder_for(codec, array.dtype, (count,))
    firsts = np.linspace(0, array.size - count, _SAMPLES).astype(int).tolist()
    stored = sum(len(encoder.encode(np.ascontiguousarray(flat[at : at + count]))) for at in firsts)
    return bool(stored <= _WORTH * len(firsts) * count * array.dtype.itemsize)


def _encode_chunk(
    encoder: Encoder, array: Array, chunk: tuple[int, ...], start: tuple[int, ...]
) -> bytes:
    part = array[chunk_slices(array.shape, chunk, start)]
    if part.shape != chunk:
        # HDF5 has whole chunks only.
        whole = np.zeros(chunk, array.dtype)
        whole[tuple(map(slice, part.shape))] = part
        part = whole
    return encoder.encode(np.ascontiguousarray(part))
