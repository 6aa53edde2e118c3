"""Encode values of one layout as the bytes of a checkpoint file, epoch after epoch."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter, eq, is_
from typing import Any

import numpy as np
from msgspec import Struct, field

from jobrun.checkpoint.hdf5.dataset_names import display_name
from jobrun.checkpoint.hdf5.digest_blocks import (
    BLOCK_BYTES,
    DIGEST_BYTES,
    block_count,
    block_span,
    digest,
)
from jobrun.checkpoint.hdf5.dtypes import DType, dtype_text, is_custom, is_reinterpreted
from jobrun.checkpoint.hdf5.file_layout import (
    ALIGNMENT,
    PAGED_BYTES,
    Entry,
    Layout,
    Numbers,
    Packing,
    build_entries,
)
from jobrun.checkpoint.hdf5.metadata_bytes import render_chunk_tree
from jobrun.checkpoint.hdf5.metadata_template import (
    CHUNKS_TYPE,
    EPOCH_TYPE,
    Bytes,
    Offsets,
    Template,
)
from jobrun.checkpoint.hdf5.user_block import SIZE as USER_BLOCK
from jobrun.checkpoint.hdf5.user_block import Parts
from jobrun.checkpoint.hdf5.value_codec import Array, Coded, encode
from jobrun.checkpoint.write.array_types import ArrayTypes
from jobrun.checkpoint.write.block_writer import BlockWriter
from jobrun.checkpoint.write.chunk_compression import choose_packings, compress_chunks
from jobrun.checkpoint.write.direct_io import aligned
from jobrun.checkpoint.write.memory_digests import MemoryDigests, digest_types
from jobrun.core.errors import TaskFailedError
from jobrun.graph.checkpoint_policy import Rules
from jobrun.values.axis_order import AxisOrder, axis_order
from jobrun.values.blob_kinds import MOST_DIMENSIONS, Value
from jobrun.values.kinds.array import same_dtype

_DTYPE, _SHAPE, _STRIDES = attrgetter("dtype"), attrgetter("shape"), attrgetter("strides")
# An array that is not in C order is copied in portions of this many bytes.
_PORTION_BYTES = 1 << 22
# As ``EPOCH_TYPE``.
_EPOCH = struct.Struct("<q")


class _Gathered(Struct):
    """Small arrays of one dtype and shape that are adjacent: copied by one call.

    Attributes:
        first: The first of them in the order of the file.
        count: How many there are.
        dtype: Of all of them.
        size_bytes: Of one.
        shape: Of one.
        order: Of the axes of all of them.
        names: Of all of them.
    """

    first: int
    count: int
    dtype: DType
    size_bytes: int
    shape: tuple[int, ...]
    order: AxisOrder
    names: list[str]

    def takes(self, position: int, entry: Entry, dtype: DType) -> bool:
        """Return whether the next small array can be encoded together with this batch."""
        return (
            self.first + self.count == position
            and entry.size_bytes == self.size_bytes
            and entry.shape == self.shape
            and entry.order == self.order
            and same_dtype(dtype, self.dtype)
        )


class _Tail(Struct, frozen=True):
    """The tail of a file but for the digests of its blocks.

    Attributes:
        epoch: The epoch.
        values: Digests of values.
        chunks: Offset and size of each chunk.
    """

    epoch: int
    values: Sequence[bytes]
    chunks: list[tuple[int, int]] = field(default_factory=list)

    def render(self, blocks: Sequence[bytes]) -> bytes:
        """Render the tail of a checkpoint file as bytes, given the digests of the blocks."""
        chunks = np.array(self.chunks, CHUNKS_TYPE).tobytes() if self.chunks else b""
        return b"".join([_EPOCH.pack(self.epoch), chunks, *self.values, *blocks])


class EncodedFile(Struct, frozen=True):
    """What a file is like when all behind its user block has been given.

    Attributes:
        parts: For the user block.
        tail: The end of the file.
        front: The metadata, if they are still to be written, behind the user block.
        end: The length of the file.
    """

    parts: Parts
    tail: bytes
    front: Bytes | None
    end: int


# Returns arrays of one size as one piece of memory, if they lie there in the order of their names.
FindAdjacent = Callable[[Sequence[str], int], Bytes | None]


class PreviousFile(Struct, frozen=True):
    """What is known of the next file from the last one with the same layout.

    Attributes:
        unchanged: Blobs whose values are the same.
        digests: Of that file's blocks.
    """

    unchanged: Collection[str] = ()
    digests: Sequence[bytes] = ()


class FileEncoder:
    """The bytes of a layout's files.

    Args:
        coded: Values of the layout, as they are stored.
        plain: The names of those that are stored as they are, with their dtypes.
        packed: How some are compressed.
        origins: Where the spec makes some of them.
        values: The values.

    Attributes:
        layout: The layout.
        most_bytes: The most that a file can have; without compression what it has.
        first: The first block of data; with compression the metadata, which are known last,
            have blocks of their own.
        parts: Where index and tail are in every file; None if that varies.
        memory: How the values are digested.
        types: The digest of their names and types in memory.
        gathered: The offset of the first small arrays that are encoded together; 0 for none.
    """

    def __init__(
        self,
        coded: Mapping[str, Coded],
        plain: Mapping[str, DType],
        packed: Mapping[str, Packing],
        origins: Mapping[str, str],
        values: Mapping[str, Value],
    ) -> None:
        self.layout = Layout.of(build_entries(coded, packed, origins))
        self.memory = MemoryDigests(self.layout, plain)
        self._template = Template(self.layout, len(self.memory.names))
        start = self._template.size_bytes
        self.first = block_count(start) if packed else 0
        if packed:
            start = block_span(self.first, start + BLOCK_BYTES)[0]
        self._offsets, self._last = self.layout.places(start)
        self.memory.locate(self._offsets)
        self.most_bytes = self._places(self._offsets, self._last + self._most_packed()).end
        self._front: Bytes | None = None
        # With compression, known only after the chunks were written.
        self.parts: Parts | None = None
        if not packed:
            self._fixed = self._places(self._offsets, self._last)
            self._front = self._template.render(self._fixed)
            self.parts = self._parts(self._fixed, 0)
        entries = list(enumerate(self.layout.entries))
        self._names = [entry.name for _, entry in entries]
        self.types = digest_types(values, self._names)
        self._encoded = [(index, entry) for index, entry in entries if entry.name not in plain]
        self._plain = [index for index, entry in entries if entry.name in plain]
        self._dtypes = [plain[self._names[index]] for index in self._plain]
        self._shapes = [entries[index][1].shape for index in self._plain]
        # Only arrays with several axes can have different axis orders.
        self._deep = [at for at, shape in enumerate(self._shapes) if len(shape) > 1]
        self._orders = [entries[self._plain[at]][1].order for at in self._deep]
        # The strides of the last arrays that fitted: arrays with equal strides have equal orders.
        self._strides: list[tuple[int, ...]] = []
        self._types: ArrayTypes | None = None
        self._steps = self._plan(plain)
        gathered = (step.first for step in self._steps if isinstance(step, _Gathered))
        self.gathered = next((int(self._offsets[self.layout.order[at]]) for at in gathered), 0)

    def arrays(
        self, values: Mapping[str, Value], types: ArrayTypes | None = None
    ) -> list[Array] | None:
        """Encode an epoch's values as arrays; None if they do not fit this encoder's layout.

        Args:
            values: By name.
            types: Those of the values, where they are known.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
        """
        if len(values) != len(self._names):
            return None
        # Whole lists at a time: with ten thousand blobs a Python loop is slow.
        arrays: list[Any] = list(map(values.get, self._names))
        if types is None or types is not self._types:
            plain = [arrays[index] for index in self._plain] if self._encoded else arrays
            if not self._fits(plain):
                return None
            self._types = types
        for index, entry in self._encoded:
            if arrays[index] is None:
                return None
            coded = encode(arrays[index], entry.name)
            coded_type = (coded.kind, coded.dtype, coded.array.shape, coded.order)
            if coded_type != (entry.kind, entry.dtype, entry.shape, entry.order):
                return None
            arrays[index] = coded.array
        return arrays

    def _fits(self, plain: list[Any]) -> bool:
        """Return whether arrays have the dtypes, shapes and axis orders this encoder is for."""
        if not set(map(type, plain)) <= {np.ndarray}:
            return False
        # Compared without lists: thousands of new tuples would trigger the garbage collector.
        if not all(map(eq, map(_SHAPE, plain), self._shapes)):
            return False
        dtypes = list(map(_DTYPE, plain))
        if not all(map(is_, dtypes, self._dtypes)):
            # Equal dtypes may differ in metadata.
            if not all(map(same_dtype, dtypes, self._dtypes)):
                return False
            self._dtypes = dtypes
        deep = [plain[at] for at in self._deep]
        strides = list(map(_STRIDES, deep))
        if strides != self._strides:
            if list(map(axis_order, deep)) != self._orders:
                return False
            self._strides = strides
        return True

    def fill(
        self,
        filling: BlockWriter,
        arrays: list[Array],
        epoch: int,
        values: Sequence[bytes],
        known: PreviousFile | None = None,
        adjacent: FindAdjacent | None = None,
    ) -> EncodedFile:
        """Encode an epoch's arrays into a file; return the file's part offsets, tail and length.

        Args:
            filling: The file.
            arrays: As ``arrays`` has returned them.
            epoch: Their epoch.
            values: Digests of those values that have one each.
            known: What is known of the file from the last one.
            adjacent: Finds arrays that lie one after the other in memory.
        """
        known = known or PreviousFile()
        if self._front is not None:
            # The front is the same in each file of this layout.
            filling.put(self._front, known.digests)
        order = self.layout.order
        for step in self._steps:
            if isinstance(step, int):
                index = order[step]
                filling.zero(int(self._offsets[index]))
                same = known.digests if self._names[index] in known.unchanged else ()
                self._require_size(index, arrays[index])
                _put(filling, arrays[index], same)
            else:
                filling.zero(int(self._offsets[order[step.first]]))
                # Items in a file are in C order, items in copies in the order of their axes.
                direct = adjacent if not step.order else None
                piece = direct(step.names, step.size_bytes) if direct else None
                if piece is not None:
                    filling.put(piece)
                else:
                    members = order[step.first : step.first + step.count]
                    _gather(filling, step, [arrays[index] for index in members])
        if self._front is not None:
            return self._finish(filling, _Tail(epoch, values), self._fixed, None)
        return self._fill_packed(filling, arrays, _Tail(epoch, values))

    def _require_size(self, index: int, array: Array) -> None:
        """Require that an array to be encoded has the size that the file layout gives it.

        What refers to an array can resize it, however it is shared; all behind it would be shifted.
        """
        entry = self.layout.entries[index]
        if array.nbytes != entry.size_bytes:
            raise TaskFailedError.of(
                "E309",
                f"blob '{display_name(entry.name)}' cannot be stored in a checkpoint: it has "
                f"{array.nbytes} bytes, and had {entry.size_bytes} when the save began",
                "list it under inout of the step that changes it",
            )

    def _fill_packed(self, filling: BlockWriter, arrays: list[Array], tail: _Tail) -> EncodedFile:
        """Encode all compressed blobs into the file: chunks and B-trees, then the metadata."""
        offsets = self._offsets.copy()
        chunks = tail.chunks
        for index in self.layout.packed:
            entry = self.layout.entries[index]
            first = len(chunks)
            for data in compress_chunks(entry, arrays[index]):
                chunks.append((filling.position, len(data)))
                filling.put(np.frombuffer(data, np.uint8))
            filling.zero(_rounded(filling.position, ALIGNMENT))
            places = [(at - USER_BLOCK, size) for at, size in chunks[first:]]
            assert entry.packing is not None  # noqa: S101 - so are all in ``packed``
            tree, root = render_chunk_tree(
                entry.shape, entry.packing.chunk, places, filling.position - USER_BLOCK
            )
            offsets[index] = root + USER_BLOCK
            filling.put(np.frombuffer(tree, np.uint8))
        places_now = self._places(offsets, filling.position)
        front = aligned(self.first * BLOCK_BYTES)
        front[: self._template.size_bytes - USER_BLOCK] = self._template.render(places_now)
        for number in range(self.first):
            filling.digests[number] = digest(front[number * BLOCK_BYTES :][:BLOCK_BYTES].data)
        return self._finish(filling, tail, places_now, front)

    def _parts(self, places: Offsets, chunks: int) -> Parts:
        return Parts(
            index=self._template.index_at,
            layout_bytes=len(self.layout.text),
            names_bytes=len(self.layout.names_text),
            blobs=len(self.layout.entries),
            tail=places.tail,
            chunks=chunks,
            blocks=places.blocks,
            values=places.values,
        )

    def _finish(
        self,
        filling: BlockWriter,
        tail: _Tail,
        places: Offsets,
        front: Bytes | None,
    ) -> EncodedFile:
        filling.zero(places.tail)
        filling.end_blocks()
        data = tail.render(filling.digests)
        filling.put_tail(data)
        parts = self.parts or self._parts(places, len(tail.chunks))
        return EncodedFile(parts, data, front, places.end)

    def _places(self, offsets: Numbers, last: int) -> Offsets:
        tail = _rounded(last, EPOCH_TYPE.itemsize)
        chunks = self.layout.chunk_count * CHUNKS_TYPE.itemsize
        blocks, values = block_count(tail), len(self.memory.names)
        end = tail + EPOCH_TYPE.itemsize + chunks + (values + blocks) * DIGEST_BYTES
        return Offsets(offsets, tail, values, blocks, end)

    def _most_packed(self) -> int:
        """Return the most bytes that the encoder's compressed blobs can take in the file."""
        sizes = (self.layout.entries[index].size_bytes for index in self.layout.packed)
        return sum(2 * size for size in sizes) + self.layout.chunk_count * 4096

    def _plan(self, plain: Mapping[str, DType]) -> list[int | _Gathered]:
        """Plan how all blobs are encoded in file order: one by one, or small ones together."""
        steps: list[int | _Gathered] = []
        for position, index in enumerate(self.layout.order):
            entry = self.layout.entries[index]
            if not entry.size_bytes or entry.packing:
                continue
            last = steps[-1] if steps else None
            dtype = plain.get(entry.name)
            # numpy takes None for float64 where it compares dtypes.
            if dtype is None or not _can_be_gathered(entry):
                steps.append(position)
            elif isinstance(last, _Gathered) and last.takes(position, entry, dtype):
                last.count += 1
                last.names.append(entry.name)
            else:
                steps.append(_gather_from(position, entry, dtype))
        return steps


