"""Render structures of HDF5 metadata (superblock, headers, B-trees, heaps) as bytes.

libhdf5 needs 100 to 500 us to make one dataset; a checkpoint may have ten thousand, which
differ in name and address only. So their headers are made here, in bulk, as the HDF5 file
format specification (version 3.0, https://support.hdfgroup.org/documentation) lays them
down. Chosen are the forms that every library since HDF5 1.8 reads: superblock 0, groups as
B-trees of symbol tables, and object headers of version 2, which carry checksums.

Addresses count from the end of the user block.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from jobrun.checkpoint.hdf5.user_block import SIZE as USER_BLOCK

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Numbers = np.ndarray[Any, np.dtype[np.uint64]]
UNDEFINED = (1 << 64) - 1
SUPERBLOCK_SIZE = 96
SMALL_K = 4, 16
# Nodes for many links: half as many as a node can hold, of symbol tables and of B-trees.
LARGE_K = 128, 64
# The value that libhdf5 assumes for a version-0 superblock, which has no field for it.
CHUNK_TREE_K = 32

_GROUP_HEADER = struct.Struct("<BxHIIxxxx HHBxxx QQ")
_HEAP = struct.Struct("<4sBxxxQQQ")
_TREE = struct.Struct("<4sBBHQQ")
_SYMBOLS = np.dtype(
    [("name", "<u8"), ("header", "<u8"), ("cache", "<u4"), ("reserved", "<u4"), ("scratch", "V16")]
)
# Attribute information: none is stored outside of the object header.
_ATTRIBUTE_INFO = b"\0\0" + b"\xff" * 16
# Storage allocated early, never filled; and for chunks: when written, filled when set.
_FILL_CONTIGUOUS = b"\x03\x05"
_FILL_CHUNKED = b"\x03\x0b"
_MOST_MESSAGE_BYTES = (1 << 16) - 1
_INT8 = np.dtype(np.int8)
# IEEE floats by size in bytes: bits of exponent and mantissa, and the bias of the exponent.
_FLOATS = {2: (5, 10, 15), 4: (8, 23, 127), 8: (11, 52, 1023)}


def render_superblock(end: int, root: int, node_k: tuple[int, int]) -> bytes:
    """Render the bytes of the HDF5 superblock (version 0).

    Args:
        end: Of the file, counted from its first byte.
        root: The address of the root group's header.
        node_k: Of symbol tables and of B-trees of groups.
    """
    head = struct.pack("<8s8BHHI", b"\x89HDF\r\n\x1a\n", 0, 0, 0, 0, 0, 8, 8, 0, *node_k, 0)
    places = struct.pack("<4Q", USER_BLOCK, UNDEFINED, end, UNDEFINED)
    return head + places + struct.pack("<QQII16x", 0, root, 0, 0)


def render_group(
    links: Sequence[tuple[bytes, int]], address: int, node_k: tuple[int, int]
) -> bytes:
    """Render the bytes of an HDF5 group: object header, B-tree, symbol nodes and local heap.

    Args:
        links: Names, in the order of their bytes, and the addresses of their objects.
        address: Where the group will be; a multiple of 8.
        node_k: As in the superblock.
    """
    names = [name for name, _ in links]
    heap_at = address + _GROUP_HEADER.size
    heap, offsets = _render_local_heap(names, heap_at)
    nodes_at = heap_at + len(heap)
    nodes, keys = _render_symbol_nodes(
        offsets, np.array([at for _, at in links], np.uint64), node_k[0]
    )
    children = list(accumulate(map(len, nodes), initial=nodes_at))
    packed = [struct.pack("<Q", key) for key in keys]
    trees, tree = _render_tree(0, packed, children[:-1], children[-1], (node_k[1], 8))
    header = _GROUP_HEADER.pack(1, 1, 1, 24, 0x11, 16, 0, tree, heap_at)
    return b"".join([header, heap, *nodes, trees])


def render_message(kind: int, body: bytes, flags: int = 0) -> bytes:
    """Render the bytes of one message in an HDF5 object header of version 2.

    Raises:
        ValueError: It is longer than 65535 bytes.
    """
    if len(body) > _MOST_MESSAGE_BYTES:
        raise ValueError("the description of its dtype is too long for HDF5")
    return struct.pack("<BHB", kind, len(body), flags) + body


def render_datatype(dtype: np.dtype[Any]) -> bytes:
    """Render the bytes of the HDF5 datatype message of any numpy dtype.

    Only of what is not a number, h5py is asked.
    """
    if is_number_type(dtype):
        return render_number_type(dtype)
    from h5py import h5t  # noqa: PLC0415 - a run of numbers alone starts without

    # Not cached: numpy treats text dtypes of equal width as equal, whatever encoding h5py has
    # noted in their metadata. The first two bytes are the type and version of the message.
    message: bytes = h5t.py_create(dtype, logical=True).encode()[2:]
    return message


def render_number_type(dtype: np.dtype[Any]) -> bytes:
    """Render the bytes of an HDF5 datatype message for a number or bool (``is_number_type``).

    The same bytes as h5py's, whose import would be a tenth of a short run: a bool is an
    enumeration, and a complex number a record.
    """
    size = dtype.itemsize
    if dtype.kind == "b":
        names = b"".join(name.ljust(8, b"\0") for name in (b"FALSE", b"TRUE"))
        return struct.pack("<BHxI", 0x18, 2, size) + render_number_type(_INT8) + names + b"\0\1"
    if dtype.kind == "c":
        half = np.dtype(f"{dtype.str[0]}f{size // 2}")
        return render_record_type(np.dtype([("r", half), ("i", half)]))
    is_big_endian = dtype.str.startswith(">")
    if dtype.kind in "iu":
        order = is_big_endian | (dtype.kind == "i") << 3
        return struct.pack("<BBHIHH", 0x10, order, 0, size, 0, 8 * size)
    exponent, mantissa, bias = _FLOATS[size]
    # The first bit of the mantissa is implied.
    order = is_big_endian | 0x20
    head = struct.pack("<BBBxIHH", 0x11, order, 8 * size - 1, size, 0, 8 * size)
    return head + struct.pack("<BBBBI", mantissa, exponent, 0, mantissa, bias)


def is_number_type(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype's HDF5 datatype message is that of a number or bool."""
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    return dtype.kind in "biu" or (dtype.kind in "fc" and size in _FLOATS)


