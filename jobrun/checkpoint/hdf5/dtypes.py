"""Render and parse numpy dtypes as text, and choose the dtypes with which HDF5 stores them.

HDF5 has no dates and no UCS-4 text, and h5py turns a record of two floats named ``r`` and
``i`` into a complex number. So the logical dtype is kept as text beside the data, and the
data are stored with a dtype of the same size that every HDF5 tool can show.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import import_module, util
from itertools import pairwise
from typing import Any

import numpy as np

from jobrun.core.text.patterns import lazy_pattern
from jobrun.values.blob_kinds import explain_unsavable_dtype
from jobrun.values.kinds.array import iterate_fields, same_dtype

DType = np.dtype[Any]
_SIMPLE = lazy_pattern(r"[<>|][biufcmMSUV][0-9]{1,9}(\[[0-9]{0,9}[A-Za-zμ]{1,7}\])?")
_KINDS = frozenset("biufcmMSUV")
# Custom dtypes of whole bytes that numpy can compare and for which HDF5 has no type.
_CUSTOM = frozenset(
    f"ml_dtypes.{name}"
    for name in (
        "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
        "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "int2", "int4", "uint2", "uint4",
    )
)  # fmt: skip
_EMPTY = np.dtype(np.uint8)
# Integer classes that are as wide as another one; numpy treats the two dtypes as equal.
_TWINS = {"longlong": np.longlong, "ulonglong": np.ulonglong}


def dtype_text(dtype: DType) -> str:
    """Render a numpy dtype as text for a checkpoint file's index: ``<f8``, or JSON for a record.

    Raises:
        ValueError: It cannot be stored exactly; the message says why.
    """
    if dtype.names is None and dtype.subdtype is None and not dtype.metadata:
        return _simple_text(dtype, dtype.num)
    return _text(dtype)


@lru_cache(maxsize=256)
def _simple_text(dtype: DType, _number: int) -> str:
    # Equal simple dtypes with equal numbers have equal texts. Equal records may differ in titles,
    # so they are not cached.
    return _text(dtype)


def _text(dtype: DType) -> str:
    why = explain_unsavable_dtype(dtype)
    if why:
        raise ValueError(f"its dtype {dtype} has {why}")
    description = _description(dtype)
    text = json.dumps(description, sort_keys=True) if isinstance(description, dict) else description
    try:
        same = same_dtype(parse_dtype(text), dtype)
    except (ValueError, AttributeError):
        same = False
    if not same:
        raise ValueError(f"dtype {dtype} is not a plain one")
    storage_dtype(dtype)
    return text


def parse_dtype(text: str) -> DType:
    """Parse the text of a numpy dtype in a checkpoint file's index (from ``dtype_text``).

    Raises:
        ValueError: It is none.
    """
    try:
        return _dtype(json.loads(text) if text.startswith("{") else text)
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from error
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise ValueError(f"{text[:80]!r} is no dtype") from error


def storage_dtype(dtype: DType) -> DType:
    """Return the dtype with which HDF5 stores a numpy dtype: the same, or one of equal size.

    ========================  ====================================================
    bfloat16, float8 …        unsigned integers of the same bits
    dates and durations       64-bit integers of the same byte order
    text ``<U5``              UTF-8 of 20 bytes, padded with NUL
    long double, not native   opaque bytes
    items of no size          one byte each
    record                    a compound of what its fields are stored as
    ========================  ====================================================

    Raises:
        ValueError: A field of a record has no size.
    """
    if dtype.names is not None and dtype.itemsize:
        return _storage_record(dtype)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_storage_field(base), shape))
    if dtype.itemsize == 0:
        return _EMPTY
    if is_custom(dtype):
        return np.dtype(f"u{dtype.itemsize}").newbyteorder(dtype.byteorder)
    if dtype.kind in "mM":
        return np.dtype(np.int64).newbyteorder(dtype.byteorder)
    if dtype.kind == "U":
        import h5py  # noqa: PLC0415 - of numbers alone, it is not needed

        utf8: DType = h5py.string_dtype("utf-8", dtype.itemsize)
        return utf8
    if is_longdouble(dtype) and not dtype.isnative:
        return np.dtype((np.void, dtype.itemsize))
    return dtype


def is_longdouble(dtype: DType) -> bool:
    """Return whether a dtype to store in HDF5 is a real or complex long double."""
    return dtype.type in {np.longdouble, np.clongdouble}


def is_custom(dtype: DType) -> bool:
    """Return whether a dtype to store in HDF5 was added to numpy by a package (``bfloat16``)."""
    return dtype.isbuiltin == 2


def is_reinterpreted(dtype: DType) -> bool:
    """Return whether HDF5 stores a dtype's bits as another dtype, such as bfloat16 as uint16."""
    # Tested here because metadata do not count when dtypes are compared.
    is_simple = dtype.names is None and dtype.subdtype is None and not dtype.metadata
    return is_simple and _keeps_its_bits(dtype)


@lru_cache(maxsize=256)
def _keeps_its_bits(dtype: DType) -> bool:
    is_number = is_custom(dtype) or dtype.kind in "biufcmM"
    return is_number and dtype.itemsize > 0 and not is_longdouble(dtype)


def _description(dtype: DType) -> Any:
    if dtype.metadata:
        return {"dtype": _bare_description(dtype), "metadata": dict(dtype.metadata)}
    return _bare_description(dtype)


def _bare_description(dtype: DType) -> Any:
    if is_custom(dtype):
        if f"ml_dtypes.{dtype.name}" not in _CUSTOM:
            raise ValueError(f"dtype {dtype} is not a known one")
        return f"ml_dtypes.{dtype.name}"
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [_description(base), list(shape)]
    if dtype.names is None:
        is_twin = dtype.type in _TWINS.values() and np.dtype(dtype.str).type is not dtype.type
        return {"dtype": dtype.str, "class": dtype.type.__name__} if is_twin else dtype.str
    fields = list(iterate_fields(dtype))
    spans = sorted((offset, offset + field.itemsize) for field, offset, _ in fields)
    if _is_encoded(dtype) and any(end > begin for (_, end), (begin, _) in pairwise(spans)):
        raise ValueError("fields of its dtype overlap, and hold text or long doubles")
    description: dict[str, Any] = {
        "names": list(dtype.names),
        "formats": [_description(field) for field, _, _ in fields],
        "offsets": [offset for _, offset, _ in fields],
        "itemsize": dtype.itemsize,
    }
    titles = [title for _, _, title in fields]
    if any(title is not None for title in titles):
        description["titles"] = titles
    if dtype.isalignedstruct:
        description["align"] = True
    if dtype.type is np.record:
        description["class"] = "record"
    return description


def _dtype(description: Any) -> DType:
    if isinstance(description, str):
        if description in _CUSTOM:
            return _custom(description)
        if not _SIMPLE.fullmatch(description):
            raise TypeError
        dtype = np.dtype(description)
    elif isinstance(description, list):
        base, shape = description
        dtype = np.dtype((_dtype(base), tuple(shape)))
    elif "metadata" in description:
        dtype = np.dtype(_dtype(description["dtype"]), metadata=description["metadata"])
    elif description.keys() == {"dtype", "class"}:
        bare = _dtype(description["dtype"])
        dtype = np.dtype(_TWINS[description["class"]]).newbyteorder(bare.byteorder)
        if dtype.str != bare.str:
            raise TypeError
    else:
        parts: Any = {key: description[key] for key in ("names", "offsets", "itemsize")}
        parts["formats"] = [_dtype(part) for part in description["formats"]]
        parts |= {key: description[key] for key in description if key == "titles"}
        # numpy refuses ``align`` for offsets that are not aligned.
        dtype = np.dtype(parts, align=description.get("align") is True)
        if description.get("class") == "record":
            dtype = np.dtype((np.record, dtype))
    if dtype.kind not in _KINDS or dtype.hasobject:
        raise TypeError
    return dtype


def _custom(text: str) -> DType:
    if util.find_spec("ml_dtypes") is None:
        raise ModuleNotFoundError(f"{text} needs the package ml_dtypes, which is not installed")
    # By its name alone: a text in a file must not choose what is imported.
    dtype: DType = np.dtype(getattr(import_module("ml_dtypes"), text.partition(".")[2]))
    return dtype


def _storage_record(dtype: DType) -> DType:
    names = dtype.names or ()
    fields = list(iterate_fields(dtype))
    return np.dtype(
        {
            "names": list(names),
            "formats": [_storage_field(field) for field, _, _ in fields],
            "offsets": [offset for _, offset, _ in fields],
            "itemsize": dtype.itemsize,
        }
    )


def _is_encoded(dtype: DType) -> bool:
    """Return whether bytes of a record or of one of its fields are not stored as they are."""
    base = dtype.base
    if base.names is not None:
        return any(_is_encoded(field) for field, _, _ in iterate_fields(base))
    return base.kind == "U" or is_longdouble(base)


def _storage_field(field: DType) -> DType:
    if field.itemsize == 0:
        raise ValueError("a field of its dtype has no size")
    return storage_dtype(field)
