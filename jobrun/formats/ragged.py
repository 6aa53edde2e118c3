"""Read ragged rows, which differ in length: an array of values is cut by an array of lengths.

The bounds of the rows take 8 bytes of memory each; values are read piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.patterns import lazy_pattern
from jobrun.formats import errors as faults
from jobrun.formats.rows import Array, ArrayRows, Column, Rows, common_length, sort_rows

# Opens members of equal length. It may be called several times.
OpenMembers = Callable[[tuple[str, ...]], Rows]
# Blocks of rows are measured by the mean row, or by this part of the longest, if that is more.
_PART_OF_LONGEST = 16
# Rows with at least this many values on average are copied row by row, shorter ones by one index.
_LONG_ROW = 256
# Limits of one read of rows in any order: its bytes, and the unused bytes between two rows.
_AT_ONCE_BYTES = 4 << 20
_GAP_BYTES = 32 << 10
# Suffixes of the names of members that hold row lengths.
_LENGTHS = lazy_pattern(r"(?:^|[^a-z])(?:lengths?|lens?)$")


class Runs:
    """Ragged rows one behind the other in one array.

    Args:
        values: Of all rows.
        bounds: Where each row begins, and where the last one ends.
        joined: Several rows are asked for as one array rather than as a list of arrays.
    """

    def __init__(self, values: Array, bounds: list[int], *, joined: bool) -> None:
        self._values = values
        self._bounds = bounds
        self._joined = joined

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, at: int | slice) -> Array | list[Array]:
        bounds = self._bounds
        if not isinstance(at, slice):
            return self._values[bounds[at] : bounds[at + 1]]
        first, last, _ = at.indices(len(self))
        if not self._joined:
            return [self._values[bounds[row] : bounds[row + 1]] for row in range(first, last)]
        # All values are the array itself: no copy is needed.
        whole = last - first == len(self)
        return self._values if whole else self._values[bounds[first] : bounds[last]]


class RaggedRows:
    """Columns of which some are ragged: values cut by lengths.

    Args:
        plain: Reads the other columns; None when there are none.
        cuts: For each ragged column what reads its values, and the bounds of its rows (int64,
            shape (rows + 1,)).
        order: For each column whether it is ragged, and its number among those that are (or not).
        joined: See ``Runs``.
    """

    def __init__(
        self,
        plain: Rows | None,
        cuts: Sequence[tuple[Rows, Array]],
        order: Sequence[tuple[bool, int]],
        *,
        joined: bool,
    ) -> None:
        self._plain = plain
        self._cuts = tuple(cuts)
        self._order = tuple(order)
        self._joined = joined
        self._length = len(cuts[0][1]) - 1
        columns = (() if plain is None else plain.columns, [_ragged(*cut) for cut in cuts])
        self.columns = tuple(columns[is_ragged][number] for is_ragged, number in order)

    def __len__(self) -> int:
        return self._length

    def take(self, start: int, stop: int) -> tuple[Any, ...]:
        """Read consecutive rows; cut each ragged column's values into rows by their lengths."""
        plain = () if self._plain is None else self._plain.take(start, stop)
        runs = []
        for values, bounds in self._cuts:
            inner = bounds[start : stop + 1]
            first, last = int(inner[0]), int(inner[-1])
            runs.append(self._runs(values.take(first, last)[0], inner - first))
        return self._sorted(plain, runs)

    def pick(self, rows: Array) -> tuple[Any, ...]:
        """Read rows in a given order; cut each ragged column's values into rows by lengths."""
        plain = () if self._plain is None else self._plain.pick(rows)
        runs = []
        for values, bounds in self._cuts:
            row_ends = np.concatenate(([0], np.cumsum(bounds[rows + 1] - bounds[rows])))
            runs.append(self._runs(_picked(values, bounds, rows, row_ends), row_ends))
        return self._sorted(plain, runs)

    def close(self) -> None:
        """Close the files whose ragged rows were read."""
        with ExitStack() as stack:
            if self._plain is not None:
                stack.callback(self._plain.close)
            for values, _ in self._cuts:
                stack.callback(values.close)

    def _runs(self, values: Array, bounds: Array) -> Runs:
        return Runs(values, bounds.tolist(), joined=self._joined)

    def _sorted(self, plain: tuple[Any, ...], runs: list[Runs]) -> tuple[Any, ...]:
        columns = (plain, runs)
        return tuple(columns[is_ragged][number] for is_ragged, number in self._order)


def open_ragged(
    open_members: OpenMembers,
    source: str,
    members: Sequence[tuple[str, str | None]],
    *,
    joined: bool,
    others: Sequence[str] = (),
) -> Rows:
    """Open a data file to read rows with ragged columns, in which rows differ in length.

    Args:
        open_members: Opens members of one length.
        source: The source, for messages.
        members: For each column the member of its rows, and None; or the member of its values,
            and that of its lengths.
        joined: Several rows of a ragged column are one array; else a list of arrays.
        others: All members of the source, to find lengths that are not declared.

    Raises:
        EnvironmentFaultError: E514, lengths are not such of the values; E515, values have lengths
            that are not declared; E288, lengths are not as many as there are rows; or as
            ``open_members`` raises.
    """
    plain = tuple(name for name, lengths in members if lengths is None)
    if plain and len(members) > 1:
        used = {lengths for _, lengths in members}
        candidates = [
            member for member in others if _LENGTHS.search(member.lower()) and member not in used
        ]
        _refuse_flat_values(open_members, source, plain, candidates)
    if len(plain) == len(members):
        return open_members(plain)
    order: list[tuple[bool, int]] = []
    counts: list[tuple[str, int]] = []
    cuts: list[tuple[Rows, Array]] = []
    known: dict[str, Array] = {}
    with ExitStack() as stack:
        rows = open_members(plain) if plain else None
        if rows is not None:
            stack.callback(rows.close)
            counts.append((plain[0], len(rows)))
        for name, lengths in members:
            if lengths is None:
                order.append((False, sum(not is_ragged for is_ragged, _ in order)))
                continue
            order.append((True, len(cuts)))
            values = open_members((name,))
            stack.callback(values.close)
            if lengths not in known:
                with closing(open_members((lengths,))) as held:
                    known[lengths] = held.take(0, len(held))[0]
                counts.append((lengths, len(known[lengths])))
            cuts.append((values, _bounds(known[lengths], lengths, len(values), name, source)))
        common_length(source, counts)
        ragged = RaggedRows(rows, cuts, order, joined=joined)
        stack.pop_all()
    return ragged


