"""Checkpoint files of format 1, which jobrun reads and no longer writes. For tests only."""

from __future__ import annotations

import hashlib
import io
import zlib

import h5py
import numpy as np

from jobrun.checkpoint import userblock
from jobrun.checkpoint.codec import encode
from jobrun.checkpoint.names import quoted


def image(epoch: int, values) -> bytes:
    """A whole file but for its user block, which is empty."""
    blobs = {name: encode(value, name) for name, value in values.items()}
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=("v108", "v110"), userblock_size=userblock.SIZE) as file:
        group = file.create_group("blobs")
        for name in sorted(blobs):
            coded = blobs[name]
            dataset = group.create_dataset(quoted(name), data=coded.array, track_times=False)
            for key, text in (("kind", coded.kind), ("dtype", coded.dtype), ("role", "state")):
                dataset.attrs.create(key, np.bytes_(text.encode("ascii")))
        table = file.create_group("_ck")
        for key, column in columns(epoch, blobs).items():
            table.create_dataset(key, data=column, track_times=False)
    return buffer.getvalue()


def columns(epoch, blobs):
    names = sorted(blobs)
    texts = [quoted(name).encode() for name in names]
    width = max(map(len, texts), default=1)
    arrays = [np.ascontiguousarray(blobs[name].array) for name in names]
    return {
        "epoch": np.array(epoch, np.int64),
        "names": np.array(texts, h5py.string_dtype("utf-8", width)),
        "lengths": np.array([array.nbytes for array in arrays], np.uint64),
        "crc32": np.array([zlib.crc32(array.tobytes()) for array in arrays], np.uint32),
    }


def sealed(body: bytes, *, node="n", epoch=3, run_id="run-1") -> bytes:
    """A file whose user block says that the HDF5 image ``body`` is as it was written.

    ``body`` has its own 4096 bytes in front, which are overwritten.
    """
    content = body[userblock.SIZE :]
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    header = userblock.Header(node, epoch, run_id, len(content), digest, "sha256:" + "0" * 64)
    return userblock.encode(header) + content
