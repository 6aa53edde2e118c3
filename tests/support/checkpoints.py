"""Make values, epochs and hostile files for the tests of checkpoints."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.hdf5.digest_blocks import DIGEST_BYTES, block_count, block_span, digest
from jobrun.checkpoint.read.verified_file import open_state
from jobrun.checkpoint.store_protocol import StoredFile
from jobrun.checkpoint.write.writer import write_state
from jobrun.core.errors import CheckpointError
from jobrun.core.files.digest import digest_bytes
from jobrun.testing.stores import RUN_ID
from jobrun.values.kinds.counter import Counter

RECORD = np.dtype(
    {
        "names": ["when", "name", "x", "inner"],
        "formats": ["<M8[s]", ("<U3", (2,)), ">f4", [("g", np.longdouble), ("n", "<i2")]],
        "offsets": [8, 24, 0, 64],
        "itemsize": 112,
    }
)

VALUES = {
    "bools": np.array([[True, False], [False, True]]),
    "bytes1": np.arange(5, dtype=np.int8),
    "big_endian": np.arange(4, dtype=">u4"),
    "half": np.array([1.5, np.inf, np.nan], np.float16),
    "single": np.linspace(0, 1, 7, dtype=np.float32).reshape(7, 1),
    "double": np.array([0.0, -0.0, np.nan, np.inf, 5e-324]),
    "payload": np.array([0x7FF8DEADBEEF0001, 0x7FF0000000000001], np.uint64).view(np.float64),
    "long_double": np.array([1, 2, 3], np.longdouble) / 3,
    "long_double_swapped": (np.array([1, 2], np.longdouble) / 3).astype(
        np.dtype(np.longdouble).newbyteorder()
    ),
    "complex64": np.array([1 + 2j, complex("nan")], np.complex64),
    "complex_big": np.array([1 - 2j], ">c16"),
    "complex_long": np.array([1 - 2j], np.clongdouble),
    "dates": np.array(["2026-11-21", "NaT"], "M8[D]"),
    "durations": np.array([1, -5], ">m8[25us]"),
    "text": np.array([["a\0b", "ü€𝄞"], ["", "abc"]]),
    "text_swapped": np.array(["ab", "c"], ">U4"),
    "fixed_bytes": np.array([b"a\0b", b"", b"\xff\x00\x01"]),
    "void": np.array([b"abc", b"\0\0\1"], "V3"),
    "record": np.zeros(3, RECORD),
    "like_complex": np.array([(1.0, 2.0)], [("r", "<f8"), ("i", "<f8")]),
    "nothing": np.zeros((0, 3)),
    "no_unit_swapped": np.ndarray((2, 3), ">M8", np.arange(6)),
    "no_unit_metadata": np.ndarray(6, np.dtype("m8", metadata={"of": 1}), np.arange(6)),
    "no_bytes": np.ndarray((2, 3), "V0", order="F"),
    "text_names": np.zeros(2, [(np.str_("x"), "<f8")]),
    "no_text": np.array([], "<U5"),
    "zero_d": np.array(2.5),
    "zero_d_date": np.array("2026-11-21T10", "M8[h]"),
    "np_float32": np.float32(0.1),
    "np_bool": np.bool_(True),
    "np_text": np.str_("a\0"),
    "np_no_text": np.str_(""),
    "np_bytes": np.bytes_(b"a\0"),
    "np_no_bytes": np.bytes_(b""),
    "np_date": np.datetime64("NaT", "ms"),
    "np_void": np.void(b"\x00\x01"),
    "np_record": np.zeros(1, RECORD)[0],
    "flag": True,
    "no": False,
    "count": -3,
    "most": 2**63 - 1,
    "least": -(2**63),
    "huge": 2**63,
    "huger": -(7**20000),
    "weak": 0.1,
    "nan": float("nan"),
    "minus_zero": -0.0,
    "z": complex(-0.0, float("inf")),
    "word": "naïve\0",
    "empty_word": "",
    "lone": "\ud800",
    "counter": Counter(-7),
    "counter_huge": Counter(2**70),
    "readers/train": 12,
    "%2F": 1,
    ".": 2,
    "größe": np.arange(3),
}


def write(folder: Path, values=None, *, node="n", epoch=3, run_id=RUN_ID) -> StoredFile:
    """Write ``folder/n.h5``."""
    path = str(folder / f"{node}.h5")
    held = {"w": np.arange(6.0), "k": 4} if values is None else values
    return write_state(path, node=node, epoch=epoch, run_id=run_id, values=held)


def resealed(path: Path, change) -> None:
    """Let ``change`` alter a file's content and header fields, then correct its digests.

    Args:
        path: A file that jobrun has written.
        change: Called with all bytes (a bytearray) and the fields of the header (a dict, with
            ``parts`` as a dict); may change both, but not what ``parts`` says of the tail.
    """
    data = bytearray(path.read_bytes())
    header = userblock.decode(data, str(path))
    fields = {name: getattr(header, name) for name in header.__struct_fields__}
    parts = {name: getattr(header.parts, name) for name in header.parts.__struct_fields__}
    fields["parts"] = parts
    change(data, fields)
    tail = parts["tail"]
    for number in range(block_count(tail)):
        begin, end = block_span(number, tail)
        at = len(data) - DIGEST_BYTES * (block_count(tail) - number)
        data[at : at + DIGEST_BYTES] = digest(bytes(data[begin:end]))
    fields["digest"] = digest_bytes(bytes(data[tail:]))
    fields["parts"] = userblock.Parts(**parts)
    _write_header(path, data, fields)
    with contextlib.suppress(CheckpointError, ValueError), open_state(str(path)) as file:
        # Names and types that can be read have a digest of their own.
        fields["types"] = file.index.types_digest
        _write_header(path, data, fields)


def _write_header(path: Path, data: bytearray, fields: dict[str, Any]) -> None:
    data[: userblock.SIZE] = userblock.encode(userblock.Header(**fields))
    path.write_bytes(data)
