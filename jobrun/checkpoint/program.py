"""How values of one layout become the bytes of a file: made once, used for every epoch. No disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobrun.blobs.values import Value
from jobrun.checkpoint.blocks import DIGEST_BYTES, block_count
from jobrun.checkpoint.codec import Array, Coded, encode
from jobrun.checkpoint.dtypes import DType
from jobrun.checkpoint.filling import Filling
from jobrun.checkpoint.layout import ALIGNMENT, PAGED_BYTES, Layout, entries_of
from jobrun.checkpoint.template import EPOCH_TYPE, Bytes, Places, Template
from jobrun.checkpoint.userblock import Parts

# Of so many, the metadata of numpy's own call are small beside the data.
_MOST_GATHERED = 256


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Small arrays of one dtype and shape that stand back to back: copied by one call.

    Attributes:
        first: The first of them in the order of the file.
        count: How many there are.
        size_bytes: Of one.
        length: Of one, along its first axis.
        rest: The shape but for the first axis.
    """

    first: int
    count: int
    dtype: DType
    size_bytes: int
    length: int
    rest: tuple[int, ...]


class Program:
    """The bytes of a layout's files.

    Args:
        coded: Values of the layout, as they are stored.
        plain: The names of those that are stored as they are.

    Attributes:
        layout: The layout.
        places: Where everything stands in the file.
        parts: The same, as far as the user block tells it.
    """

    def __init__(self, coded: Mapping[str, Coded], plain: Mapping[str, DType]) -> None:
        self.layout = Layout.of(entries_of(coded))
        template = Template(self.layout)
        offsets, last = self.layout.places(template.size_bytes)
        tail = -(-last // EPOCH_TYPE.itemsize) * EPOCH_TYPE.itemsize
        blocks = block_count(tail)
        end = tail + EPOCH_TYPE.itemsize + blocks * DIGEST_BYTES
        self.places = Places(offsets, tail, blocks, end)
        self.parts = Parts(
            index=template.index_at,
            layout_bytes=len(self.layout.text),
            names_bytes=len(self.layout.names_text),
            blobs=len(self.layout.entries),
            tail=tail,
            chunks=0,
            blocks=blocks,
        )
        self._front: Bytes = template.render(self.places)
        self._expected = [
            (entry.name, plain.get(entry.name), entry.shape, entry) for entry in self.layout.entries
        ]
        self._steps = self._plan(plain)

    def arrays(self, values: Mapping[str, Value]) -> list[Array] | None:
        """The values as they are stored, in the layout's order; None if it is not theirs.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
        """
        if len(values) != len(self._expected):
            return None
        found: list[Array] = []
        for name, dtype, shape, entry in self._expected:
            value = values.get(name)
            if dtype is not None:
                if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
                    return None
                found.append(value)
                continue
            if name not in values:
                return None
            coded = encode(value, name)
            if (coded.kind, coded.dtype, coded.array.shape) != (entry.kind, entry.dtype, shape):
                return None
            found.append(coded.array)
        return found

    def fill(self, filling: Filling, arrays: list[Array], epoch: int) -> bytes:
        """Give all bytes behind the user block; returns the tail, which is the end of them."""
        filling.put(self._front)
        order = self.layout.order
        for step in self._steps:
            if isinstance(step, int):
                index = order[step]
                filling.zero(int(self.places.offsets[index]))
                filling.put(flat_bytes(arrays[index]))
            else:
                members = order[step.first : step.first + step.count]
                filling.zero(int(self.places.offsets[members[0]]))
                _gather(filling, step, [arrays[index] for index in members])
        filling.zero(self.places.tail)
        filling.end_blocks()
        tail = np.array(epoch, EPOCH_TYPE).tobytes() + b"".join(filling.digests)
        filling.put_tail(tail)
        return tail

    def _plan(self, plain: Mapping[str, DType]) -> list[int | _Gathered]:
        """What has bytes, in the order of the file; as its place there, or together with others."""
        steps: list[int | _Gathered] = []
        for place, index in enumerate(self.layout.order):
            entry = self.layout.entries[index]
            if not entry.size_bytes:
                continue
            dtype = plain.get(entry.name)
            size = entry.size_bytes
            if dtype is None or not entry.shape or size % ALIGNMENT or size >= PAGED_BYTES:
                steps.append(place)
                continue
            last = steps[-1] if steps else None
            one = _Gathered(place, 1, dtype, size, entry.shape[0], entry.shape[1:])
            if isinstance(last, _Gathered) and _goes_on(last, one):
                steps[-1] = _Gathered(last.first, last.count + 1, dtype, size, one.length, one.rest)
            else:
                steps.append(one)
        return steps


def program_for(values: Mapping[str, Value]) -> tuple[Program, list[Array]]:
    """A program for the layout of these values, and the values as they are stored.

    Raises:
        TaskFailedError: A blob holds what cannot be stored.
    """
    coded = {name: encode(value, name) for name, value in values.items()}
    plain = {
        name: one.array.dtype
        for name, one in coded.items()
        if one.kind == "array" and one.array.dtype == values[name].dtype and _is_simple(one.array)
    }
    made = Program(coded, plain)
    return made, [coded[entry.name].array for entry in made.layout.entries]


def flat_bytes(array: Array) -> Bytes:
    """The data of an array in C order, as bytes; the array's own memory, if it is so."""
    whole = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    flat: Any = whole.reshape(-1)
    return flat.view(np.uint8)  # type: ignore[no-any-return]


def _is_simple(array: Array) -> bool:
    # Long doubles and records have padding, which has to become zero first.
    return (
        array.dtype.kind in "biufc" and array.dtype.itemsize <= 16 and array.dtype.char not in "gG"
    )


def _goes_on(last: _Gathered, one: _Gathered) -> bool:
    return last.first + last.count == one.first and (last.dtype, last.size_bytes, last.rest) == (
        one.dtype,
        one.size_bytes,
        one.rest,
    )


def _gather(filling: Filling, step: _Gathered, arrays: list[Array]) -> None:
    size = step.size_bytes
    at = 0
    while at < len(arrays):
        room = filling.room()
        count = min(len(arrays) - at, room.size // size, _MOST_GATHERED)
        if count == 0:
            # It goes over the end of the slab.
            filling.put(flat_bytes(arrays[at]))
            at += 1
            continue
        out = room[: count * size].view(step.dtype).reshape(count * step.length, *step.rest)
        np.concatenate(arrays[at : at + count], out=out)
        filling.advance(count * size)
        at += count
