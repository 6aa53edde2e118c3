"""Lay out blobs in a checkpoint file: assign their offsets, and describe the layout as JSON.

A layout follows from the names, kinds, dtypes, shapes and axis orders of the blobs, and from
nothing else; so one made for an epoch serves all epochs, and a file that was written with the same
layout can be overwritten in place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from jobrun.checkpoint.hdf5.dataset_names import dataset_path, root_blob
from jobrun.checkpoint.hdf5.value_codec import Coded
from jobrun.core.files.digest import digest_bytes
from jobrun.core.partly_compared import PartlyCompared
from jobrun.values.axis_order import AxisOrder

Numbers = np.ndarray[Any, np.dtype[np.uint64]]
# A blob from this size on begins at a page: it can be mapped, and written from where it is.
PAGE = 4096
PAGED_BYTES = 1 << 16
# Enough for any dtype that numpy has.
ALIGNMENT = 16


class Packing(Struct, frozen=True):
    """How the chunks of a compressed blob are made.

    Attributes:
        codec: Its name, see ``codecs``.
        chunk: The shape of a chunk; all its items are adjacent in the array.
        count: How many chunks there are.
    """

    codec: str
    chunk: tuple[int, ...]
    count: int


class Entry(Struct, frozen=True):
    """One blob of a layout.

    Attributes:
        name: The blob's name.
        kind: See ``value_codec.Coded``.
        dtype: Likewise, the logical one.
        shape: Of the stored array.
        size_bytes: Of its data, before compression.
        role: ``state``, or ``reader``: the position of a reader.
        origin: Where the spec makes it, or empty.
        packing: None: in one piece.
        order: The axes of the value in memory, see ``values.axis_order``; the data are in C order.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    role: str = "state"
    origin: str = ""
    packing: Packing | None = None
    order: AxisOrder = ()


class Layout(PartlyCompared, frozen=True, dict=True):
    """The blobs of a file, and parts of them, in the order of their links in UTF-8.

    Attributes:
        quoted_names: The links: names below ``/blobs``.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("quoted_names",)

    entries: tuple[Entry, ...]
    quoted_names: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Layout:
        """Build the layout of a checkpoint file from its blobs, given in any order."""
        ordered = sorted((dataset_path(entry.name).encode(), entry) for entry in entries)
        return cls(tuple(entry for _, entry in ordered), tuple(name for name, _ in ordered))

    @cached_property
    def types(self) -> list[tuple[str, str, tuple[int, ...], AxisOrder]]:
        """Return the distinct blob types in the file layout: kind, dtype, shape, axis order."""
        return list(dict.fromkeys(map(_type_of, self.entries)))

    @cached_property
    def sizes(self) -> Numbers:
        """Return the size of each blob's data in the file layout; 0 for a compressed blob."""
        sizes = (0 if entry.packing else entry.size_bytes for entry in self.entries)
        return np.fromiter(sizes, np.uint64, len(self.entries))

    @cached_property
    def order(self) -> list[int]:
        """Return the indexes of the file layout's blobs in the order of their data.

        Small ones are first.
        """
        paged = self.sizes >= PAGED_BYTES
        return [*np.flatnonzero(~paged).tolist(), *np.flatnonzero(paged).tolist()]

    @cached_property
    def packed(self) -> list[int]:
        """Return the indexes of the compressed blobs, whose data the file layout puts last."""
        return [index for index, entry in enumerate(self.entries) if entry.packing]

    @cached_property
    def chunk_count(self) -> int:
        """Return how many chunks all compressed blobs of the file layout have together."""
        return sum(entry.packing.count for entry in self.entries if entry.packing)

    @cached_property
    def text(self) -> bytes:
        """Return the file layout as JSON text: blob types, and how blobs are compressed."""
        packings = {
            str(index): [entry.packing.codec, list(entry.packing.chunk), entry.packing.count]
            for index, entry in enumerate(self.entries)
            if entry.packing
        }
        types = [
            [kind, dtype, list(shape), *([list(order)] if order else [])]
            for kind, dtype, shape, order in self.types
        ]
        content = {"chunked": packings, "types": types}
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")

    @cached_property
    def names_text(self) -> bytes:
        """Return the quoted names (``%2F`` for ``/``) of the file layout's blobs, one a line."""
        return b"\n".join(self.quoted_names)

    @cached_property
    def type_numbers(self) -> Numbers:
        """Return the position in ``types`` of each blob's type in the file layout."""
        numbers = {blob_type: number for number, blob_type in enumerate(self.types)}
        type_numbers = (numbers[_type_of(entry)] for entry in self.entries)
        return np.fromiter(type_numbers, np.uint64, len(self.entries))

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of a file layout: of the blobs' names, kinds, dtypes and shapes."""
        about = [[entry.role, entry.origin] for entry in self.entries]
        roles = json.dumps(about, sort_keys=True) if any(map(_has_attributes, self.entries)) else ""
        texts = b"\0".join([self.text, self.names_text, roles.encode()])
        return digest_bytes(texts, self.type_numbers.tobytes())

    def places(self, start: int) -> tuple[Numbers, int]:
        """Return the offset of each blob's data in the file layout, and where all data end.

        Blobs without data, and compressed ones, are at 0.
        """
        sizes = self.sizes[self.order].astype(np.int64)
        paged = sizes >= PAGED_BYTES
        step = np.where(paged, PAGE, ALIGNMENT)
        taken = -(-sizes // step) * step
        begin = -(-start // ALIGNMENT) * ALIGNMENT
        first = begin + np.concatenate([[0], np.cumsum(taken)[:-1]]) if len(sizes) else sizes
        end = begin + int(taken[~paged].sum())
        shift = -end % PAGE
        first[paged] += shift
        offsets = np.zeros(len(sizes), np.uint64)
        offsets[self.order] = np.where(sizes > 0, first, 0)
        last = int((first + sizes).max(initial=begin))
        return offsets, last


def build_entries(
    coded: Mapping[str, Coded],
    packings: Mapping[str, Packing] | None = None,
    origins: Mapping[str, str] | None = None,
) -> list[Entry]:
    """Build the ``Entry`` of each value in a file layout: its name, dtype, shape and role."""
    return [
        Entry(
            name=name,
            kind=encoded.kind,
            dtype=encoded.dtype,
            shape=encoded.array.shape,
            size_bytes=encoded.array.nbytes,
            role="reader" if name.startswith("readers/") else "state",
            origin=(origins or {}).get(root_blob(name), ""),
            packing=(packings or {}).get(name),
            order=encoded.order,
        )
        for name, encoded in coded.items()
    ]


def _type_of(entry: Entry) -> tuple[str, str, tuple[int, ...], AxisOrder]:
    return entry.kind, entry.dtype, entry.shape, entry.order


def _has_attributes(entry: Entry) -> bool:
    return bool(entry.origin) or entry.role != "state"