def render_record_type(dtype: np.dtype[Any]) -> bytes:
    """Render the bytes of an HDF5 datatype message for a record whose fields are numbers."""
    fields = dict(dtype.fields or {})
    parts = [struct.pack("<BHxI", 0x16, len(fields), dtype.itemsize)]
    for name, (kind, offset, *_) in fields.items():
        text = name.encode()
        parts.append(text + bytes(8 - len(text) % 8) + struct.pack("<I28x", offset))
        parts.append(render_number_type(kind))
    return b"".join(parts)


def render_text_type(size: int, *, is_ascii: bool = False) -> bytes:
    """Render the bytes of an HDF5 datatype message for fixed-length strings padded with NULs."""
    # Class 3 (string), padding 1 (NUL); character set 0 is ASCII, 1 is UTF-8.
    return struct.pack("<BBHI", 0x13, 1 | (not is_ascii) << 4, 0, size)


def render_dataspace(shape: tuple[int, ...]) -> bytes:
    """Render the bytes of an HDF5 dataspace message for a shape, where () is a scalar."""
    head = struct.pack("<4B", 2, len(shape), 0, 1 if shape else 0)
    return head + struct.pack(f"<{len(shape)}Q", *shape)


def render_text_attribute(name: str, text: str) -> bytes:
    """Render the bytes of an HDF5 attribute message with a text of fixed length, in UTF-8."""
    key, data = name.encode() + b"\0", text.encode() or b"\0"
    datatype = render_text_type(len(data), is_ascii=data.isascii())
    space = render_dataspace(())
    head = struct.pack("<BBHHHB", 3, 0, len(key), len(datatype), len(space), 0)
    return render_message(0x0C, head + key + datatype + space + data)


def render_contiguous_layout(size: int) -> tuple[bytes, int]:
    """Render the bytes of HDF5's fill-value and contiguous-layout messages.

    Returns the offset of the data's address in them, too.
    """
    layout = render_message(0x08, struct.pack("<BBQQ", 3, 1, UNDEFINED, size), 1)
    fill = render_message(0x05, _FILL_CONTIGUOUS, 1)
    return fill + layout, len(fill) + 6


def render_chunked_layout(
    chunk: tuple[int, ...], itemsize: int, filters: bytes
) -> tuple[bytes, int]:
    """Render a chunked dataset's HDF5 messages; return also the offset of its B-tree address."""
    fill = render_message(0x05, _FILL_CHUNKED, 1)
    pipeline = render_message(0x0B, filters, 1)
    body = struct.pack("<BBBQ", 3, 2, len(chunk) + 1, UNDEFINED)
    body += struct.pack(f"<{len(chunk) + 1}I", *chunk, itemsize)
    return fill + pipeline + render_message(0x08, body, 1), len(fill) + len(pipeline) + 7


