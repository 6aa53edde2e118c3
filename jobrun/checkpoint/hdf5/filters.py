"""Compress and decompress chunks with HDF5 filter pipelines (deflate, plug-in codecs).

``deflate`` is byte shuffling and zlib's format, which every HDF5 library reads. The others
are filters of the package hdf5plugin, which a reader needs as well. Both ways no bits are lost.
"""

from __future__ import annotations

import itertools
import secrets
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module, util
from typing import Any, Protocol

import numpy as np

from jobrun.checkpoint.hdf5.dtypes import DType
from jobrun.checkpoint.hdf5.value_codec import Array
from jobrun.core.errors import EnvironmentFaultError
from jobrun.graph.checkpoint_policy import CODECS

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
# Number, name, flags' parameters of a filter; numbers from 256 on have names.
Filter = tuple[int, str, tuple[int, ...]]
_SHUFFLE, _DEFLATE = 2, 1
_LEVEL = 1
# Classes of hdf5plugin, and their arguments.
_PLUGINS: dict[str, tuple[str, dict[str, object]]] = {
    "bitshuffle": ("Bitshuffle", {"cname": "lz4"}),
    "blosc2": ("Blosc2", {"cname": "lz4"}),
    "lz4": ("LZ4", {}),
    "zstd": ("Zstd", {"clevel": 3}),
}


class Encoder(Protocol):
    """Compresses and decompresses chunks of one dtype and shape. Thread-safe."""

    filters: list[Filter]

    def encode(self, chunk: Array) -> bytes:
        """Apply an HDF5 filter pipeline to one chunk in C order; return its stored bytes."""

    def decode(self, data: bytes) -> Bytes:
        """Undo a pipeline of HDF5 filters on one chunk's bytes; return its elements in C order.

        Raises:
            ValueError: They are not what this codec has made.
        """


def encoder_for(codec: str, dtype: DType, chunk: tuple[int, ...]) -> Encoder:
    """Return the encoder that applies a codec's HDF5 filters to chunks of one dtype and shape.

    Raises:
        ValueError: There is no such codec.
        EnvironmentFaultError: E326, it needs a package that is not there.
    """
    if codec == "deflate":
        return _Deflate(dtype, chunk)
    if codec not in _PLUGINS or codec not in CODECS:
        raise ValueError(f"there is no codec {codec[:40]!r}")
    return _Plugin(codec, dtype, chunk)


