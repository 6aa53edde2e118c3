"""Bob Jenkins' lookup3 hash, as HDF5 puts it behind its object headers. Of many rows at once.

It lets other tools notice damaged metadata; what jobrun itself relies on are the digests of
``blocks``.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint32]]
_MIX = (4, 6, 8, 16, 19, 4)
_FINAL = (14, 11, 25, 16, 4, 14, 24)
_MASK = 0xFFFFFFFF
# Of fewer rows, calls of numpy cost more than Python's own numbers.
_FEW = 8


def lookup3(rows: np.ndarray[Any, np.dtype[np.uint8]]) -> Words:
    """The hash of each row: ``hashlittle(row, length, 0)``.

    Args:
        rows: uint8, shape (n, length), length > 0.

    Returns:
        uint32, shape (n,).
    """
    count, length = rows.shape
    # The rest of a last word counts as zero.
    padded = np.zeros((count, -(-length // 12) * 12), np.uint8)
    padded[:, :length] = rows
    start = (0xDEADBEEF + length) & _MASK
    if count < _FEW:
        return np.array([_hash_one(row.tobytes(), start) for row in padded], np.uint32)
    return _hash_many(padded.view("<u4"), start)


def _hash_many(words: Words, start: int) -> Words:
    a, b, c = registers = [np.full(len(words), start, np.uint32) for _ in range(3)]
    last = words.shape[1] - 3
    for place in range(0, last + 1, 3):
        a += words[:, place]
        b += words[:, place + 1]
        c += words[:, place + 2]
        if place < last:
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
    for place in range(0, last + 1, 3):
        for offset in range(3):
            registers[offset] = (registers[offset] + words[place + offset]) & _MASK
        if place < last:
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
