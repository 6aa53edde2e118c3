"""Iterate over rows as records or batches, from a given position on, perhaps in shuffled order.

The shuffled order of a pass comes from the seed, the reader and the number of the pass. Up to a
million rows it is a permutation that numpy draws (8 MiB of memory at most). Above that it is a
keyed permutation of the numbers themselves, computed where it is asked for, in pieces of 64 KiB
whatever the number of rows: a Feistel network over just enough bits, walked until the number is a
row's. M. Luby and C. Rackoff, "How to construct pseudorandom permutations from pseudorandom
functions", 1988; J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from jobrun.core.errors import JobrunError, TaskFailedError
from jobrun.formats.rows import Array, Column, Rows
from jobrun.graph.readers import CounterSource
from jobrun.runtime.callables.invocation import explain_exception
from jobrun.runtime.codegen.coercion import as_blob_value
from jobrun.runtime.context.rng import StreamKey, make_stream
from jobrun.runtime.records.reader_position import slice_stretches
from jobrun.values.blob_kinds import Value, describe, require_storable
from jobrun.values.container_flattening import is_tree
from jobrun.values.copies import detach

_Result = TypeVar("_Result")
_ARRAY = np.ndarray

# Small rows are read in blocks of this many bytes. A larger batch is read by itself.
_BLOCK_BYTES = 1 << 20
_LARGE_BYTES = 1 << 18
# Records that are made together: each of them then costs no more than its slices.
_AT_HAND = 64
# The length of a source that never ends.
ENDLESS = 1 << 62
# Rows whose shuffled order numpy draws; beyond that, a network of so many rounds computes it.
MOST_DRAWN = 1 << 20
_ROUNDS = 8
_AT_ONCE = 1 << 13
# Multipliers of the finalizer of SplitMix64 (G. Steele, D. Lea and C. Flood, 2014).
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class CountedRecord(NamedTuple):
    """One record, and how many rows went into it."""

    values: tuple[Value, ...]
    rows: int


# A plain tuple with the same fields is made in a third of the time.
Pair = tuple[tuple[Value, ...], int]


class RecordIterator(Protocol):
    """An iterator over records. One thread at a time."""

    def next(self) -> CountedRecord | None:
        """Return the next record of the iterator; None at the end, however often it is called."""

    def take_ready(self) -> Sequence[Pair]:
        """Return the next records if a row iterator has them in memory, and advance past them."""


class RowIterator:
    """Iterates over rows that can be counted.

    Args:
        rows: The whole source.
        order: Of the pass; None for the source's own.
        stretches: The places of the share in the pass.
        start: How many of its rows are gone already.
        batch: Rows of a record; 0 for one, without an axis for it.
        drop_last: A last batch that is not full is not given.
        most: No more records than these will be asked for.
    """

    def __init__(
        self,
        rows: Rows,
        order: Order | None,
        stretches: Sequence[tuple[int, int]],
        start: int,
        batch: int,
        *,
        drop_last: bool,
        most: int = ENDLESS,
    ) -> None:
        self._rows = rows
        self._order = order
        self._stretches = stretches
        self._length = sum(last - first for first, last in stretches)
        self._at = start
        self._batch = batch
        self._drop_last = drop_last
        self._per_block = min(self._records_per_block(), max(1, most)) * max(1, batch)
        self._block: tuple[Any, ...] = ()
        self._block_start = self._block_stop = 0

    def next(self) -> CountedRecord | None:
        """Return the next row, or batch of rows, of a source with numbered rows."""
        at = self._at
        if at >= self._length:
            return None
        if not self._batch:
            self._reach(at, at + 1)
            self._at = at + 1
            row = at - self._block_start
            return CountedRecord(tuple([column[row] for column in self._block]), 1)
        stop = min(at + self._batch, self._length)
        if self._drop_last and stop - at < self._batch:
            return None
        self._reach(at, stop)
        self._at = stop
        first, last = at - self._block_start, stop - self._block_start
        if first == 0 and stop == self._block_stop:
            block, self._block = self._block, ()
            return CountedRecord(
                tuple([column if type(column) is _ARRAY else column[:] for column in block]),
                stop - at,
            )
        return CountedRecord(tuple([column[first:last] for column in self._block]), stop - at)

    def take_ready(self) -> Sequence[Pair]:
        """Return a row iterator's next rows or batches that are already read, up to a limit."""
        at, batch = self._at, self._batch or 1
        if at >= self._block_stop or not self._block:
            return ()
        count = min(_AT_HAND, (self._block_stop - at) // batch)
        self._at = at + count * batch
        first = at - self._block_start
        if not self._batch:
            columns = [column[first : first + count] for column in self._block]
            return [(values, 1) for values in zip(*columns, strict=True)]
        starts = range(first, first + count * batch, batch)
        return [
            (tuple([column[start : start + batch] for column in self._block]), batch)
            for start in starts
        ]

    def _records_per_block(self) -> int:
        record_bytes = max(1, sum(column.row_bytes for column in self._rows.columns))
        record_bytes *= max(1, self._batch)
        # A large record gets its own array, which can be passed on without a copy.
        return 1 if record_bytes >= _LARGE_BYTES else _BLOCK_BYTES // record_bytes

    def _reach(self, start: int, stop: int) -> None:
        """Read the row iterator's next block of rows; its bounds are the same in every run."""
        if self._block and self._block_start <= start and stop <= self._block_stop:
            return
        begin = start - start % self._per_block if start % max(1, self._batch) == 0 else start
        end = min(begin + self._per_block, self._length)
        self._block = self._read([*slice_stretches(self._stretches, begin, end)])
        self._block_start, self._block_stop = begin, end

    def _read(self, stretches: list[tuple[int, int]]) -> tuple[Any, ...]:
        order = self._order
        if order is not None:
            pieces = [order.rows(first, last) for first, last in stretches]
            return self._rows.pick(pieces[0] if len(pieces) == 1 else np.concatenate(pieces))
        if len(stretches) == 1:
            return self._rows.take(*stretches[0])
        return self._rows.pick(np.concatenate([np.arange(*stretch) for stretch in stretches]))


class CounterRows:
    """Numbers in steps, as rows of one column; Python ints where a record is one number."""

    def __init__(self, source: CounterSource, *, single: bool) -> None:
        self._source = source
        self._single = single
        self.columns = (Column("", np.dtype(np.int64), ()),)

    def __len__(self) -> int:
        source = self._source
        if source.stop is None:
            return ENDLESS
        return len(range(source.start, source.stop, source.step))

    def take(self, start: int, stop: int) -> tuple[Any, ...]:
        """Compute rows ``start`` to ``stop`` of a ``counter`` reader, evenly spaced numbers."""
        first, step = self._source.start, self._source.step
        numbers = range(first + start * step, first + stop * step, step)
        return (numbers if self._single else np.arange(numbers.start, numbers.stop, step),)

    def pick(self, rows: Array) -> tuple[Any, ...]:
        """Compute the given rows of a ``counter`` reader, as a shuffled row iterator needs them."""
        numbers = self._source.start + self._source.step * rows
        return (numbers.tolist() if self._single else numbers,)

    def close(self) -> None:
        """Do nothing at the end of a row iterator over a counter, which has no file to close."""


def _call_plainly(work: Callable[[], Any]) -> Any:
    return work()


class ObjectIterator:
    """Iterates over the rows of a user's object.

    Args:
        made: Makes the object.
        names: What the source calls the fields.
        start: How many rows are gone already.
        batch: Rows of a record; 0 for one, without an axis for it.
        drop_last: A last batch that is not full is not given.
        what: The class, for messages.
        note_gaps: Called with the name of a field whose array has gaps, which the record has not.
        call: Calls a function with user code; raises if that has changed what it may not.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        names: tuple[str, ...],
        start: int,
        batch: int,
        *,
        drop_last: bool,
        target: str,
        note_gaps: Callable[[str], None] | None = None,
        call: Callable[[Callable[[], Any]], Any] = _call_plainly,
    ) -> None:
        self._names = names
        self._note_gaps = note_gaps
        self._batch = batch
        self._drop_last = drop_last
        self._what = target
        self._call = call
        self._object = call(make)
        read = getattr(self._object, "read", None)
        self._read: Callable[[int], Any] | None = read if batch and callable(read) else None
        self._iterator: Iterator[Any] = iter(())
        self._over = False
        self._run(lambda: self._leave_out(start))

    def next(self) -> CountedRecord | None:
        """Return the next row, or batch of rows, of a user's iterable object."""
        if self._over:
            return None
        record = self._run(
            lambda: self._batch_read(self._batch) if self._read else self._gathered()
        )
        self._over = record is None
        return record

    def take_ready(self) -> Sequence[Pair]:
        """Return an empty list, as this iterator over a user's object reads no rows ahead."""
        return ()

    def _run(self, work: Callable[[], _Result]) -> _Result:
        """Call a user's row iterator; raise its exception as an error with its file and line."""
        try:
            result: _Result = self._call(work)
        except JobrunError:
            raise
        except Exception as error:
            raise explain_exception(self._what, error) from error
        return result

    def _leave_out(self, rows: int) -> None:
        seek = getattr(self._object, "seek", None)
        if rows and callable(seek):
            seek(rows)
            rows = 0
        if self._read is None:
            self._iterator = iter(self._object)
            for _ in range(rows):
                next(self._iterator, None)
            return
        while rows > 0:
            skipped = self._batch_read(min(rows, self._batch))
            if skipped is None:
                self._over = True
                return
            rows -= skipped.rows

    def _gathered(self) -> CountedRecord | None:
        if not self._batch:
            for row in self._iterator:
                return CountedRecord(self._parts(row), 1)
            return None
        rows = [self._parts(row) for row in islice(self._iterator, self._batch)]
        if not rows or (self._drop_last and len(rows) < self._batch):
            return None
        columns = zip(*rows, strict=True)
        return CountedRecord(
            tuple(self._stacked(name, c) for name, c in zip(self._names, columns, strict=True)),
            len(rows),
        )

    def _batch_read(self, count: int) -> CountedRecord | None:
        assert self._read is not None  # noqa: S101 - for the type checker
        batch = self._read(count)
        if batch is None:
            return None
        values = self._parts(batch)
        lengths = {len(value) if np.ndim(value) else -1 for value in values}
        rows = lengths.pop()
        if lengths or not -1 < rows <= count:
            raise self._wrong(f"read({count}) gave values that are not {count} rows or fewer")
        short = rows == 0 or (self._drop_last and rows < self._batch)
        return None if short else CountedRecord(values, rows)

    def _parts(self, row: Any) -> tuple[Value, ...]:
        names = self._names
        if isinstance(row, Mapping):
            missing = [name for name in names if name not in row]
            if missing:
                raise self._wrong(f"gave a row without '{missing[0]}'")
            parts: Sequence[Any] = [row[name] for name in names]
        elif len(names) == 1:
            parts = [row]
        elif isinstance(row, tuple | list) and len(row) == len(names):
            parts = row
        else:
            raise self._wrong(f"gave a row that is no tuple or mapping of {len(names)} values")
        # The object may reuse its arrays.
        return tuple(
            detach(
                as_blob_value(
                    require_storable(part, name) if not isinstance(part, tuple | list) else part
                ),
                name,
                self._note_gaps,
            )
            for name, part in zip(names, parts, strict=True)
        )

    def _stacked(self, name: str, values: tuple[Value, ...]) -> Array:
        for value in values:
            if is_tree(value):
                raise self._wrong(
                    f"gave {describe(value)} for '{name}', of which no batch is made; give an array"
                )
        kinds = {(np.asarray(value).dtype.kind, np.shape(value)) for value in values}
        if len(kinds) > 1:
            raise self._wrong(f"gave rows of different shapes or dtypes for '{name}'")
        return np.stack([np.asarray(value) for value in values])

    def _wrong(self, why: str) -> TaskFailedError:
        return TaskFailedError.of(
            "E231",
            f"the reader's class '{self._what}' {why}",
            f"give for each row {', '.join(self._names)}, as a tuple or by name",
        )


class Order(Protocol):
    """Which row is at each place of a pass."""

    def rows(self, start: int, stop: int) -> Array:
        """Return row numbers at positions ``start`` to ``stop`` of the shuffled order (int64)."""


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
        """Return a slice of the shuffled row numbers that a row iterator has in memory."""
        return self._order[start:stop]


class _Keyed:
    def __init__(self, length: int, keys: Array) -> None:
        self._length = np.uint64(length)
        bits = (length - 1).bit_length()
        self._low = np.uint64(bits // 2)
        self._high = np.uint64(bits - bits // 2)
        self._keys = keys
        # The row numbers that were computed last.
        self._known_from = 0
        self._known: Array = np.empty(0, np.int64)

    def rows(self, start: int, stop: int) -> Array:
        """Compute shuffled row numbers ``start`` to ``stop`` from a key; no order is stored."""
        first = start - self._known_from
        if first < 0 or stop - self._known_from > len(self._known):
            # Many at once, since computing a few takes nearly as long.
            end = max(stop, min(start + _AT_ONCE, int(self._length)))
            self._known_from, self._known = start, self._computed(start, end)
            first = 0
        return self._known[first : first + stop - start]

    def _computed(self, start: int, stop: int) -> Array:
        permuted = self._permuted(np.arange(start, stop, dtype=np.uint64))
        # Fewer than half of all numbers with this many bits are no row: permute these again.
        while (outside := np.flatnonzero(permuted >= self._length)).size:
            permuted[outside] = self._permuted(permuted[outside])
        return permuted.astype(np.int64)

    def _permuted(self, numbers: Array) -> Array:
        unit = np.uint64(1)
        low_bits, high_bits = self._low, self._high
        low = numbers & ((unit << low_bits) - unit)
        high = numbers >> low_bits
        for key in self._keys:
            # The halves are swapped together with their widths. After an even number of rounds
            # each width is as it was.
            low, high = high ^ (_mixed(low, key) & ((unit << high_bits) - unit)), low
            low_bits, high_bits = high_bits, low_bits
        permuted: Array = (high << low_bits) | low
        return permuted


def _mixed(values: Array, key: np.uint64) -> Array:
    mixed = values + key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