def _refuse_flat_values(
    open_members: OpenMembers, source: str, plain: tuple[str, ...], lengths: Sequence[str]
) -> None:
    """Refuse a spec that reads the values of ragged rows but not the rows' lengths (E515).

    Names alone prove nothing, for each record may have a length besides; and numbers alone prove
    nothing: the labels 0, 1 and 2 of 150 rows, 50 each, add up to 150, too.

    Raises:
        EnvironmentFaultError: E515.
    """
    for name in lengths:
        try:
            with closing(open_members((name,))) as held:
                column, count = held.columns[0], len(held)
                is_count = column.dtype.kind in "iu" and not column.shape
                numbers = held.take(0, count)[0] if is_count and count else None
        except EnvironmentFaultError:
            # A member that the job does not read may be damaged.
            continue
        if numbers is None or (numbers == 1).all() or (numbers < 0).any():
            continue
        if sum(numbers.tolist()) != count:
            continue
        with closing(open_members(plain)) as rows:
            columns = zip(plain, rows.columns, strict=True)
            flat = [member for member, column in columns if not column.shape and member != name]
            if flat and len(rows) == count:
                stem = _LENGTHS.sub("", name.lower())
                near = [member for member in flat if stem and member.lower().startswith(stem)]
                raise faults.flat_values(source, (near or flat)[0], name)


def _bounds(lengths: Array, name: str, count: int, values: str, source: str) -> Array:
    """Return where each ragged row begins in the array of values, and where the last row ends.

    Raises:
        EnvironmentFaultError: E514, the lengths are not such of so many values.
    """
    if lengths.dtype.kind not in "iu" or lengths.ndim != 1:
        shape = f"{lengths.dtype} of shape {lengths.shape}"
        mend = "make them integers, one for each record"
        raise faults.lengths(source, name, f"is {shape}, and lengths are integers", mend)
    if lengths.dtype.kind == "i" and len(lengths) and lengths.min() < 0:
        at = int(np.argmax(lengths < 0))
        mend = "see how it was made; a record without values has the length 0"
        raise faults.lengths(source, name, f"is {lengths[at]} for record {at}", mend)
    total = sum(lengths.tolist())
    if total != count:
        mend = f"the lengths of all records together must be the length of '{values}'"
        why = f"adds up to {total}, and '{values}' has {count} values"
        raise faults.lengths(source, name, why, mend)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def _picked(values: Rows, bounds: Array, rows: Array, row_ends: Array) -> Array:
    """Read ragged rows in a given order into one array; ``row_ends`` says where each row ends."""
    starts, total = bounds[rows], int(row_ends[-1])
    if isinstance(values, ArrayRows) and values.is_indexable and total < _LONG_ROW * len(rows):
        return values.pick(np.arange(total) + np.repeat(starts - row_ends[:-1], np.diff(row_ends)))[
            0
        ]
    column = values.columns[0]
    picked = np.empty((total, *column.shape), column.dtype)
    ordered, positions = sort_rows(rows)
    begins, stops = bounds[ordered], bounds[ordered + 1]
    # The offset of each row in the output, in file order.
    targets = np.empty_like(positions)
    targets[positions] = row_ends[:-1]
    for first, last in _stretches(begins, stops, column.row_bytes):
        start = int(begins[first])
        values_here = values.take(start, int(stops[last - 1]))[0]
        for begin, stop, to in zip(
            (begins[first:last] - start).tolist(),
            (stops[first:last] - start).tolist(),
            targets[first:last].tolist(),
            strict=True,
        ):
            picked[to : to + stop - begin] = values_here[begin:stop]
    return picked


def _stretches(begins: Array, stops: Array, item_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of ragged rows that lie close together in a file, to read each range whole.

    To skip a little costs more than to read it, above all with libhdf5.
    """
    most, gap = _AT_ONCE_BYTES // max(1, item_bytes), _GAP_BYTES // max(1, item_bytes)
    pairs = zip(begins.tolist(), stops.tolist(), strict=True)
    first, start, end = 0, 0, 0
    for at, (begin, stop) in enumerate(pairs):
        if at and (begin > end + gap or stop > start + most):
            yield first, at
            first, start = at, begin
        if at == 0:
            start = begin
        end = stop
    if len(begins):
        yield first, len(begins)


def _ragged(values: Rows, bounds: Array) -> Column:
    column = values.columns[0]
    lengths = np.diff(bounds)
    mean = -(-int(bounds[-1]) // max(1, len(lengths)))
    longest = int(lengths.max(initial=0))
    size = max(mean, longest // _PART_OF_LONGEST)
    return Column(column.name, column.dtype, (size, *column.shape))
