"""How far the shares of a reader are, as values: to and from the state blob, and divided anew.

A pass is divided once, when it begins: of ``n`` rows share ``k`` of ``m`` has the places
``k * n // m`` to ``(k + 1) * n // m``. Where a run goes on in the middle of a pass with another
number of shares, what is left is divided in the same way: the places that are left, share after
share, are one line, which is cut into as many equal parts as there are shares now. Each row that
is left is then given exactly once. Which places such a share has stands in the blob, too: a row
for each stretch of them, whose number of passes is ``-1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobrun.graph.data import POSITION

Array = np.ndarray[Any, Any]
# Places of a pass, from the first to before the second.
Stretch = tuple[int, int]
_STRETCH = -1


@dataclass(frozen=True, slots=True)
class Position:
    """A row of the state blob ``readers/NAME``; see ``graph.data.POSITION``.

    Attributes:
        stretches: The places of the share, where the pass was divided anew; else none.
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
        """From the blob's row."""
        passes, records, rows, finished, part, parts, length = (int(value) for value in row)
        return cls(passes, records, rows, finished, part, parts, length)

    def after(self, records: int, rows: int) -> Position:
        """When so many more records, of so many rows, have been given."""
        return replace(self, records=self.records + records, rows=self.rows + rows)

    def row(self) -> list[int]:
        """As the blob's row."""
        return [getattr(self, name) for name in POSITION]

    @property
    def begun(self) -> tuple[int, int, int, tuple[Stretch, ...]]:
        """What two positions have in common when the same record comes next."""
        return self.passes, self.rows, self.part, self.stretches


def positions_of(blob: Array | None) -> tuple[Position, ...]:
    """The shares of the state blob; none of a blob that is not there yet."""
    if blob is None:
        return ()
    found = [Position.of(row) for row in blob if row[0] != _STRETCH]
    stretches: dict[int, list[Stretch]] = {}
    for row in blob:
        if row[0] == _STRETCH:
            stretches.setdefault(int(row[4]), []).append((int(row[1]), int(row[2])))
    return tuple(replace(one, stretches=tuple(stretches.get(one.part, ()))) for one in found)


def blob_of(positions: Iterable[Position]) -> Array:
    """The state blob (int64, shape (shares and stretches, 7))."""
    rows: list[list[int]] = []
    further: list[list[int]] = []
    for one in positions:
        rows.append(one.row())
        further += [
            # Finished: whoever asks whether all shares are must not stumble over it.
            [_STRETCH, first, last, 1, one.part, one.parts, one.length]
            for first, last in one.stretches
        ]
    return np.array(rows + further, np.int64)


def part_of(count: int, part: int, parts: int) -> Stretch:
    """The places of one of so many equal parts of ``count``."""
    return count * part // parts, count * (part + 1) // parts


def divided_anew(positions: Sequence[Position], part: int, parts: int) -> Position | None:
    """Where one of ``parts`` shares begins, of what the shares so far have left of the pass.

    None where the positions are not those of all shares of one pass over rows that can be counted.
    """
    old = sorted(positions, key=lambda one: one.part)
    if not old or [one.part for one in old] != list(range(old[0].parts)):
        return None
    if len({(one.passes, one.parts, one.length) for one in old}) > 1 or old[0].length < 0:
        return None
    left = [stretch for one in old for stretch in _left(one)]
    first, last = part_of(sum(stop - start for start, stop in left), part, parts)
    # Nothing left is a stretch, too: no stretches are a part of the whole.
    stretches = tuple(cut(left, first, last)) or ((0, 0),)
    # Records that were given stay counted, once.
    records = 0 if part else sum(one.records for one in old)
    # Nothing left is a stretch, too: no stretches are a part of the whole.
    return Position(
        old[0].passes, records, 0, 0, part, parts, old[0].length, stretches or ((0, 0),)
    )


def _left(one: Position) -> Iterator[Stretch]:
    gone = one.rows
    for first, last in one.stretches or (part_of(one.length, one.part, one.parts),):
        taken = min(gone, last - first)
        gone -= taken
        if first + taken < last:
            yield first + taken, last


def cut(stretches: Iterable[Stretch], first: int, last: int) -> Iterator[Stretch]:
    """What lies at the places ``first`` to ``last`` of the stretches' line."""
    at = 0
    for start, stop in stretches:
        begin, end = max(first - at, 0), min(last - at, stop - start)
        if begin < end:
            yield start + begin, start + end
        at += stop - start
