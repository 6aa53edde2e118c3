"""Blocks of a checkpoint file and their digests: how they are cut, compared and stored.

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

from jobrun.checkpoint.userblock import SIZE as USER_BLOCK

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
BLOCK_BYTES = 1 << 18
DIGEST_BYTES = 16

# Of anything with the buffer interface; lets other threads run meanwhile.
digest: Callable[[Any], bytes] = xxhash.xxh3_128_digest


def block_count(tail: int) -> int:
    """How many blocks there are in front of a tail that begins at this byte of the file."""
    return -(-(tail - USER_BLOCK) // BLOCK_BYTES)


def block_span(number: int, tail: int) -> tuple[int, int]:
    """First byte in the file of a block, and the first one behind it."""
    begin = USER_BLOCK + number * BLOCK_BYTES
    return begin, min(begin + BLOCK_BYTES, tail)


def blocks_of(begin: int, end: int) -> range:
    """The blocks that hold bytes ``begin`` to ``end`` of the file, the latter not included."""
    if end <= begin:
        return range(0)
    return range((begin - USER_BLOCK) // BLOCK_BYTES, (end - USER_BLOCK - 1) // BLOCK_BYTES + 1)
