"""Compute which digested blocks of a checkpoint file hold which bytes.

From the end of the user block to the tail a file is cut into blocks of 256 KiB, the last one
shorter. The tail holds a digest of each (XXH3, 128 bits), and the user block a SHA-256 of the
tail; so every byte is covered, a reader can verify as little as one block, and the digests
can be made while the data pass through the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xxhash

from jobrun.checkpoint.hdf5.user_block import SIZE as USER_BLOCK

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
BLOCK_BYTES = 1 << 18
DIGEST_BYTES = 16

# Digests any object with the buffer protocol; releases the GIL.
digest: Callable[[Any], bytes] = xxhash.xxh3_128_digest


def block_count(tail: int) -> int:
    """Compute how many 256 KiB blocks a checkpoint file has before its table of digests."""
    return -(-(tail - USER_BLOCK) // BLOCK_BYTES)


def block_span(number: int, tail: int) -> tuple[int, int]:
    """Return at which byte offsets of a checkpoint file a 256 KiB block begins and ends."""
    begin = USER_BLOCK + number * BLOCK_BYTES
    return begin, min(begin + BLOCK_BYTES, tail)


def blocks_holding(begin: int, end: int) -> range:
    """Return the numbers of a file's 256 KiB blocks that hold the bytes ``begin`` to ``end``."""
    if end <= begin:
        return range(0)
    return range((begin - USER_BLOCK) // BLOCK_BYTES, (end - USER_BLOCK - 1) // BLOCK_BYTES + 1)