def build_encoder(
    values: Mapping[str, Value],
    compression: Rules = (),
    origins: Mapping[str, str] | None = None,
) -> tuple[FileEncoder, list[Array]]:
    """Build the encoder of a checkpoint file for given values; return also the arrays to write.

    Args:
        values: By name.
        compression: Which to compress, if a probe of the values finds it worth it.
        origins: Where the spec makes some of them.

    Raises:
        EnvironmentFaultError: E326, a codec needs a package that is not there.
        TaskFailedError: A blob holds what cannot be stored.
    """
    coded = {name: _coded(value, name) for name, value in values.items()}
    plain = {
        name: values[name].dtype
        for name, encoded in coded.items()
        if encoded.kind == "array" and is_reinterpreted(values[name].dtype)
    }
    encoder = FileEncoder(coded, plain, choose_packings(coded, compression), origins or {}, values)
    arrays = encoder.arrays(values)
    assert arrays is not None  # noqa: S101 - it was made for them
    return encoder, arrays


def _coded(value: Value, name: str) -> Coded:
    # Fast path: the same result as ``encode``, in a third of the time.
    is_usual = (
        type(value) is np.ndarray
        and value.ndim <= MOST_DIMENSIONS
        and value.dtype.kind in "biufc"
        and is_reinterpreted(value.dtype)
        and not is_custom(value.dtype)
    )
    if not is_usual:
        return encode(value, name)
    return Coded("array", dtype_text(value.dtype), value, axis_order(value))


