"""Encode the value of a blob as an array that HDF5 can hold, and decode it exactly."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, get_args

import numpy as np
from msgspec import Struct

from jobrun.checkpoint.hdf5.dataset_names import display_name
from jobrun.checkpoint.hdf5.dtypes import (
    DType,
    dtype_text,
    is_longdouble,
    is_reinterpreted,
    parse_dtype,
    storage_dtype,
)
from jobrun.core.errors import TaskFailedError
from jobrun.values.axis_order import AxisOrder, axis_order, empty_in_order
from jobrun.values.blob_kinds import Kind, Value, kind_of, require_storable
from jobrun.values.copies import object_copy_error
from jobrun.values.kinds.counter import Counter

Array = np.ndarray[Any, Any]
_KINDS = frozenset(get_args(Kind))
_INT64 = np.iinfo(np.int64)
# An x86 long double has 10 bytes of number; the padding is undefined.
_LONGDOUBLE_BYTES = 10 if np.finfo(np.longdouble).nmant == 63 else np.dtype("g").itemsize


class Coded(Struct, frozen=True):
    """A value ready to be stored.

    Attributes:
        kind: What comes back: an array, a numpy scalar, a Python scalar, text, a counter.
        dtype: The logical dtype, as ``dtype_text`` writes it.
        array: The data, of dtype ``storage_dtype(parse_dtype(dtype))``; written in C order.
        order: The axes of the value in memory, see ``values.axis_order``.
    """

    kind: Kind
    dtype: str
    array: Array
    order: AxisOrder = ()


def encode(value: Value, name: str) -> Coded:
    """Encode a value (number, text, array) as an array that HDF5 can store; avoid copies.

    Equal values give equal bytes: padding, in long doubles and records, becomes zero.

    Raises:
        TaskFailedError: It cannot be stored exactly; names the blob and the mend.
    """
    kind = kind_of(require_storable(value, display_name(name)))
    if kind is None:
        raise object_copy_error(value, display_name(name))
    try:
        match kind:
            case "array":
                return _encode_array(value, "array")
            case "numpy":
                return _encode_numpy_scalar(value)
            case "bool" | "float" | "complex":
                return _encode_array(np.array(value), kind)
            case "int" | "counter":
                return _encode_int(value if kind == "int" else value.value, kind)
            case _:
                return _encode_bytes(value.encode("utf-8", "surrogatepass"), "text")
    except ValueError as error:
        raise TaskFailedError.of(
            "E309",
            f"blob '{display_name(name)}' cannot be stored in a checkpoint: {error}",
            "give it a numeric dtype, text of fixed width, or a record of these",
        ) from error


def decode(kind: str, dtype: str, array: Array, order: AxisOrder = ()) -> Value:
    """Decode the array read from HDF5 to the blob's value, which shares no memory with it.

    Args:
        kind: As stored.
        dtype: As stored.
        array: Of dtype ``storage_dtype(parse_dtype(dtype))``, C order; the result may be it.
        order: As stored.

    Raises:
        ValueError: The three do not belong together; the message says how.
    """
    logical = parse_dtype(dtype)
    if kind not in _KINDS:
        raise ValueError(f"there is no kind {kind[:40]!r}")
    if kind == "array":
        return with_axis_order(_from_storage(array, logical), order)
    if kind == "text":
        return _bytes_of(array, logical).decode("utf-8", "surrogatepass")
    if array.shape != ():
        raise ValueError(f"a value of kind {kind} has shape {array.shape}")
    if kind in {"int", "counter"}:
        number = _decode_int(array, logical)
        return Counter(number) if kind == "counter" else number
    if kind == "numpy":
        return _decode_numpy_scalar(array, logical)
    if (kind, logical.str) not in {("bool", "|b1"), ("float", "<f8"), ("complex", "<c16")}:
        raise ValueError(f"a value of kind {kind} has dtype {dtype[:40]!r}")
    return array.astype(logical.newbyteorder("=")).item()


def with_axis_order(array: Array, order: AxisOrder) -> Array:
    """Decode an array value that HDF5 stores in C order: copy it into the axis order it had."""
    if not order:
        return array
    ordered = empty_in_order(array.shape, array.dtype, order)
    ordered[...] = array
    return ordered


def _encode_array(value: Array, kind: Kind) -> Coded:
    text, order = dtype_text(value.dtype), axis_order(value)
    _require_decodable(text, tuple(min(length, 2) for length in value.shape), order)
    return Coded(kind, text, _to_storage(value, storage_dtype(value.dtype)), order)


@lru_cache(maxsize=1024)
def _require_decodable(dtype: str, shape: tuple[int, ...], order: AxisOrder) -> None:
    """Decode zeros of a type before the first array of it is written, as a load will.

    Raises:
        ValueError: No load could make such an array.
    """
    decode("array", dtype, np.zeros(shape, storage_dtype(parse_dtype(dtype))), order)


def _encode_numpy_scalar(value: Any) -> Coded:
    if not isinstance(value, np.bytes_ | np.str_):
        return _encode_array(np.asarray(value), "numpy")
    # As an item of an array, text loses trailing NULs; the scalar keeps them.
    data = (
        bytes(value)
        if isinstance(value, np.bytes_)
        else value.encode("utf-8", "surrogatepass").ljust(value.dtype.itemsize, b"\0")
    )
    stored = np.frombuffer(data or b"\0", storage_dtype(value.dtype)).reshape(())
    return Coded("numpy", value.dtype.str, stored)


def _decode_numpy_scalar(array: Array, logical: DType) -> Value:
    if logical.kind == "S":
        return np.bytes_(_raw(array) if logical.itemsize else b"")
    if logical.kind == "U":
        length = logical.itemsize // 4
        return np.str_(_raw(array).decode("utf-8", "surrogatepass")[:length])
    return _from_storage(array, logical)[()]


def _encode_int(value: int, kind: Kind) -> Coded:
    if _INT64.min <= value <= _INT64.max:
        return _encode_array(np.array(value, np.dtype("<i8")), kind)
    # Hexadecimal, since Python limits the digits of decimal numbers.
    return _encode_bytes(hex(value).encode(), kind)


def _decode_int(array: Array, logical: DType) -> int:
    if logical.kind == "S":
        return int(_raw(array), 16)
    if logical.str != "<i8":
        raise ValueError(f"an integer is not stored as {logical.str}")
    return int(array)


def _encode_bytes(data: bytes, kind: Kind) -> Coded:
    if not data:
        return Coded(kind, "|S1", np.zeros(0, "S1"))
    dtype = np.dtype((np.bytes_, len(data)))
    return Coded(kind, dtype.str, np.frombuffer(data, dtype).reshape(()))


def _bytes_of(array: Array, logical: DType) -> bytes:
    if logical.kind != "S" or array.shape not in {(), (0,)}:
        raise ValueError(f"text is not stored as {logical.str} of shape {array.shape}")
    return _raw(array)


def _raw(array: Array) -> bytes:
    return array.tobytes()


def _to_storage(value: Array, stored: DType) -> Array:
    if is_reinterpreted(value.dtype):
        # No copy: the writer brings it into C order, block by block.
        return value.view(stored)
    target = np.zeros(value.shape, stored)
    if value.dtype.itemsize:
        _store(value, target)
    return target


def _from_storage(array: Array, logical: DType) -> Array:
    if logical.names is None and storage_dtype(logical) == logical:
        return array.view(logical) if logical.metadata else array
    # np.zeros makes another dtype of some, see empty_in_order.
    empty = empty_in_order(array.shape, logical, ())
    if not logical.itemsize:
        return empty
    target = np.zeros_like(empty)
    _restore(array, target)
    return target


def _store(value: Array, target: Array) -> None:
    dtype = value.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _store(value[name], target[name])
    elif dtype.kind == "U":
        if value.size:
            target[...] = np.char.encode(_require_unicode(value), "utf-8", "surrogatepass")
    elif is_longdouble(dtype):
        target[...] = _without_padding(value).view(target.dtype)
    else:
        target[...] = value.view(target.dtype)


def _restore(array: Array, target: Array) -> None:
    dtype = target.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _restore(array[name], target[name])
    elif dtype.kind == "U":
        if array.size:
            text = np.char.decode(array, "utf-8", "surrogatepass")
            if text.dtype.itemsize > dtype.itemsize:
                raise ValueError("text is longer than its dtype says")
            target[...] = text
    else:
        target[...] = array.view(dtype)


def _require_unicode(value: Array) -> Array:
    codes = np.array(value, order="C").reshape(-1).view(value.dtype.byteorder + "u4")
    # Python has no such character (above U+10FFFF), and numpy could not print the array.
    if codes.max() > sys.maxunicode:
        raise ValueError(f"it holds a character beyond U+{sys.maxunicode:X}")
    return value


def _without_padding(value: Array) -> Array:
    clean = np.array(value, order="C")
    width = np.dtype(np.longdouble).itemsize
    numbers = clean.reshape(-1).view(np.uint8).reshape(-1, width)
    used = _LONGDOUBLE_BYTES
    padding = numbers[:, used:] if value.dtype.isnative else numbers[:, : width - used]
    padding[...] = 0
    return clean
