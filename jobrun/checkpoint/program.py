"""How values of one layout become the bytes of a file: made once, used for every epoch. No disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from jobrun.blobs.values import Value
from jobrun.checkpoint.blocks import (
    BLOCK_BYTES,
    DIGEST_BYTES,
    block_count,
    block_span,
    digest,
)
from jobrun.checkpoint.codec import MOST_DIMENSIONS, Array, Coded, encode
from jobrun.checkpoint.dtypes import DType, dtype_text, is_custom, is_reinterpreted
from jobrun.checkpoint.filling import Filling
from jobrun.checkpoint.layout import (
    ALIGNMENT,
    PAGED_BYTES,
    Entry,
    Layout,
    Numbers,
    Packing,
    entries_of,
)
from jobrun.checkpoint.packing import packed_chunks, packings
from jobrun.checkpoint.slabs import aligned
from jobrun.checkpoint.template import CHUNKS_TYPE, EPOCH_TYPE, Bytes, Places, Template, chunk_tree
from jobrun.checkpoint.userblock import SIZE as USER_BLOCK
from jobrun.checkpoint.userblock import Parts
from jobrun.core.compression import Rules

_DTYPE, _SHAPE = attrgetter("dtype"), attrgetter("shape")


@dataclass(slots=True)
class _Gathered:
    """Small arrays of one dtype and shape that stand back to back: copied by one call.

    Attributes:
        first: The first of them in the order of the file.
        count: How many there are.
        dtype: Of all of them.
        size_bytes: Of one.
        shape: Of one.
    """

    first: int
    count: int
    dtype: DType
    size_bytes: int
    shape: tuple[int, ...]

    def takes(self, place: int, entry: Entry, dtype: DType | None) -> bool:
        """Whether a blob goes on where these end."""
        return (
            self.first + self.count == place
            and entry.size_bytes == self.size_bytes
            and entry.shape == self.shape
            and (dtype is self.dtype or dtype == self.dtype)
        )


@dataclass(frozen=True, slots=True)
class Filled:
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


@dataclass(frozen=True, slots=True)
class Known:
    """What the last file of the same program tells of the next one.

    Attributes:
        unchanged: Blobs whose values are the same.
        digests: Of that file's blocks.
    """

    unchanged: Collection[str] = ()
    digests: Sequence[bytes] = ()


class Program:
    """The bytes of a layout's files.

    Args:
        coded: Values of the layout, as they are stored.
        plain: The names of those that are stored as they are, with their dtypes.
        packed: How some are compressed.

    Attributes:
        layout: The layout.
        most_bytes: The most that a file can have; without compression what it has.
        first: The first block of data; with compression the metadata, which are known last,
            have blocks of their own.
    """

    def __init__(
        self,
        coded: Mapping[str, Coded],
        plain: Mapping[str, DType],
        packed: Mapping[str, Packing],
        origins: Mapping[str, str],
    ) -> None:
        self.layout = Layout.of(entries_of(coded, packed, origins))
        self._template = Template(self.layout)
        start = self._template.size_bytes
        self.first = block_count(start) if packed else 0
        if packed:
            start = block_span(self.first, start + BLOCK_BYTES)[0]
        self._offsets, self._last = self.layout.places(start)
        self.most_bytes = self._places(self._offsets, self._last + self._most_packed()).end
        self._front: Bytes | None = None
        if not packed:
            places = self._places(self._offsets, self._last)
            self._front = self._template.render(places)
        entries = list(enumerate(self.layout.entries))
        self._names = [entry.name for _, entry in entries]
        self._encoded = [(index, one) for index, one in entries if one.name not in plain]
        self._plain = [index for index, one in entries if one.name in plain]
        self._dtypes = [plain[self._names[index]] for index in self._plain]
        self._shapes = [entries[index][1].shape for index in self._plain]
        self._steps = self._plan(plain)

    def arrays(self, values: Mapping[str, Value]) -> list[Array] | None:
        """The values as they are stored, in the layout's order; None if it is not theirs.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
        """
        if len(values) != len(self._names):
            return None
        # By whole lists: of ten thousand blobs each step counts.
        found: list[Any] = list(map(values.get, self._names))
        plain = [found[index] for index in self._plain]
        if (
            not set(map(type, plain)) <= {np.ndarray}
            or list(map(_SHAPE, plain)) != self._shapes
            or list(map(_DTYPE, plain)) != self._dtypes
        ):
            return None
        for index, entry in self._encoded:
            if found[index] is None:
                return None
            coded = encode(found[index], entry.name)
            if (coded.kind, coded.dtype, coded.array.shape) != (
                entry.kind,
                entry.dtype,
                entry.shape,
            ):
                return None
            found[index] = coded.array
        return found

    def fill(
        self, filling: Filling, arrays: list[Array], epoch: int, known: Known | None = None
    ) -> Filled:
        """Give all bytes from block ``first`` on; what is not given is in the result."""
        known = known or Known()
        if self._front is not None:
            filling.put(self._front)
        order = self.layout.order
        for step in self._steps:
            if isinstance(step, int):
                index = order[step]
                filling.zero(int(self._offsets[index]))
                same = known.digests if self._names[index] in known.unchanged else ()
                filling.put(flat_bytes(arrays[index]), same)
            else:
                members = order[step.first : step.first + step.count]
                filling.zero(int(self._offsets[members[0]]))
                _gather(filling, step, [arrays[index] for index in members])
        if self._front is not None:
            return self._finish(filling, epoch, self._places(self._offsets, self._last), [], None)
        return self._fill_packed(filling, arrays, epoch)

    def _fill_packed(self, filling: Filling, arrays: list[Array], epoch: int) -> Filled:
        """Chunks, then the trees that find them, and now that all have their places, metadata."""
        offsets = self._offsets.copy()
        chunks: list[tuple[int, int]] = []
        for index in self.layout.packed:
            entry = self.layout.entries[index]
            first = len(chunks)
            for data in packed_chunks(entry, arrays[index]):
                chunks.append((filling.position, len(data)))
                filling.put(np.frombuffer(data, np.uint8))
            filling.zero(_rounded(filling.position, ALIGNMENT))
            places = [(at - USER_BLOCK, size) for at, size in chunks[first:]]
            tree, root = chunk_tree(entry, places, filling.position - USER_BLOCK)
            offsets[index] = root + USER_BLOCK
            filling.put(np.frombuffer(tree, np.uint8))
        places_now = self._places(offsets, filling.position)
        front = aligned(self.first * BLOCK_BYTES)
        front[: self._template.size_bytes - USER_BLOCK] = self._template.render(places_now)
        for number in range(self.first):
            filling.digests[number] = digest(front[number * BLOCK_BYTES :][:BLOCK_BYTES].data)
        return self._finish(filling, epoch, places_now, chunks, front)

    def parts(self) -> Parts | None:
        """Where the parts of every file of the layout are; None if that differs."""
        places = self._places(self._offsets, self._last)
        return self._parts(places, 0) if self._front is not None else None

    def _parts(self, places: Places, chunks: int) -> Parts:
        return Parts(
            index=self._template.index_at,
            layout_bytes=len(self.layout.text),
            names_bytes=len(self.layout.names_text),
            blobs=len(self.layout.entries),
            tail=places.tail,
            chunks=chunks,
            blocks=places.blocks,
        )

    def _finish(
        self,
        filling: Filling,
        epoch: int,
        places: Places,
        chunks: list[tuple[int, int]],
        front: Bytes | None,
    ) -> Filled:
        filling.zero(places.tail)
        filling.end_blocks()
        table = np.array(chunks, CHUNKS_TYPE).tobytes()
        tail = np.array(epoch, EPOCH_TYPE).tobytes() + table + b"".join(filling.digests)
        filling.put_tail(tail)
        return Filled(self._parts(places, len(chunks)), tail, front, places.end)

    def _places(self, offsets: Numbers, last: int) -> Places:
        tail = _rounded(last, EPOCH_TYPE.itemsize)
        chunks = self.layout.chunk_count * CHUNKS_TYPE.itemsize
        blocks = block_count(tail)
        end = tail + EPOCH_TYPE.itemsize + chunks + blocks * DIGEST_BYTES
        return Places(offsets, tail, blocks, end)

    def _most_packed(self) -> int:
        """The most that compressed blobs can take: if nothing becomes smaller."""
        sizes = (self.layout.entries[index].size_bytes for index in self.layout.packed)
        return sum(2 * size for size in sizes) + self.layout.chunk_count * 4096

    def _plan(self, plain: Mapping[str, DType]) -> list[int | _Gathered]:
        """What has bytes, in the order of the file; as its place there, or together with others."""
        steps: list[int | _Gathered] = []
        for place, index in enumerate(self.layout.order):
            entry = self.layout.entries[index]
            if not entry.size_bytes or entry.packing:
                continue
            last = steps[-1] if steps else None
            dtype = plain.get(entry.name)
            if isinstance(last, _Gathered) and last.takes(place, entry, dtype):
                last.count += 1
            elif dtype is None or not _can_be_gathered(entry):
                steps.append(place)
            else:
                steps.append(_Gathered(place, 1, dtype, entry.size_bytes, entry.shape))
        return steps


def program_for(
    values: Mapping[str, Value],
    compression: Rules = (),
    origins: Mapping[str, str] | None = None,
) -> tuple[Program, list[Array]]:
    """A program for the layout of these values, and the values as they are stored.

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
        for name, one in coded.items()
        if one.kind == "array" and is_reinterpreted(values[name].dtype)
    }
    made = Program(coded, plain, packings(coded, compression), origins or {})
    arrays = made.arrays(values)
    assert arrays is not None  # noqa: S101 - it was made for them
    return made, arrays