def chunk_origins(shape: tuple[int, ...], chunk: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the array index at which each chunk, the unit of HDF5's filters, begins."""
    return itertools.product(*(range(0, n, part) for n, part in zip(shape, chunk, strict=True)))


def chunk_slices(
    shape: tuple[int, ...], chunk: tuple[int, ...], start: tuple[int, ...]
) -> tuple[slice, ...]:
    """Return the slices of an array that one chunk, the unit of HDF5's filters, covers.

    Cut at the array's end.
    """
    return tuple(
        slice(at, min(at + part, n)) for at, part, n in zip(start, chunk, shape, strict=True)
    )


class _Deflate:
    def __init__(self, dtype: DType, chunk: tuple[int, ...]) -> None:
        self._itemsize = dtype.itemsize
        self._size = int(np.prod(chunk)) * dtype.itemsize
        self.filters: list[Filter] = [(_DEFLATE, "", (_LEVEL,))]
        if self._itemsize > 1:
            self.filters.insert(0, (_SHUFFLE, "", (self._itemsize,)))
        self._compress, self._decompress = _deflate_functions()

    def encode(self, chunk: Array) -> bytes:
        """Apply the HDF5 filters shuffle and deflate to one chunk; return the filtered bytes."""
        planes: Any = chunk.reshape(-1).view(np.uint8)
        if self._itemsize > 1:
            planes = np.ascontiguousarray(planes.reshape(-1, self._itemsize).T)
        return self._compress(planes.data, _LEVEL)

    def decode(self, data: bytes) -> Bytes:
        """Undo the HDF5 filters deflate and shuffle on the filtered bytes of one chunk."""
        # The limit first: a few bytes can decompress to any number of bytes.
        raw = np.frombuffer(self._decompress(data, self._size), np.uint8)
        if raw.size != self._size:
            raise ValueError("a chunk does not have the size of its shape")
        return np.ascontiguousarray(raw.reshape(self._itemsize, -1).T).reshape(-1)


def _deflate_functions() -> tuple[Callable[[Any, int], bytes], Callable[[bytes, int], bytes]]:
    """Return the compress and decompress functions of HDF5's deflate filter (ISA-L or zlib)."""
    module: Any = import_module("isal.isal_zlib") if util.find_spec("isal") else zlib

    def decompress(data: bytes, most_bytes: int) -> bytes:
        state = module.decompressobj()
        try:
            # One byte more than allowed, so that an overlong chunk is recognized.
            decompressed: bytes = state.decompress(data, most_bytes + 1)
        except Exception as error:
            # Each module has an error class of its own.
            if not isinstance(error, (zlib.error, getattr(module, "error", zlib.error))):
                raise
            raise ValueError("a chunk is not what deflate makes") from error
        if not state.eof or state.unused_data:
            raise ValueError("a chunk is not as long as it should be")
        return decompressed

    return module.compress, decompress


class _Plugin:
    """A codec whose filter only libhdf5 has: applied in memory, and to verified bytes only."""

    def __init__(self, codec: str, dtype: DType, chunk: tuple[int, ...]) -> None:
        if util.find_spec("hdf5plugin") is None:
            raise EnvironmentFaultError.of(
                "E326",
                f"checkpoints are compressed with {codec}, and hdf5plugin is not installed",
                "pip install 'jobrun[hdf5plugin]', or compress with deflate",
            )
        name, options = _PLUGINS[codec]
        self._filter: Any = getattr(import_module("hdf5plugin"), name)(**options)
        self._dtype, self._chunk = dtype, chunk
        with self._scratch() as dataset:
            plist = dataset.id.get_create_plist()
            filters = [plist.get_filter(number) for number in range(plist.get_nfilters())]
        self.filters: list[Filter] = [
            (number, name.decode() if number >= 256 else "", tuple(values))
            for number, _, values, name in filters
        ]

    def encode(self, chunk: Array) -> bytes:
        """Apply an HDF5 filter plug-in to one chunk, by writing the chunk to a scratch dataset."""
        with self._scratch() as dataset:
            dataset[...] = chunk
            dataset.flush()
            _, data = dataset.id.read_direct_chunk((0,) * len(self._chunk))
        return bytes(data)

    def decode(self, data: bytes) -> Bytes:
        """Undo an HDF5 filter plug-in on one chunk's bytes by way of a scratch dataset."""
        with self._scratch() as dataset:
            dataset.id.write_direct_chunk((0,) * len(self._chunk), data)
            try:
                whole: Any = dataset[...]
            except OSError as error:
                raise ValueError(f"a chunk cannot be made whole ({error})") from error
        flat: Bytes = whole.reshape(-1).view(np.uint8)
        return flat

    def _scratch(self) -> Any:
        return _Scratch(self._dtype, self._chunk, self._filter)


class _Scratch:
    """A dataset of one chunk in a file that exists in memory only."""

    def __init__(self, dtype: DType, chunk: tuple[int, ...], filter_: Any) -> None:
        # A unique name: libhdf5 identifies even files in memory by name.
        name = f"scratch-{secrets.token_hex(8)}"
        import h5py  # noqa: PLC0415 - only chunks of plug-ins need it

        self._file = h5py.File(name, "w", driver="core", backing_store=False)
        self._dataset = self._file.create_dataset(
            "x", chunk, dtype, chunks=chunk, compression=filter_, fillvalue=None
        )

    def __enter__(self) -> Any:
        return self._dataset

    def __exit__(self, *error: object) -> None:
        self._file.close()
