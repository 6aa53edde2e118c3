"""Render all HDF5 metadata of a file layout once, as a template for every file that has it.

What precedes the data, in this order: superblock, index (``/_ck/layout``, ``names``
and ``blobs``), object headers, groups. Only addresses differ between two files of one layout,
and without compression not even these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.checkpoint.hdf5 import metadata_bytes as h5parts
from jobrun.checkpoint.hdf5.dataset_names import display_name
from jobrun.checkpoint.hdf5.digest_blocks import DIGEST_BYTES
from jobrun.checkpoint.hdf5.dtypes import DType, parse_dtype, storage_dtype
from jobrun.checkpoint.hdf5.file_layout import Entry, Layout, Numbers
from jobrun.checkpoint.hdf5.filters import encoder_for
from jobrun.checkpoint.hdf5.user_block import SIZE as USER_BLOCK
from jobrun.core.errors import TaskFailedError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
EPOCH_TYPE = np.dtype("<i8")
BLOBS_TYPE = np.dtype([("type", "<u8"), ("offset", "<u8"), ("size", "<u8")])
CHUNKS_TYPE = np.dtype([("offset", "<u8"), ("size", "<u8")])
# Large B-tree nodes are worth their size when a group has more than _MANY links, and there are
# at most _FEW groups.
_MANY = 256
_FEW = 16
# A group: by name, the number of a blob, or a subgroup.
_Tree = dict[bytes, "int | _Tree"]


class Offsets(Struct, frozen=True):
    """Where everything behind the metadata begins in one file, in bytes from its beginning.

    Attributes:
        offsets: Of each blob's data; of a compressed one, of its chunk tree; 0 without data.
        tail: Of the tail: epoch, places of chunks, digests of values and of blocks.
        values: How many values have a digest of their own.
        blocks: How many blocks are digested.
        end: Of the file.
    """

    offsets: Numbers
    tail: int
    values: int
    blocks: int
    end: int


class _HeaderBatch(Struct, frozen=True):
    """Blobs whose object headers differ in their addresses only.

    Attributes:
        header: What they have in common.
        address_at: The offset of the address of the data in it.
        first: The address of the first of their headers; the others are right behind.
        members: Which blobs.
    """

    header: bytes
    address_at: int
    first: int
    members: Numbers


class _OwnDataset(Struct, frozen=True):
    """A dataset of ``/_ck``.

    Attributes:
        datatype: The body of its datatype message.
        item_bytes: The size of one item.
        offset: Where its data begin in the file.
    """

    name: str
    datatype: bytes
    item_bytes: int
    shape: tuple[int, ...]
    offset: int


class Template:
    """The metadata of a layout.

    Args:
        layout: The layout.
        values: How many values have a digest of their own.

    Attributes:
        index_at: Where the index begins in the file: two texts, then the table of blobs.
        size_bytes: Where the metadata end in the file, and data may begin.
    """

    def __init__(self, layout: Layout, values: int) -> None:
        self._layout = layout
        self._tree = _build_tree(layout)
        self._node_k = h5parts.LARGE_K if _saves_space(self._tree) else h5parts.SMALL_K
        self.index_at = USER_BLOCK + h5parts.SUPERBLOCK_SIZE
        self._texts = _pad_text(layout.text) + _pad_text(layout.names_text)
        self._table_at = self.index_at + len(self._texts)
        headers_at = self._table_at + BLOBS_TYPE.itemsize * len(layout.entries) - USER_BLOCK
        self._alike, self._addresses, own_at = _place_headers(layout, headers_at)
        nowhere = Offsets(np.zeros(len(layout.entries), np.uint64), 0, values, 0, 0)
        own_headers = self._own_headers(nowhere)
        self._groups, self._root, end = self._make_groups(own_headers, own_at)
        self.size_bytes = USER_BLOCK + end

    def render(self, places: Offsets) -> Bytes:
        """Render one file's HDF5 metadata as bytes, from the template and the file's offsets."""
        node_k = self._node_k
        parts = [
            np.frombuffer(h5parts.render_superblock(places.end, self._root, node_k), np.uint8),
            np.frombuffer(self._texts, np.uint8),
            self._table(places).view(np.uint8),
            *(self._headers(alike, places).reshape(-1) for alike in self._alike),
            *self._own_headers(places).values(),
            np.frombuffer(self._groups, np.uint8),
        ]
        return np.concatenate(parts)

    def _headers(self, alike: _HeaderBatch, places: Offsets) -> Bytes:
        offsets = places.offsets[alike.members]
        there = offsets > 0
        addresses = np.where(there, offsets - there * np.uint64(USER_BLOCK), h5parts.UNDEFINED)
        return h5parts.render_headers(alike.header, alike.address_at, addresses.astype(np.uint64))

    def _table(self, places: Offsets) -> np.ndarray[Any, Any]:
        table = np.zeros(len(self._layout.entries), BLOBS_TYPE)
        table["type"] = self._layout.type_numbers
        table["offset"] = places.offsets
        table["size"] = [entry.size_bytes for entry in self._layout.entries]
        return table

    def _own_headers(self, places: Offsets) -> dict[str, Bytes]:
        return {dataset.name: _own_header(dataset) for dataset in self._own(places)}

    def _own(self, places: Offsets) -> list[_OwnDataset]:
        layout = self._layout
        names_at = self.index_at + len(_pad_text(layout.text))
        chunks_at = places.tail + EPOCH_TYPE.itemsize
        values_at = chunks_at + CHUNKS_TYPE.itemsize * layout.chunk_count
        blocks_at = values_at + DIGEST_BYTES * places.values
        count = layout.chunk_count
        byte = np.dtype("u1")
        of_blocks, of_values = (places.blocks, DIGEST_BYTES), (places.values, DIGEST_BYTES)
        return [
            _own_records("blobs", BLOBS_TYPE, len(layout.entries), self._table_at),
            _own_numbers("blocks", byte, of_blocks, blocks_at),
            *([_own_records("chunks", CHUNKS_TYPE, count, chunks_at)] if count else []),
            _own_numbers("epoch", EPOCH_TYPE, (), places.tail),
            _own_text("layout", layout.text, self.index_at),
            _own_text("names", layout.names_text, names_at),
            *([_own_numbers("values", byte, of_values, values_at)] if places.values else []),
        ]

    def _make_groups(self, own_headers: dict[str, Bytes], own_at: int) -> tuple[bytes, int, int]:
        """Render all HDF5 groups of the template; return bytes, root address, end address."""
        links: list[tuple[bytes, int]] = []
        end = own_at
        for name, header in own_headers.items():
            links.append((name.encode(), end))
            end += len(header)
        table = h5parts.render_group(links, end, self._node_k)
        rendered = [table]
        blobs_at, root_at = self._make_group(self._tree, end + len(table), rendered)
        root = h5parts.render_group([(b"_ck", end), (b"blobs", blobs_at)], root_at, self._node_k)
        return b"".join([*rendered, root]), root_at, root_at + len(root)

    def _make_group(self, tree: _Tree, begin: int, rendered: list[bytes]) -> tuple[int, int]:
        """Render one HDF5 group of the template, children first; return its address and end."""
        links: list[tuple[bytes, int]] = []
        for name, child in tree.items():
            if isinstance(child, int):
                links.append((name, self._addresses[child]))
            else:
                address, begin = self._make_group(child, begin, rendered)
                links.append((name, address))
        rendered.append(h5parts.render_group(links, begin, self._node_k))
        return begin, begin + len(rendered[-1])


def _pad_text(text: bytes) -> bytes:
    """Pad a text of the metadata template with NULs to a multiple of 8 bytes."""
    return text + bytes(-len(text) % 8)


def _build_tree(layout: Layout) -> _Tree:
    """Build nested dicts of the template's HDF5 groups below ``/blobs``, sorted by name."""
    tree: _Tree = {}
    for row, name in enumerate(layout.quoted_names):
        inside = tree
        *group_names, last = name.split(b"/")
        for group_name in group_names:
            group = inside.setdefault(group_name, {})
            assert isinstance(group, dict)  # noqa: S101 - a name is a blob's or a group's
            inside = group
        inside[last] = row
    return _ordered(tree) if any(isinstance(child, dict) for child in tree.values()) else tree