def _coded(value: Value, name: str) -> Coded:
    # The same as ``encode`` makes of it, in a third of the time.
    is_usual = (
        type(value) is np.ndarray
        and value.ndim <= MOST_DIMENSIONS
        and value.dtype.kind in "biufc"
        and is_reinterpreted(value.dtype)
        and not is_custom(value.dtype)
    )
    return Coded("array", dtype_text(value.dtype), value) if is_usual else encode(value, name)


def flat_bytes(array: Array) -> Bytes:
    """The data of an array in C order, as bytes; the array's own memory, if it is so."""
    whole = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    flat: Any = whole.reshape(-1)
    return flat.view(np.uint8)  # type: ignore[no-any-return]


def _can_be_gathered(entry: Entry) -> bool:
    size = entry.size_bytes
    return bool(entry.shape) and size % ALIGNMENT == 0 and size < PAGED_BYTES


def _gather(filling: Filling, step: _Gathered, arrays: list[Array]) -> None:
    size = step.size_bytes
    at = 0
    while at < len(arrays):
        room = filling.room()
        # A block at a time: it is digested while it is in the processor's cache.
        count = min(len(arrays) - at, room.size // size, BLOCK_BYTES // size)
        if count == 0:
            # It goes over the end of the slab.
            filling.put(flat_bytes(arrays[at]))
            at += 1
            continue
        out = room[: count * size].view(step.dtype).reshape(-1, *step.shape[1:])
        np.concatenate(arrays[at : at + count], out=out)
        filling.advance(count * size)
        at += count


def _rounded(position: int, step: int) -> int:
    return -(-position // step) * step