def _put(filling: BlockWriter, array: Array, same: Sequence[bytes]) -> None:
    """Encode an array's bytes in C order into the file, in portions if its order is another."""
    if array.flags.c_contiguous:
        filling.put(flat_bytes(array), same)
        return
    # Split along the first axis only: smaller parts would need many more calls.
    rows = max(1, _PORTION_BYTES // max(1, array.nbytes // len(array)))
    for first in range(0, len(array), rows):
        filling.put(flat_bytes(array[first : first + rows]))


def flat_bytes(array: Array) -> Bytes:
    """Return an array's bytes in C order for the encoder, without a copy if possible."""
    flat: Any = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8)  # type: ignore[no-any-return]


def _can_be_gathered(entry: Entry) -> bool:
    size = entry.size_bytes
    return bool(entry.shape) and size % ALIGNMENT == 0 and size < PAGED_BYTES


def _gather_from(position: int, entry: Entry, dtype: DType) -> _Gathered:
    """Start a batch of small arrays, to be encoded by one call, with its first array."""
    return _Gathered(position, 1, dtype, entry.size_bytes, entry.shape, entry.order, [entry.name])


def _gather(filling: BlockWriter, step: _Gathered, arrays: list[Array]) -> None:
    size = step.size_bytes
    at = 0
    while at < len(arrays):
        room = filling.room()
        # A block at a time: it is digested while it is in the processor's cache.
        count = min(len(arrays) - at, room.size // size, BLOCK_BYTES // size)
        if count == 0:
            # The next array crosses the end of the slab.
            _put(filling, arrays[at], ())
            at += 1
            continue
        out = room[: count * size].view(step.dtype).reshape(-1, *step.shape[1:])
        np.concatenate(arrays[at : at + count], out=out)
        filling.advance(count * size)
        at += count


def _rounded(position: int, step: int) -> int:
    return -(-position // step) * step