def _ordered(tree: _Tree) -> _Tree:
    return {
        name: child if isinstance(child, int) else _ordered(child)
        for name, child in sorted(tree.items())
    }


def _saves_space(tree: _Tree) -> bool:
    """Return whether large B-tree nodes make the template smaller: few groups, one large."""
    groups = [tree]
    for group in groups:
        groups += [child for child in group.values() if isinstance(child, dict)]
    return len(groups) <= _FEW and max(map(len, groups)) > _MANY


def _place_headers(layout: Layout, start: int) -> tuple[list[_HeaderBatch], list[int], int]:
    """Assign addresses in the template to object headers, byte-equal ones side by side."""
    members: dict[tuple[bytes, int], list[int]] = {}
    seen: dict[Any, tuple[bytes, int]] = {}
    for index, entry in enumerate(layout.entries):
        about = (entry.kind, entry.dtype, entry.shape, entry.order)
        key = (*about, entry.role, entry.origin, entry.packing)
        if key not in seen:
            seen[key] = _header_of(entry)
        members.setdefault(seen[key], []).append(index)
    batches: list[_HeaderBatch] = []
    addresses = np.zeros(len(layout.entries), np.uint64)
    end = start
    for (header, at), same in members.items():
        size = h5parts.header_size(header)
        batches.append(_HeaderBatch(header, at, end, np.array(same, np.uint64)))
        addresses[same] = end + size * np.arange(len(same), dtype=np.uint64)
        end += size * len(same)
    return batches, addresses.tolist(), end


def _header_of(entry: Entry) -> tuple[bytes, int]:
    try:
        return _blob_header(entry)
    except ValueError as error:
        raise TaskFailedError.of(
            "E309",
            f"blob '{display_name(entry.name)}' cannot be stored in a checkpoint: {error}",
            "give it a simpler dtype, or split it",
        ) from error


def _blob_header(entry: Entry) -> tuple[bytes, int]:
    dtype = storage_dtype(parse_dtype(entry.dtype))
    facts = {
        "kind": entry.kind, "dtype": entry.dtype, "order": ",".join(map(str, entry.order)),
        "role": entry.role, "origin": entry.origin,
    }  # fmt: skip
    attributes = b"".join(
        h5parts.render_text_attribute(key, text) for key, text in facts.items() if text
    )
    if entry.packing is None:
        storage = h5parts.render_contiguous_layout(entry.size_bytes)
    else:
        encoder = encoder_for(entry.packing.codec, dtype, entry.packing.chunk)
        pipeline = h5parts.render_filter_pipeline(encoder.filters)
        storage = h5parts.render_chunked_layout(entry.packing.chunk, dtype.itemsize, pipeline)
    return h5parts.render_dataset_header(
        entry.shape, h5parts.render_datatype(dtype), storage, attributes
    )


def _own_numbers(name: str, dtype: DType, shape: tuple[int, ...], offset: int) -> _OwnDataset:
    return _OwnDataset(name, h5parts.render_number_type(dtype), dtype.itemsize, shape, offset)


def _own_records(name: str, dtype: DType, count: int, offset: int) -> _OwnDataset:
    return _OwnDataset(name, h5parts.render_record_type(dtype), dtype.itemsize, (count,), offset)


def _own_text(name: str, text: bytes, offset: int) -> _OwnDataset:
    size = max(1, len(text))
    shape = () if text else (0,)
    return _OwnDataset(name, h5parts.render_text_type(size), size, shape, offset)


def _own_header(dataset: _OwnDataset) -> Bytes:
    size = dataset.item_bytes * int(np.prod(dataset.shape, dtype=np.int64))
    header, at = h5parts.render_dataset_header(
        dataset.shape, dataset.datatype, h5parts.render_contiguous_layout(size), b""
    )
    address = dataset.offset - USER_BLOCK if size else h5parts.UNDEFINED
    # Without an address yet, only the size of the header matters.
    addresses = np.array([max(address, 0)], np.uint64)
    rendered: Bytes = h5parts.render_headers(header, at, addresses)[0]
    return rendered