def render_filter_pipeline(filters: Sequence[tuple[int, str, tuple[int, ...]]]) -> bytes:
    """Render the bytes of the HDF5 metadata message that lists a dataset's filters."""
    parts = [struct.pack("<BB", 2, len(filters))]
    for number, name, values in filters:
        text = name.encode() + b"\0" if number >= 256 else b""
        length = struct.pack("<H", len(text)) if number >= 256 else b""
        parts.append(struct.pack("<H", number) + length + struct.pack("<HH", 1, len(values)))
        parts.append(text + struct.pack(f"<{len(values)}I", *values))
    return b"".join(parts)


def render_dataset_header(
    shape: tuple[int, ...], datatype: bytes, storage: tuple[bytes, int], attributes: bytes
) -> tuple[bytes, int]:
    """Render a dataset's HDF5 object header, and return where in it the data's address goes.

    Without its checksum, which depends on that address.
    """
    before = render_message(0x01, render_dataspace(shape)) + render_message(0x03, datatype, 1)
    body = before + storage[0] + render_message(0x15, _ATTRIBUTE_INFO, 4) + attributes
    # Flag 2: the length of the messages has four bytes; no times are kept.
    prefix = struct.pack("<4sBBI", b"OHDR", 2, 2, len(body))
    return prefix + body, len(prefix) + len(before) + storage[1]


def header_size(header: bytes) -> int:
    """Return how many bytes an HDF5 object header takes, with checksum and padding."""
    return (len(header) + 4 + 7) // 8 * 8


def render_headers(header: bytes, at: int, addresses: Numbers) -> Bytes:
    """Render copies of an HDF5 object header, each with its own address and checksum.

    Returns uint8, shape (n, ``header_size``).

    Args:
        header: All but the address in it.
        at: The offset of the address in it.
        addresses: uint64, shape (n,).
    """
    rows = np.zeros((len(addresses), header_size(header)), np.uint8)
    length = len(header)
    rows[:, :length] = np.frombuffer(header, np.uint8)
    rows[:, at : at + 8] = addresses.astype("<u8").view(np.uint8).reshape(-1, 8)
    rows[:, length : length + 4] = lookup3(rows[:, :length]).view(np.uint8).reshape(-1, 4)
    return rows


