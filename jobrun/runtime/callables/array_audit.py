"""Compare digests of the arrays that a ``call`` lends to be read, before and after the callable.

A read-only array stops code that asks numpy. Code in C that has the address does not ask:
``torch.from_numpy``, BLAS with ``overwrite_a=True``, an extension of a user.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Any

import numpy as np
import xxhash

from jobrun.values.adapters.registry import Path
from jobrun.values.change_detection import sample_items

Array = np.ndarray[Any, Any]
# An argument's name, the path in it, and the array there.
Place = tuple[str, Path, Array]
# With the digest of what was in it.
AuditedArray = tuple[Place, int]

_SMALL_BYTES = 64 << 10
_SAMPLED_ABOVE_BYTES = 64 << 20


class ArrayAudit:
    """Audits the arrays that one ``call`` step lends to be read.

    Small arrays are read at each call, large ones at the calls 1, 2, 4, 8, …: a callable that
    writes to its arguments mostly does so each time, and the sum of the costs is nothing.
    """

    def __init__(self) -> None:
        self._calls = 0

    def begin(self, arrays: Iterable[Place]) -> list[AuditedArray]:
        """Compute the digests of the arrays that are audited at this call."""
        self._calls += 1
        is_thorough = self._calls & (self._calls - 1) == 0
        left = _SMALL_BYTES
        found = []
        for place in arrays:
            array = place[2]
            size = array.nbytes
            if size <= left:
                left -= size
                if not array.dtype.hasobject:
                    found.append((place, _digest_small(array)))
            elif is_thorough and not array.dtype.hasobject and not _is_mapped(array):
                found.append((place, _digest_large(array)))
        return found


def find_changed(audited: Iterable[AuditedArray]) -> Place | None:
    """Return the first audited array that something has written to since ``begin``, or None."""
    for place, digest in audited:
        array = place[2]
        now = _digest_small(array) if array.nbytes <= _SMALL_BYTES else _digest_large(array)
        if now != digest:
            return place
    return None


def _digest_small(array: Array) -> int:
    readable: Any = array
    try:
        return xxhash.xxh3_64_intdigest(readable)
    except (ValueError, TypeError, BufferError):
        # It does not lie in C order; or dates and bfloat16, which have no buffer.
        return xxhash.xxh3_64_intdigest(array.tobytes("A"))


def _digest_large(array: Array) -> int:
    flags = array.flags
    if array.nbytes > _SAMPLED_ABOVE_BYTES or not flags.forc:
        # What looks large without lying in one piece may be one number, broadcast.
        return _digest_small(sample_items(array))
    flat = array.reshape(-1, order="A")
    return _digest_small(flat.view(np.uint8))


def _is_mapped(array: Array) -> bool:
    """Return whether an array's memory is that of a file, which would be read for an audit."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return isinstance(base, mmap.mmap)
