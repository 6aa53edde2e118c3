"""Compute the shuffled order of rows in one pass over the data from seed, reader and pass.

Up to a million rows the order is a permutation that numpy draws (8 MiB of memory at most). Above
that it is a keyed permutation of the numbers themselves, computed where it is asked for, in
pieces of 64 KiB whatever the number of rows: a Feistel network over just enough bits, walked
until the number is a row's. M. Luby and C. Rackoff, "How to construct pseudorandom permutations
from pseudorandom functions", 1988; J. Black and P. Rogaway, "Ciphers with arbitrary finite
domains", 2002.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from jobrun.runtime.context.rng import StreamKey, make_stream

Array = np.ndarray[Any, Any]

MOST_DRAWN = 1 << 20
_ROUNDS = 8
_AT_ONCE = 1 << 13
# Multipliers of the finalizer of SplitMix64 (G. Steele, D. Lea and C. Flood, 2014).
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Order(Protocol):
    """Which row is at each place of a pass."""

    def rows(self, start: int, stop: int) -> Array:
        """Return the rows from place ``start`` to ``stop`` in the shuffled order (int64)."""


def shuffle_order(length: int, seed: int, reader: str, number: int) -> Order:
    """Return the shuffled order of rows for one pass over the data.

    Args:
        length: How many rows there are.
        seed: The job's.
        reader: The reader's name.
        number: Of the pass, from 1.
    """
    generator = make_stream(seed, StreamKey("readers", number, "", reader, 0, "shuffle"))
    if length <= MOST_DRAWN:
        return _Drawn(generator.permutation(length))
    return _Keyed(length, generator.integers(0, 1 << 64, _ROUNDS, np.uint64))


class _Drawn:
    def __init__(self, order: Array) -> None:
        self._order = order

    def rows(self, start: int, stop: int) -> Array:
        """Return row numbers from place ``start`` to ``stop`` of a shuffled order in memory."""
        return self._order[start:stop]


class _Keyed:
    def __init__(self, length: int, keys: Array) -> None:
        self._length = np.uint64(length)
        bits = (length - 1).bit_length()
        self._low = np.uint64(bits // 2)
        self._high = np.uint64(bits - bits // 2)
        self._keys = keys
        # The places that were computed last.
        self._known_from = 0
        self._known: Array = np.empty(0, np.int64)

    def rows(self, start: int, stop: int) -> Array:
        """Compute from a key the rows from place ``start`` to ``stop`` of the shuffled order."""
        first = start - self._known_from
        if first < 0 or stop - self._known_from > len(self._known):
            # Many at once, since computing a few takes nearly as long.
            end = max(stop, min(start + _AT_ONCE, int(self._length)))
            self._known_from, self._known = start, self._computed(start, end)
            first = 0
        return self._known[first : first + stop - start]

    def _computed(self, start: int, stop: int) -> Array:
        found = self._permuted(np.arange(start, stop, dtype=np.uint64))
        # Fewer than half of all numbers of so many bits are no row: permute these again.
        while (outside := np.flatnonzero(found >= self._length)).size:
            found[outside] = self._permuted(found[outside])
        return found.astype(np.int64)

    def _permuted(self, places: Array) -> Array:
        one = np.uint64(1)
        low_bits, high_bits = self._low, self._high
        low = places & ((one << low_bits) - one)
        high = places >> low_bits
        for key in self._keys:
            # The halves change places, and with them their widths; after an even number
            # of rounds both are what they were.
            low, high = high ^ (_mixed(low, key) & ((one << high_bits) - one)), low
            low_bits, high_bits = high_bits, low_bits
        found: Array = (high << low_bits) | low
        return found


def _mixed(values: Array, key: np.uint64) -> Array:
    mixed = values + key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
