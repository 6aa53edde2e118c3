"""Parse the index and the tail of a checkpoint file: its blobs, offsets, types, digests.

jobrun's own reading needs nothing else of HDF5. Still nothing in it is taken on trust: a file
may be whole and made by someone else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, get_args

import numpy as np
from msgspec import Struct, field

from jobrun.checkpoint.hdf5.dataset_names import blob_names, name_of_path, unquote_names
from jobrun.checkpoint.hdf5.digest_blocks import DIGEST_BYTES, block_count
from jobrun.checkpoint.hdf5.dtypes import DType, is_reinterpreted, parse_dtype, storage_dtype
from jobrun.checkpoint.hdf5.file_layout import Packing
from jobrun.checkpoint.hdf5.metadata_template import BLOBS_TYPE, CHUNKS_TYPE, EPOCH_TYPE
from jobrun.checkpoint.hdf5.user_block import SIZE as USER_BLOCK
from jobrun.checkpoint.hdf5.user_block import Header, Parts
from jobrun.checkpoint.hdf5.value_digest import TypeWords, digest_index, dtype_words, is_bare
from jobrun.values.axis_order import AxisOrder
from jobrun.values.blob_kinds import MOST_DIMENSIONS, Kind

_KINDS = frozenset(get_args(Kind))
_WITH_DTYPE = ("array", "numpy")
_DIGEST_TYPE = np.dtype((np.void, DIGEST_BYTES))


class StructureError(ValueError):
    """A verified file has a structure that jobrun never writes; the message says which."""


class BlobType(Struct, frozen=True):
    """What all blobs of one type have in common.

    Attributes:
        kind: See ``value_codec.Coded``.
        dtype: The logical dtype, as text.
        shape: Of the stored array.
        stored: The dtype of the stored array, or the logical one, if that has the same bits.
        is_plain: The array with that dtype is the value, but for its axis order.
        logical: The dtype of the value.
        order: The axes of the value in memory, see ``values.axis_order``; the data are in C order.
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]
    stored: DType
    is_plain: bool
    logical: DType
    order: AxisOrder = ()

    @property
    def words(self) -> TypeWords:
        """Return the words that describe the type of a value of this type."""
        dtype = dtype_words(self.logical) if self.kind in _WITH_DTYPE else ""
        return self.kind, dtype, self.shape if self.kind == "array" else (), self.order

    @property
    def size_bytes(self) -> int:
        """Return the size in bytes of one blob of this type, as parsed from the file's index."""
        return math.prod(self.shape) * self.stored.itemsize


class Index(Struct, frozen=True):
    """The parsed index of a file: names, types and offsets of its blobs.

    Attributes:
        names: Of the blobs, and parts of blobs, in the order of the file's table.
        rows: The row of each name in it.
        types: The types.
        table: For each blob type, offset in the file, and size; dtype ``BLOBS_TYPE``.
        packings: Of compressed blobs, by row: how, and the first of their chunks.
        quoted: Blobs whose name would look like that of a part: their name in ``names``.
        links: Quoted names, a line feed between two.
    """

    names: list[str]
    rows: dict[str, int]
    types: list[BlobType]
    table: np.ndarray[Any, Any]
    packings: dict[int, tuple[Packing, int]]
    quoted: dict[str, str] = field(default_factory=dict)
    links: bytes = b""

    @property
    def digested(self) -> list[int]:
        """Return the rows of the values that have a digest of their own, beside the blocks'."""
        bare = [
            is_bare(blob_type.kind, blob_type.logical, blob_type.order, packed=False)
            for blob_type in self.types
        ]
        is_digested = ~np.array(bare, bool)[self.table["type"]]
        is_digested[list(self.packings)] = True
        rows: list[int] = np.flatnonzero(is_digested).tolist()
        return rows

    @property
    def types_digest(self) -> str:
        """Return the digest of the names and types in the index, as of values in memory."""
        names = self.links
        if b"%" in names or b"/" in names:
            texts = map(name_of_path, names.decode().split("\n"))
            names = "\n".join(texts).encode("utf-8", "surrogatepass")
        # Text of any length is one type in memory, but several types in a file.
        types: dict[TypeWords, int] = {}
        numbers = [types.setdefault(kind.words, len(types)) for kind in self.types]
        return digest_index(
            names, types, np.array(numbers, np.uint64)[self.table["type"]].tobytes()
        )

    @property
    def blobs(self) -> tuple[str, ...]:
        """Return the blob names that a checkpoint file's parsed index lists, each name once."""
        return blob_names(self.names, self.quoted)

    @property
    def shown_names(self) -> list[str]:
        """Return the names in the index as users see them: unquoted, unless two would be equal."""
        plain = {link: blob for blob, link in self.quoted.items()}
        shown = (plain.get(name, name) for name in self.names)
        return [
            name if self.rows[name] == row else self.names[row] for row, name in enumerate(shown)
        ]

    def blob_rows(self) -> dict[str, int]:
        """Map names of blobs, and of values inside blobs, to row numbers of the file's index."""
        return {**self.rows, **{blob: self.rows[link] for blob, link in self.quoted.items()}}

    def type_of(self, row: int) -> BlobType:
        """Return the type of the blob in a row of the index: kind, dtype, shape, axis order."""
        return self.types[int(self.table["type"][row])]

    def blobs_between(self, begin: int, end: int) -> list[str]:
        """Return the names of blobs, and of their parts, whose data overlap a range of bytes."""
        first = self.table["offset"].astype(np.int64)
        last = first + self.table["size"].astype(np.int64)
        rows = np.flatnonzero((first < end) & (last > begin) & (first < last)).tolist()
        shown = self.shown_names
        return [shown[row] for row in rows if row not in self.packings]

    def span(self, row: int) -> tuple[int, int]:
        """Return the offsets at which a blob's data begin and end, from the file's index."""
        begin = int(self.table["offset"][row])
        return begin, begin + int(self.table["size"][row])


