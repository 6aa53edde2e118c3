"""The HDF5 metadata of a layout, made once: all of a file but data, digests and user block.

What stands in front of the data, in this order: superblock, index (``/_ck/layout``, ``names``
and ``blobs``), object headers, groups. Only addresses differ between two files of one layout,
and without compression not even these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import h5py
import numpy as np
from h5py import h5t

from jobrun.checkpoint import h5parts
from jobrun.checkpoint.blocks import DIGEST_BYTES
from jobrun.checkpoint.codecs import encoder_for
from jobrun.checkpoint.dtypes import DType, parse_dtype, storage_dtype
from jobrun.checkpoint.layout import Entry, Layout, Numbers
from jobrun.checkpoint.names import shown
from jobrun.checkpoint.userblock import SIZE as USER_BLOCK
from jobrun.core.errors import TaskFailedError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
EPOCH_TYPE = np.dtype("<i8")
BLOBS_TYPE = np.dtype([("type", "<u8"), ("offset", "<u8"), ("size", "<u8")])
CHUNKS_TYPE = np.dtype([("offset", "<u8"), ("size", "<u8")])
# From this many links on, nodes that hold more of them are worth their size, in so many groups.
_MANY = 256
_FEW = 16
# A group: the number of a blob, or a group, by name.
_Tree = dict[bytes, "int | _Tree"]


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything behind the metadata stands in one file; bytes from its beginning.

    Attributes:
        offsets: Of each blob's data; of a compressed one, of its chunk tree; 0 without data.
        tail: Of the tail: epoch, places of chunks, digests of blocks.
        blocks: How many blocks are digested.
        end: Of the file.
    """

    offsets: Numbers
    tail: int
    blocks: int
    end: int


@dataclass(frozen=True, slots=True)
class _Alike:
    """Blobs whose headers differ in their addresses only.

    Attributes:
        header: What they have in common.
        address_at: Where in it the address of the data stands.
        first: The address of the first of their headers; the others are right behind.
        members: Which blobs.
    """

    header: bytes
    address_at: int
    first: int
    members: Numbers


@dataclass(frozen=True, slots=True)
class _Own:
    """A dataset of ``/_ck``."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int


class Template:
    """The metadata of a layout.

    Attributes:
        index_at: Where the index begins in the file: two texts, then the table of blobs.
        size_bytes: Where the metadata end in the file, and data may begin.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._tree = _tree_of(layout)
        self._node_k = h5parts.LARGE_K if _is_worth_it(self._tree) else h5parts.SMALL_K
        self.index_at = USER_BLOCK + h5parts.SUPERBLOCK_SIZE
        self._texts = padded(layout.text) + padded(layout.names_text)
        self._table_at = self.index_at + len(self._texts)
        headers_at = self._table_at + BLOBS_TYPE.itemsize * len(layout.entries) - USER_BLOCK
        self._alike, self._addresses, own_at = _place_headers(layout, headers_at)
        nowhere = Places(np.zeros(len(layout.entries), np.uint64), 0, 0, 0)
        own = self._own_headers(nowhere)
        self._groups, self._root, end = self._make_groups(own, own_at)
        self.size_bytes = USER_BLOCK + end

    def render(self, places: Places) -> Bytes:
        """The bytes of a file from the end of its user block on, ``size_bytes`` in all."""
        node_k = self._node_k
        parts = [
            np.frombuffer(h5parts.superblock(places.end, self._root, node_k), np.uint8),
            np.frombuffer(self._texts, np.uint8),
            self._table(places).view(np.uint8),
            *(self._headers(alike, places).reshape(-1) for alike in self._alike),
            *self._own_headers(places).values(),
            np.frombuffer(self._groups, np.uint8),
        ]
        return np.concatenate(parts)

    def _headers(self, alike: _Alike, places: Places) -> Bytes:
        offsets = places.offsets[alike.members]
        there = offsets > 0
        addresses = np.where(there, offsets - there * np.uint64(USER_BLOCK), h5parts.UNDEFINED)
        return h5parts.headers(alike.header, alike.address_at, addresses.astype(np.uint64))

    def _table(self, places: Places) -> np.ndarray[Any, Any]:
        table = np.zeros(len(self._layout.entries), BLOBS_TYPE)
        table["type"] = self._layout.type_numbers
        table["offset"] = places.offsets
        table["size"] = [entry.size_bytes for entry in self._layout.entries]
        return table

    def _own_headers(self, places: Places) -> dict[str, Bytes]:
        return {one.name: _own_header(one) for one in self._own(places)}

    def _own(self, places: Places) -> list[_Own]:
        layout = self._layout
        names_at = self.index_at + len(padded(layout.text))
        chunks_at = places.tail + EPOCH_TYPE.itemsize
        blocks_at = chunks_at + CHUNKS_TYPE.itemsize * layout.chunk_count
        count = layout.chunk_count
        digests = (places.blocks, DIGEST_BYTES)
        return [
            _Own("blobs", BLOBS_TYPE, (len(layout.entries),), self._table_at),
            _Own("blocks", np.dtype("u1"), digests, blocks_at),
            *([_Own("chunks", CHUNKS_TYPE, (count,), chunks_at)] if count else []),
            _Own("epoch", EPOCH_TYPE, (), places.tail),
            _own_text("layout", layout.text, self.index_at),
            _own_text("names", layout.names_text, names_at),
        ]

    def _make_groups(self, own: dict[str, Bytes], own_at: int) -> tuple[bytes, int, int]:
        """All groups, the root's address, and the end of them; each behind its children."""
        links: list[tuple[bytes, int]] = []
        end = own_at
        for name, header in own.items():
            links.append((name.encode(), end))
            end += len(header)
        table = h5parts.group(links, end, self._node_k)
        made = [table]
        blobs_at, root_at = self._make_group(self._tree, end + len(table), made)
        root = h5parts.group([(b"_ck", end), (b"blobs", blobs_at)], root_at, self._node_k)
        return b"".join([*made, root]), root_at, root_at + len(root)

    def _make_group(self, tree: _Tree, begin: int, made: list[bytes]) -> tuple[int, int]:
        """A group behind those inside it; its address, and where it ends."""
        links: list[tuple[bytes, int]] = []
        for name, one in tree.items():
            if isinstance(one, int):
                links.append((name, self._addresses[one]))
            else:
                address, begin = self._make_group(one, begin, made)
                links.append((name, address))
        made.append(h5parts.group(links, begin, self._node_k))
        return begin, begin + len(made[-1])