def render_chunk_tree(
    shape: tuple[int, ...], chunk: tuple[int, ...], places: Sequence[tuple[int, int]], address: int
) -> tuple[bytes, int]:
    """Render the HDF5 B-tree of a dataset's chunks; return its bytes and the root node's address.

    Args:
        shape: Of the dataset.
        chunk: Of a chunk.
        places: Address and stored size of each, in the order of the array.
        address: Where the tree will be.
    """
    counts = [-(-extent // part) for extent, part in zip(shape, chunk, strict=True)]
    starts = np.indices(counts, np.uint64).reshape(len(counts), -1).T * np.array(chunk, np.uint64)
    width = 8 * (len(chunk) + 1)
    keys = [
        struct.pack("<II", size, 0) + start.astype("<u8").tobytes() + bytes(8)
        for start, (_, size) in zip(starts, places, strict=True)
    ]
    # Greater than all: the corner behind the last chunk.
    end = np.array([count * part for count, part in zip(counts, chunk, strict=True)], "<u8")
    keys.append(bytes(8) + end.tobytes() + bytes(8))
    return _render_tree(1, keys, [at for at, _ in places], address, (CHUNK_TREE_K, 8 + width))


def _render_local_heap(names: Sequence[bytes], address: int) -> tuple[bytes, Numbers]:
    padded = [name + bytes(8 - len(name) % 8) for name in names]
    offsets = np.fromiter(accumulate(map(len, padded), initial=8), np.uint64, len(names) + 1)
    data = bytes(8) + b"".join(padded)
    # Free space: none (1).
    head = _HEAP.pack(b"HEAP", 0, len(data), 1, address + _HEAP.size)
    return head + data, offsets[:-1]


def _render_symbol_nodes(
    offsets: Numbers, addresses: Numbers, leaf_k: int
) -> tuple[list[bytes], list[int]]:
    """Render a group's HDF5 symbol table nodes; return them and the B-tree keys between them."""
    most = 2 * leaf_k
    nodes: list[bytes] = []
    keys = [0]
    for first in range(0, len(offsets), most):
        here = slice(first, first + most)
        entries = np.zeros(most, _SYMBOLS)
        count = len(offsets[here])
        entries["name"][:count] = offsets[here]
        entries["header"][:count] = addresses[here]
        nodes.append(struct.pack("<4sBxH", b"SNOD", 1, count) + entries.tobytes())
        keys.append(int(offsets[here][-1]))
    return nodes, keys


def _render_tree(
    kind: int,
    keys: Sequence[bytes],
    children: Sequence[int],
    address: int,
    node_format: tuple[int, int],
) -> tuple[bytes, int]:
    """Render an HDF5 B-tree (version 1) from its leaves up; return bytes and the root's address.

    Args:
        kind: 0 of a group, 1 of chunks.
        keys: One more than children.
        children: Their addresses.
        address: Of the first node.
        node_format: Half as many children as a node can hold, and the bytes of a key.
    """
    node_k, key_size = node_format
    size = _TREE.size + 2 * node_k * 8 + (2 * node_k + 1) * key_size
    parts: list[bytes] = []
    level = 0
    while True:
        most = 2 * node_k
        firsts = list(range(0, max(len(children), 1), most))
        addresses = [address + index * size for index in range(len(firsts))]
        siblings = [UNDEFINED, *addresses, UNDEFINED]
        for index, first in enumerate(firsts):
            part = children[first : first + most]
            head = _TREE.pack(b"TREE", kind, level, len(part), siblings[index], siblings[index + 2])
            links = b"".join(
                key + struct.pack("<Q", child)
                for key, child in zip(keys[first:], part, strict=False)
            )
            parts.append((head + links + keys[first + len(part)]).ljust(size, b"\0"))
        if len(firsts) == 1:
            return b"".join(parts), addresses[0]
        keys = [keys[first] for first in firsts] + [keys[-1]]
        children, address, level = addresses, address + len(firsts) * size, level + 1


Words = np.ndarray[Any, np.dtype[np.uint32]]
_MIX = (4, 6, 8, 16, 19, 4)
_FINAL = (14, 11, 25, 16, 4, 14, 24)
_MASK = 0xFFFFFFFF
# With fewer rows, numpy's calls cost more than Python's integers.
_FEW = 8


def lookup3(rows: np.ndarray[Any, np.dtype[np.uint8]]) -> Words:
    """Compute the HDF5 checksum of each row of bytes: Bob Jenkins' ``lookup3``.

    Args:
        rows: uint8, shape (n, length), length > 0.

    Returns:
        uint32, shape (n,).
    """
    count, length = rows.shape
    # The last word is padded with zeros.
    padded = np.zeros((count, -(-length // 12) * 12), np.uint8)
    padded[:, :length] = rows
    start = (0xDEADBEEF + length) & _MASK
    if count < _FEW:
        return np.array([_hash_one(row.tobytes(), start) for row in padded], np.uint32)
    return _hash_many(padded.view("<u4"), start)


def _hash_many(words: Words, start: int) -> Words:
    a, b, c = registers = [np.full(len(words), start, np.uint32) for _ in range(3)]
    last = words.shape[1] - 3
    for position in range(0, last + 1, 3):
        a += words[:, position]
        b += words[:, position + 1]
        c += words[:, position + 2]
        if position < last:
            for step, bits in enumerate(_MIX):
                first, second, third = (registers[(step + offset) % 3] for offset in range(3))
                first -= third
                first ^= (third << np.uint32(bits)) | (third >> np.uint32(32 - bits))
                third += second
    ring = [c, a, b]
    for step, bits in enumerate(_FINAL):
        target, source = ring[step % 3], ring[(step + 2) % 3]
        target ^= source
        target -= (source << np.uint32(bits)) | (source >> np.uint32(32 - bits))
    return c


def _hash_one(padded: bytes, start: int) -> int:
    words = struct.unpack(f"<{len(padded) // 4}I", padded)
    registers = [start, start, start]
    last = len(words) - 3
    for position in range(0, last + 1, 3):
        for offset in range(3):
            registers[offset] = (registers[offset] + words[position + offset]) & _MASK
        if position < last:
            for step, bits in enumerate(_MIX):
                third = registers[(step + 2) % 3]
                first = (registers[step % 3] - third) & _MASK
                registers[step % 3] = first ^ _rotated(third, bits)
                registers[(step + 2) % 3] = (third + registers[(step + 1) % 3]) & _MASK
    ring = [registers[2], registers[0], registers[1]]
    for step, bits in enumerate(_FINAL):
        source = ring[(step + 2) % 3]
        ring[step % 3] = ((ring[step % 3] ^ source) - _rotated(source, bits)) & _MASK
    return ring[0]


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK
