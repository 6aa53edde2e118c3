"""Convert the positions of a reader's shares to and from the state blob, and redistribute them.

A pass is divided once, when it begins: of ``n`` rows share ``k`` of ``m`` has the places
``k * n // m`` to ``(k + 1) * n // m``. Where a run continues in the middle of a pass with another
number of shares, what is left is divided in the same way: the places that are left, share after
share, form one sequence, which is cut into as many equal parts as there are shares now. Each row
that is left is then given exactly once. The blob holds the places of such a share, too: a row for
each stretch of them, whose number of passes is ``-1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from jobrun.graph.readers import POSITION

Array = np.ndarray[Any, Any]
# Positions in a pass, from the first up to but not including the second.
Stretch = tuple[int, int]
_STRETCH = -1


class Position(Struct, frozen=True):
    """The position of one share: a row of the state blob ``readers/NAME``.

    Attributes:
        stretches: The places of the share, where the pass was redistributed; else none.
    """

    passes: int = 0
    records: int = 0
    rows: int = 0
    finished: int = 0
    part: int = 0
    parts: int = 1
    length: int = -1
    stretches: tuple[Stretch, ...] = ()

    @classmethod
    def of(cls, row: Array) -> Position:
        """Build a reader's position from one row of the state blob ``readers/NAME``."""
        passes, records, rows, finished, part, parts, length = (int(value) for value in row)
        return cls(passes, records, rows, finished, part, parts, length)

    def after(self, records: int, rows: int) -> Position:
        """Return the reader's position after some more records and rows."""
        return replace(self, records=self.records + records, rows=self.rows + rows)

    def row(self) -> list[int]:
        """Return a reader's position as a row of the state blob ``readers/NAME``."""
        return [getattr(self, name) for name in POSITION]

    @property
    def begun(self) -> tuple[int, int, int, tuple[Stretch, ...]]:
        """Return the fields of a reader's position that decide which record comes next."""
        return self.passes, self.rows, self.part, self.stretches


def decode_positions(blob: Array | None) -> tuple[Position, ...]:
    """Decode a reader's positions, one for each portion of its rows, from its state blob."""
    if blob is None:
        return ()
    positions = [Position.of(row) for row in blob if row[0] != _STRETCH]
    stretches: dict[int, list[Stretch]] = {}
    for row in blob:
        if row[0] == _STRETCH:
            stretches.setdefault(int(row[4]), []).append((int(row[1]), int(row[2])))
    return tuple(
        replace(position, stretches=tuple(stretches.get(position.part, ())))
        for position in positions
    )


def encode_positions(positions: Iterable[Position]) -> Array:
    """Encode a reader's positions as an int64 array of seven columns, to save it as state."""
    rows: list[list[int]] = []
    further: list[list[int]] = []
    for position in positions:
        rows.append(position.row())
        further += [
            # Marked as finished, so that a check that all shares are finished can succeed.
            [_STRETCH, first, last, 1, position.part, position.parts, position.length]
            for first, last in position.stretches
        ]
    return np.array(rows + further, np.int64)


def share_bounds(count: int, part: int, parts: int) -> Stretch:
    """Compute where one of ``parts`` equal portions of a reader's rows begins and ends."""
    return count * part // parts, count * (part + 1) // parts


def redistribute(positions: Sequence[Position], part: int, parts: int) -> Position | None:
    """Divide the unread rows of a reader into ``parts`` portions; return the position of one.

    None where the positions are not those of all shares of one pass over rows that can be counted.
    """
    old = sorted(positions, key=lambda position: position.part)
    if not old or [position.part for position in old] != list(range(old[0].parts)):
        return None
    if (
        len({(position.passes, position.parts, position.length) for position in old}) > 1
        or old[0].length < 0
    ):
        return None
    unread = [stretch for position in old for stretch in _unread_stretches(position)]
    first, last = share_bounds(sum(stop - start for start, stop in unread), part, parts)
    # An empty stretch says that nothing is unread. No stretches at all would mean the whole share.
    stretches = tuple(slice_stretches(unread, first, last)) or ((0, 0),)
    # The first share alone counts the records that all shares have read.
    records = 0 if part else sum(position.records for position in old)
    return Position(old[0].passes, records, 0, 0, part, parts, old[0].length, stretches)


def _unread_stretches(position: Position) -> Iterator[Stretch]:
    to_skip = position.rows
    for first, last in position.stretches or (
        share_bounds(position.length, position.part, position.parts),
    ):
        taken = min(to_skip, last - first)
        to_skip -= taken
        if first + taken < last:
            yield first + taken, last


def slice_stretches(stretches: Iterable[Stretch], first: int, last: int) -> Iterator[Stretch]:
    """Yield unread rows ``first`` to ``last`` of a reader's position, as ranges of rows."""
    at = 0
    for start, stop in stretches:
        begin, end = max(first - at, 0), min(last - at, stop - start)
        if begin < end:
            yield start + begin, start + end
        at += stop - start
