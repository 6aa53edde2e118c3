"""Read checkpoint files by the page 'explain checkpoint-format' alone.

It knows arrays and numbers that are not compressed; it uses nothing of jobrun, and no HDF5.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

USER_BLOCK, BLOCK = 4096, 262144


def padded(size: int) -> int:
    return -(-size // 8) * 8


def read_file(path: Path) -> dict[str, Any]:
    """Read all blobs of one node, after comparing every byte with its digest."""
    data = path.read_bytes()
    block = data[:USER_BLOCK]
    assert hashlib.sha256(block[:-32]).digest() == block[-32:]
    title, _, rest = block[:-32].partition(b"\n")
    assert title == b"jobrun checkpoint"
    head = json.loads(rest.partition(b"\n")[0].rstrip(b"\0"))
    assert len(data) == USER_BLOCK + head["length"]
    parts = head["parts"]
    tail = data[parts["tail"] :]
    assert "sha256:" + hashlib.sha256(tail).hexdigest() == head["digest"]
    digests = tail[-16 * parts["blocks"] :]
    between = data[USER_BLOCK : parts["tail"]]
    for n in range(parts["blocks"]):
        found = xxhash.xxh3_128_digest(between[n * BLOCK : (n + 1) * BLOCK])
        assert found == digests[16 * n : 16 * n + 16]
    at = parts["index"]
    types = json.loads(data[at : at + parts["layout_bytes"]].rstrip(b"\0"))["types"]
    at += padded(parts["layout_bytes"])
    names = data[at : at + parts["names_bytes"]].rstrip(b"\0").decode().split("\n")
    at += padded(parts["names_bytes"])
    values = {}
    for name, row in zip(
        names, struct.iter_unpack("<3Q", data[at:][: 24 * len(names)]), strict=True
    ):
        kind, dtype, shape, *order = types[row[0]]
        value = np.frombuffer(data[row[1] : row[1] + row[2]], dtype).reshape(shape)
        for axes in order:
            # From the slowest axis to the fastest one.
            dense = np.ascontiguousarray(value.transpose(axes))
            value = dense.transpose([axes.index(axis) for axis in range(len(axes))])
        values[name] = value if kind in {"array", "numpy"} else value.item()
    return values