def chunk_tree(entry: Entry, places: list[tuple[int, int]], address: int) -> tuple[bytes, int]:
    """The tree that finds a compressed blob's chunks, and the address of its root.

    Args:
        entry: The blob.
        places: Address and stored size of each chunk, in the order of the array.
        address: Where the tree will be.
    """
    packing = entry.packing
    assert packing is not None  # noqa: S101 - the caller looks
    return h5parts.chunk_tree(entry.shape, packing.chunk, places, address)


def padded(text: bytes) -> bytes:
    """The text with NULs behind, a multiple of 8 in all."""
    return text + bytes(-len(text) % 8)


def _tree_of(layout: Layout) -> _Tree:
    """What is in ``/blobs``: groups in groups, each in the order of its names' bytes."""
    tree: _Tree = {}
    for row, name in enumerate(layout.quoted_names):
        inside = tree
        *around, last = name.split(b"/")
        for step in around:
            found = inside.setdefault(step, {})
            assert isinstance(found, dict)  # noqa: S101 - a name is a blob's or a group's
            inside = found
        inside[last] = row
    return _ordered(tree) if any(isinstance(one, dict) for one in tree.values()) else tree


def _ordered(tree: _Tree) -> _Tree:
    return {
        name: one if isinstance(one, int) else _ordered(one) for name, one in sorted(tree.items())
    }


def _is_worth_it(tree: _Tree) -> bool:
    """Whether nodes for many links are: not for many groups, each of which has its own."""
    groups = [tree]
    for group in groups:
        groups += [one for one in group.values() if isinstance(one, dict)]
    return len(groups) <= _FEW and max(map(len, groups)) > _MANY


def _place_headers(layout: Layout, start: int) -> tuple[list[_Alike], list[int], int]:
    """The headers of the blobs, the address of each, and where they end."""
    members: dict[tuple[bytes, int], list[int]] = {}
    seen: dict[Any, tuple[bytes, int]] = {}
    for index, entry in enumerate(layout.entries):
        key = (entry.kind, entry.dtype, entry.shape, entry.role, entry.origin, entry.packing)
        if key not in seen:
            seen[key] = _header_of(entry)
        members.setdefault(seen[key], []).append(index)
    found: list[_Alike] = []
    addresses = np.zeros(len(layout.entries), np.uint64)
    end = start
    for (header, at), same in members.items():
        size = h5parts.header_size(header)
        found.append(_Alike(header, at, end, np.array(same, np.uint64)))
        addresses[same] = end + size * np.arange(len(same), dtype=np.uint64)
        end += size * len(same)
    return found, addresses.tolist(), end


def _header_of(entry: Entry) -> tuple[bytes, int]:
    try:
        return _blob_header(entry)
    except ValueError as error:
        raise TaskFailedError.of(
            "E309",
            f"blob '{shown(entry.name)}' cannot be stored in a checkpoint: {error}",
            "give it a simpler dtype, or split it",
        ) from error


def _blob_header(entry: Entry) -> tuple[bytes, int]:
    dtype = storage_dtype(parse_dtype(entry.dtype))
    told = {"kind": entry.kind, "dtype": entry.dtype, "role": entry.role, "origin": entry.origin}
    attributes = b"".join(h5parts.text_attribute(key, text) for key, text in told.items() if text)
    if entry.packing is None:
        storage = h5parts.contiguous(entry.size_bytes)
    else:
        encoder = encoder_for(entry.packing.codec, dtype, entry.packing.chunk)
        pipeline = h5parts.filter_pipeline(encoder.filters)
        storage = h5parts.chunked(entry.packing.chunk, dtype.itemsize, pipeline)
    return h5parts.dataset_header(entry.shape, _datatype(dtype), storage, attributes)


def _own_text(name: str, text: bytes, offset: int) -> _Own:
    dtype = h5py.string_dtype("utf-8", max(1, len(text)))
    return _Own(name, dtype, () if text else (0,), offset)


def _own_header(one: _Own) -> Bytes:
    size = one.dtype.itemsize * int(np.prod(one.shape, dtype=np.int64))
    header, at = h5parts.dataset_header(
        one.shape, _datatype(one.dtype), h5parts.contiguous(size), b""
    )
    address = one.offset - USER_BLOCK if size else h5parts.UNDEFINED
    # Before anything has its place, only the size of the header counts.
    place = np.array([max(address, 0)], np.uint64)
    made: Bytes = h5parts.headers(header, at, place)[0]
    return made


def _datatype(dtype: DType) -> bytes:
    # Texts and records are not cached: numpy takes text of the same width for equal,
    # whatever h5py has noted of its encoding.
    return _numeric_datatype(dtype) if dtype.kind in "biufc" else _encoded(dtype)


@lru_cache(maxsize=256)
def _numeric_datatype(dtype: DType) -> bytes:
    return _encoded(dtype)


def _encoded(dtype: DType) -> bytes:
    # Behind two bytes that say what follows and in which version.
    message: bytes = h5t.py_create(dtype, logical=True).encode()[2:]
    return message
