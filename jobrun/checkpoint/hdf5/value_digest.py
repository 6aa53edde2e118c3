"""Digest values as they are in memory, without a look at how a file stores them.

A save takes these digests of the values that it gets, before any of them is encoded; a load takes
them of the values that it returns, and compares. So nothing between the two (gathering, casting,
compression, names, offsets) can make another value of one without a word. For the same reason this
module uses nothing of ``dtypes`` and ``value_codec``.

An array whose items are their bytes (``is_bare``) needs no digest of its own: those of the blocks
are taken of its memory.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import xxhash

from jobrun.values.axis_order import AxisOrder, axis_order
from jobrun.values.blob_kinds import Kind, Value, kind_of
from jobrun.values.kinds.array import iterate_fields, value_bytes
from jobrun.values.kinds.counter import Counter

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
# Kind, dtype in words, shape, axis order; the dtype is empty for values that have none.
TypeWords = tuple[str, Any, tuple[int, ...], AxisOrder]
# An array that has to be copied is digested in portions of this many bytes.
_PORTION_BYTES = 1 << 22


def type_words(value: Value) -> TypeWords:
    """Describe a value's kind, dtype, shape and axis order by words, equal for equal ones only."""
    kind = kind_of(value)
    if kind == "array":
        return kind, dtype_words(value.dtype), value.shape, axis_order(value)
    return str(kind), dtype_words(value.dtype) if kind == "numpy" else "", (), ()


def dtype_words(dtype: DType) -> Any:
    """Describe a dtype by words: those of dtypes that differ in any way (metadata) differ."""
    words = f"{dtype.type.__name__} {dtype.str}"
    if dtype.names is None and dtype.subdtype is None and not dtype.metadata:
        return words
    metadata = json.dumps(dict(dtype.metadata or {}), sort_keys=True, default=repr)
    if dtype.subdtype is not None:
        return words, metadata, dtype_words(dtype.subdtype[0]), dtype.subdtype[1]
    fields = tuple((dtype_words(field), *where) for field, *where in iterate_fields(dtype))
    # A name may be of numpy's text class; it is loaded as plain text.
    names = dtype.names and tuple(map(str, dtype.names))
    return words, metadata, names, fields, dtype.itemsize, dtype.isalignedstruct


def is_bare(kind: str, dtype: DType, order: AxisOrder, *, packed: bool) -> bool:
    """Return whether the bytes of a value in memory are those in the file: the blocks' digests do.

    Args:
        kind: As of ``value_codec.Coded``.
        dtype: The logical one.
        order: Of the axes in memory.
        packed: Whether it is compressed.
    """
    if kind != "array" or order or packed or dtype.names or dtype.metadata or not dtype.itemsize:
        return False
    is_number = dtype.isbuiltin == 2 or dtype.kind in "biufcmM"
    return is_number and dtype.type not in (np.longdouble, np.clongdouble)


def digest_value(value: Value) -> bytes:
    """Digest a value: its kind, dtype, shape, axis order, and all its bits but padding."""
    if type(value) in _SCALARS:
        # Fast path: a container may hold thousands of scalars.
        words, encode = _SCALARS[type(value)]
        return xxhash.xxh3_128_digest(words + encode(value))
    content = xxhash.xxh3_128(repr(type_words(value)).encode("utf-8", "surrogatepass"))
    for piece in _pieces(value):
        content.update(piece)
    return content.digest()


def digest_index(names: bytes, types: Iterable[TypeWords], numbers: bytes) -> str:
    """Digest what an index says of blobs: their names, and which type each has.

    Args:
        names: Of the blobs, a line feed between two.
        types: Each once, as they come.
        numbers: Of each blob's type among them: uint64.
    """
    content = xxhash.xxh3_128(names)
    content.update(repr(list(types)).encode("utf-8", "surrogatepass"))
    content.update(numbers)
    return f"xxh3:{content.hexdigest()}"


def bytes_between(array: Array, begin: int, end: int) -> Any:
    """Return some of an array's bytes in C order as uint8; of one with gaps a copy of these."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)[begin:end]
    size = array.itemsize
    first = begin // size
    items: Any = array.flat[first : -(-end // size)]
    return items.view(np.uint8)[begin - first * size : end - first * size]


def _pieces(value: Any) -> Iterator[Any]:
    """Yield the bytes of an array, or of a scalar of numpy's."""
    if isinstance(value, np.bytes_):
        # As an item of an array, text would lose trailing NULs.
        yield bytes(value)
    elif isinstance(value, np.str_):
        yield _utf8(value)
    else:
        yield from _array_pieces(np.asarray(value))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _hexadecimal(number: int) -> bytes:
    return hex(number).encode()


def _array_pieces(array: Array) -> Iterator[Array]:
    """Yield an array's bytes in the order of its axes in memory, without padding."""
    if not array.nbytes:
        return
    order = axis_order(array)
    array = array.transpose(order) if order else array
    if array.dtype.names is None and array.flags.c_contiguous:
        yield from value_bytes(array)
        return
    # The portions do not depend on gaps between the items.
    array = array.reshape(1) if array.ndim == 0 else array
    rows = max(1, _PORTION_BYTES // max(1, array.nbytes // len(array)))
    for first in range(0, len(array), rows):
        yield from value_bytes(array[first : first + rows])


def _words_of(kind: Kind) -> bytes:
    words: TypeWords = (kind, "", (), ())
    return repr(words).encode()


# By class: the words of its type, and the function that encodes a value as bytes.
_SCALARS: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    bool: (_words_of("bool"), _hexadecimal),
    int: (_words_of("int"), _hexadecimal),
    float: (_words_of("float"), struct.Struct("<d").pack),
    complex: (_words_of("complex"), lambda z: struct.pack("<dd", z.real, z.imag)),
    str: (_words_of("text"), _utf8),
    Counter: (_words_of("counter"), lambda counter: _hexadecimal(counter.value)),
}