class Tail(Struct, frozen=True):
    """The parsed tail of a file: offsets of chunks, and digests of blocks.

    Attributes:
        chunks: Offset and size of each chunk of compressed blobs; dtype ``CHUNKS_TYPE``.
        values: Digests of values, of those that have one each.
        digests: Of the blocks.
        raw: Its bytes.
    """

    chunks: np.ndarray[Any, Any]
    values: list[bytes]
    digests: list[bytes]
    raw: bytes


def index_span(parts: Parts) -> tuple[int, int]:
    """Return the byte offsets at which a checkpoint file's index begins and ends."""
    size = _padded(parts.layout_bytes) + _padded(parts.names_bytes)
    return parts.index, parts.index + size + parts.blobs * BLOBS_TYPE.itemsize


def require_parts(header: Header) -> Parts:
    """Require, before the index and the tail are parsed, that both lie within the file's length.

    Raises:
        StructureError: They do not fit into it, or overlap.
    """
    parts = header.parts
    end = USER_BLOCK + header.length
    digests = (parts.values + parts.blocks) * DIGEST_BYTES
    size = EPOCH_TYPE.itemsize + parts.chunks * CHUNKS_TYPE.itemsize + digests
    if parts.tail + size != end or parts.blocks != block_count(parts.tail):
        raise StructureError("its tail does not fit into it")
    if parts.index < USER_BLOCK or index_span(parts)[1] > parts.tail:
        raise StructureError("its index does not fit into it")
    return parts


def parse_tail(data: bytes, header: Header, parts: Parts) -> Tail:
    """Parse the tail (the last part) of a checkpoint file: chunk offsets, and digests.

    Raises:
        StructureError: It is of another epoch.
    """
    epoch = int(np.frombuffer(data, EPOCH_TYPE, 1)[0])
    if epoch != header.epoch:
        raise StructureError(f"/_ck/epoch is {epoch}, and the header says {header.epoch}")
    chunks = np.frombuffer(data, CHUNKS_TYPE, parts.chunks, EPOCH_TYPE.itemsize)
    first = len(data) - (parts.values + parts.blocks) * DIGEST_BYTES
    # Built in C: a large file has thousands.
    digests: list[bytes] = np.frombuffer(data, _DIGEST_TYPE, offset=first).tolist()
    return Tail(chunks, digests[: parts.values], digests[parts.values :], data)


def parse_index(data: bytes, parts: Parts, tail: Tail) -> Index:
    """Parse the bytes of a checkpoint file's index: names, types and offsets of all blobs.

    Raises:
        StructureError: jobrun never writes such a one.
    """
    names_at = _padded(parts.layout_bytes)
    table_at = names_at + _padded(parts.names_bytes)
    try:
        layout = json.loads(data[: parts.layout_bytes])
        # Cached: hundreds of shapes have a few dtypes.
        parse = cache(_parse_stored_dtype)
        types = [_parse_type(parse, *fields) for fields in layout["types"]]
        links = data[names_at : names_at + parts.names_bytes]
        text = links.decode()
        names = text.split("\n") if parts.blobs else []
        names, quoted = unquote_names(names) if "%" in text else (names, {})
        table = np.frombuffer(data, BLOBS_TYPE, parts.blobs, table_at)
        packings = _parse_packings(layout["chunked"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StructureError(f"its index cannot be read ({error})") from error
    rows = dict(zip(names, range(len(names)), strict=True))
    if not len(rows) == len(names) == parts.blobs:
        raise StructureError("its names and its table do not fit together")
    for blob, link in quoted.items():
        rows.setdefault(blob, rows[link])
    index = Index(names, rows, types, table, packings, quoted, links)
    _require_table(index, parts, tail)
    return index


def _parse_packings(stored: dict[str, Any]) -> dict[int, tuple[Packing, int]]:
    packings: dict[int, tuple[Packing, int]] = {}
    first = 0
    for row, (codec, chunk, count) in sorted((int(key), fields) for key, fields in stored.items()):
        packing = Packing(codec, tuple(map(int, chunk)), int(count))
        if min((count, *packing.chunk), default=0) < 1:
            raise ValueError("a chunk has no size")
        packings[row] = (packing, first)
        first += packing.count
    return packings


def _parse_stored_dtype(dtype: str) -> tuple[DType, DType, bool]:
    """Parse a dtype in the file's index; return it, its stored dtype, and if their bits agree.

    They are where an array of the one has the bits of an array of the other.
    """
    logical = parse_dtype(dtype)
    stored = storage_dtype(logical)
    is_same = logical.names is None and (stored == logical or is_reinterpreted(logical))
    return logical, stored, is_same


def _parse_type(
    parse: Callable[[str], tuple[DType, DType, bool]],
    kind: str,
    dtype: str,
    shape: list[int],
    order: Sequence[int] = (),
) -> BlobType:
    logical, stored, is_same = parse(dtype)
    if kind not in _KINDS:
        raise ValueError(f"there is no kind {str(kind)[:40]!r}")
    if len(shape) > MOST_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{str(shape)[:80]} is no shape")
    if order and (kind != "array" or sorted(order) != list(range(len(shape)))):
        raise ValueError(f"{str(order)[:80]} is no order of the axes of {str(shape)[:80]}")
    is_plain = kind == "array" and is_same
    # Arrays with the same bits in the file are read directly with their own dtype.
    dtype_here = logical if is_plain else stored
    return BlobType(kind, dtype, tuple(shape), dtype_here, is_plain, logical, tuple(order))


def _require_table(index: Index, parts: Parts, tail: Tail) -> None:
    table, end = index.table, np.uint64(parts.tail)
    if len(table) == 0:
        return
    if int(table["type"].max()) >= len(index.types):
        raise StructureError("its table names a type that is not there")
    sizes = np.array([min(blob_type.size_bytes, 1 << 63) for blob_type in index.types], np.uint64)
    if (sizes[table["type"]] != table["size"]).any():
        raise StructureError("a blob does not have the size of its dtype and shape")
    here = np.ones(len(table), bool)
    here[[row for row in index.packings if row < len(table)]] = False
    begin = table["offset"][here & (table["size"] > 0)]
    size = table["size"][here & (table["size"] > 0)]
    if ((begin < index_span(parts)[1]) | (begin > end) | (size > end - begin)).any():
        raise StructureError("a blob is not inside of the file")
    # Otherwise a short file could request unbounded memory.
    order = np.argsort(begin)
    if (begin[order][1:] < (begin + size)[order][:-1]).any():
        raise StructureError("two blobs overlap")
    _require_chunks(index, parts, tail)


def _require_chunks(index: Index, parts: Parts, tail: Tail) -> None:
    count = 0
    for row, (packing, _) in index.packings.items():
        if row >= len(index.names):
            raise StructureError("its table lacks a compressed blob")
        shape = index.type_of(row).shape
        expected = [-(-extent // part) for extent, part in zip(shape, packing.chunk, strict=False)]
        if len(packing.chunk) != len(shape) or math.prod(expected) != packing.count:
            raise StructureError("a compressed blob does not have the chunks of its shape")
        count += packing.count
    begin, size = tail.chunks["offset"], tail.chunks["size"]
    end = np.uint64(parts.tail)
    if count != parts.chunks or ((begin > end) | (size > end - begin)).any():
        raise StructureError("a chunk is not inside of the file")
    # Otherwise a short file could cause unbounded work: each chunk is read, verified and unpacked.
    order = np.argsort(begin)
    if (begin[order][1:] < (begin + size)[order][:-1]).any():
        raise StructureError("two chunks overlap")


def _padded(size: int) -> int:
    return -(-size // 8) * 8
