"""Read a task's reader: give each record, in order, to one instance; its position is state.

A reader's data source (a file, blob, counter or user object: ``OpenSource``) is opened when it is
first read, and stays open from one run of its group to the next. The position is taken from the
node's workspace when a run begins and put back when it ends; it counts what was given out, never
what was taken ahead.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, assert_never

import numpy as np

from jobrun.core.captured_output import collect
from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Noted
from jobrun.core.file_formats import suffix_of
from jobrun.formats.headers import HDF5, members
from jobrun.formats.ragged import OpenMembers, open_ragged
from jobrun.formats.rows import ArrayRows, Rows, open_rows
from jobrun.graph.expressions import Expr
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    FileSource,
    Reader,
    ReadRecords,
    ZipSource,
    readers_in,
)
from jobrun.runtime.callables.call import read_only_view
from jobrun.runtime.callables.invocation import GapNotes, make_instance, printed_lines
from jobrun.runtime.callables.user_modules import load_callable
from jobrun.runtime.codegen.compiler import compile_expression
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.liveness import BlockNames, collect_expression_usage
from jobrun.runtime.context.bounded_queue import Numbered, Records
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.records.cursor import Cursor, MakeIterator, ZipCursor
from jobrun.runtime.records.reader_position import (
    Position,
    decode_positions,
    encode_positions,
    share_bounds,
)
from jobrun.runtime.records.row_iterators import (
    ENDLESS,
    CounterRows,
    ObjectIterator,
    RecordIterator,
    RowIterator,
    shuffle_order,
)
from jobrun.runtime.step_errors import explain_at
from jobrun.values.blob_kinds import Value, describe
from jobrun.values.change_detection import lend
from jobrun.values.container_flattening import is_tree
from jobrun.values.kinds.counter import Counter

Getter = Callable[[Frame], Value]
# Files whose members may differ in length.
_RAGGED = HDF5 | {".npz"}


class ReaderPlan:
    """A reader as one task uses it, in every run of its group.

    Args:
        read: What the task declares.
        instances: The task's.
        names: What is known of the names of the task.
    """

    def __init__(self, read: ReadRecords, instances: int, names: BlockNames) -> None:
        self.read = read
        self.leaves = tuple(
            OpenSource(reader, names)
            for reader in readers_in(read.reader)
            if not isinstance(reader.source, ZipSource)
        )
        by_instance = read.reader.shard == "instance"
        self.shares = instances if by_instance else 1
        self._cursors = tuple(self._cursor(at) for at in range(self.shares))

    def source(self, frame: Frame) -> ReaderSource:
        """Create the record source of a task's reader for one run of the task."""
        return ReaderSource(self, self._cursors, frame)

    def share(self, at: int) -> tuple[int, int]:
        """Return which share of a task reader's rows a parallel copy reads, and of how many."""
        return self.read.part * self.shares + at, self.read.parts * self.shares

    def _cursor(self, at: int) -> Cursor | ZipCursor:
        reader = self.read.reader
        cursors = tuple(
            Cursor(
                leaf.reader,
                self._share_of(leaf.reader, at),
                self._limit(leaf.reader, at),
                is_zipped=isinstance(reader.source, ZipSource),
            )
            for leaf in self.leaves
        )
        if isinstance(reader.source, ZipSource):
            return ZipCursor(reader, cursors, self._limit(reader, at))
        return cursors[0]

    def _share_of(self, reader: Reader, at: int) -> tuple[int, int]:
        return (0, 1) if reader.shard == "none" else self.share(at)

    def _limit(self, reader: Reader, at: int) -> int | None:
        """Return how many records a task's parallel copy may read under its reader's ``limit:``."""
        if reader.limit is None:
            return None
        return reader.limit // self.shares + (at < reader.limit % self.shares)


class ReaderSource:
    """A reader in one run of its group: gives each record to one instance of one task."""

    def __init__(
        self, plan: ReaderPlan, cursors: tuple[Cursor | ZipCursor, ...], frame: Frame
    ) -> None:
        self._plan = plan
        self._cursors = cursors
        self._frame = frame
        self._has_begun = False
        # On a resume: the number of records already read, and the records and rows of each leaf.
        self._records = 0
        self._gone: tuple[tuple[int, int], ...] = ()
        # The instances of a share read one at a time. They wait for each other only here.
        self._locks = tuple(threading.Lock() for _ in cursors)
        # Seconds that instances have waited for these locks; approximate with several shares.
        self._locked_s = 0.0

    @property
    def records_read(self) -> int:
        """Return how many records a task's reader has given in this run to all parallel copies."""
        return self._cursors[0].records_read

    def places(self) -> tuple[tuple[int, int], ...]:
        """Return how many records and rows the task's reader gave, or each reader in a ``zip``."""
        cursor = self._cursors[0]
        leaves = cursor.cursors if isinstance(cursor, ZipCursor) else (cursor,)
        return tuple(leaf.progress for leaf in leaves)

    def enter(self, records: int, gone: tuple[tuple[int, int], ...]) -> None:
        """Resume a task's reader after a number of records of its run; call before ``begin``."""
        self._records, self._gone = records, gone

    def begin(self, frame: Frame) -> None:
        """Begin a task's reader: open its data, and move to the position in its state blob.

        Raises:
            JobrunError: The data cannot be read, or are not those of the position.
        """
        for number, leaf in enumerate(self._plan.leaves):
            try:
                self._begin(number, leaf, frame)
            except Exception as error:
                raise _explained(error, leaf.reader, frame) from error
        for at, cursor in enumerate(self._cursors):
            if isinstance(cursor, ZipCursor):
                stored = decode_positions(frame.n.get(cursor.reader.position))
                last = stored[min(at, len(stored) - 1)] if stored else Position()
                cursor.begin(last, self._records)
        self._has_begun = True

    def connect(self, frame: Frame) -> Records:
        """Iterate over the records that a task's reader gives to one parallel copy of the task.

        It raises JobrunError where the data cannot be read.
        """
        at = frame.instance if len(self._cursors) > 1 else 0
        cursor = self._cursors[at]
        is_shared = frame.instances > len(self._cursors)
        try:
            if is_shared:
                yield from self._in_turn(cursor, self._locks[at], frame)
            else:
                yield from cursor.records(frame)
        except CancelledError:
            raise
        except Exception as error:
            raise _explained(error, self._plan.read.reader, frame) from error

    def close(self) -> None:
        """Close a task's reader: end its prefetching, and store its position in the workspace."""
        if not self._has_begun:
            return
        for cursor in self._cursors:
            cursor.end(self._frame)
        waited_s = self._locked_s + sum(cursor.take_waited_s() for cursor in self._cursors)
        self._frame.run.note_wait(self._frame.task, self._frame.node.name, "data", waited_s)
        for reader, positions in self._positions():
            self._frame.n[reader.position] = encode_positions(positions)

    def _in_turn(
        self, cursor: Cursor | ZipCursor, lock: threading.Lock, frame: Frame
    ) -> Iterator[Numbered]:
        """Iterate over records of a task's reader; parallel copies take turns under one lock."""
        while True:
            frame.cancel.check()
            if not lock.acquire(blocking=False):
                # Another instance is reading: waiting for it counts as waiting for data.
                began = time.perf_counter()
                lock.acquire()
                self._locked_s += time.perf_counter() - began
            try:
                record = cursor.next(frame)
            finally:
                lock.release()
            if record is None:
                return
            yield record

    def _begin(self, number: int, leaf: OpenSource, frame: Frame) -> None:
        is_new = leaf.open(frame)
        stored = decode_positions(frame.n.get(leaf.reader.position))
        for cursor in self._cursors:
            leaf_cursor = cursor.cursors[number] if isinstance(cursor, ZipCursor) else cursor
            make = leaf.iterator_factory(frame, leaf_cursor.share)
            gone = self._gone[number] if self._gone else (0, 0)
            leaf_cursor.begin(frame, stored, leaf.length, make, is_new=is_new, gone=gone)
            if leaf_cursor.was_divided and leaf_cursor.share[0] == 0:
                frame.run.emit(
                    Noted(
                        f"reader '{leaf.reader.name}' continues in the middle of a pass: what "
                        f"{stored[0].parts} shares had left is divided among {leaf_cursor.share[1]}"
                    )
                )

    def _positions(self) -> list[tuple[Reader, list[Position]]]:
        reader = self._plan.read.reader
        positions = [(reader, [cursor.position for cursor in self._cursors])]
        if isinstance(reader.source, ZipSource):
            for at, leaf in enumerate(self._plan.leaves):
                inner = [
                    cursor.cursors[at].position
                    for cursor in self._cursors
                    if isinstance(cursor, ZipCursor)
                ]
                positions.append((leaf.reader, inner))
        return positions


def _explained(error: Exception, reader: Reader, frame: Frame) -> Exception:
    return explain_at(error, StepLocation(reader.path, reader.origin), frame)


class OpenSource:
    """The opened data of a reader, kept from one run of its group to the next.

    Args:
        reader: It reads no other readers.
        names: What is known of the names of the task that reads.

    Attributes:
        length: How many rows there are; -1 when that is unknown.
    """

    def __init__(self, reader: Reader, names: BlockNames) -> None:
        self.reader = reader
        self.length = -1
        self._rows: Rows | None = None
        self._close: Callable[[], object] = _nothing
        # Path, size and modification time of the open file.
        self._opened: tuple[str, int, int] | None = None
        # The frame of the task that opened the source last.
        self._opening: Frame | None = None
        self._path = _path(reader, names)
        self._values = [(name, compile_expression(expr, names)) for name, expr in _named(reader)]
        self._gap_notes = GapNotes(getattr(reader.source, "target", ""), reader.path, reader.origin)
        used = collect_expression_usage(expr for _, expr in _named(reader)).used
        # Whether a step may change the array in place while it is read.
        self._unsteady = bool(used & names.changed)

    def open(self, frame: Frame) -> bool:
        """Open the task reader's data source; return whether its rows may differ from last time.

        Raises:
            JobrunError: The data cannot be read.
        """
        self._opening = frame
        source = self.reader.source
        match source:
            case FileSource():
                return self._open_file(source, frame)
            case BlobSource():
                self._take(self._held(frame))
            case CounterSource():
                self._take(CounterRows(source, single=not self.reader.batch))
                return False
            case CallSource():
                return False
            case ZipSource():
                raise TypeError(f"{self.reader.name} has no data of its own")
            case _:
                assert_never(source)
        return True

    def iterator_factory(self, frame: Frame, share: tuple[int, int]) -> MakeIterator:
        """Return a function that iterates over one share of the rows of a task reader.

        Args:
            frame: The task's.
            share: Which of how many.

        Raises:
            TaskFailedError: E232, there is no row for the share.
        """
        reader, rows = self.reader, self._rows
        if rows is None:
            return lambda begin, _most: self._object_iterator(frame, begin.rows)
        part, parts = share
        whole = share_bounds(len(rows), part, parts)
        if parts > 1 and whole[0] == whole[1]:
            raise TaskFailedError.of(
                "E232",
                f"reader '{reader.name}' has {len(rows)} rows for {parts} shares, and none is left "
                f"for share {part + 1}",
                "use fewer nodes or instances, or leave 'shard' out",
            )

        def make(begin: Position, most: int) -> RecordIterator:
            order = None
            if reader.shuffle:
                order = shuffle_order(len(rows), frame.run.seed, reader.name, begin.passes)
            return RowIterator(
                rows,
                order,
                begin.stretches or (whole,),
                begin.rows,
                reader.batch,
                drop_last=reader.drop_last,
                most=most,
            )

        return make

    def _open_file(self, source: FileSource, frame: Frame) -> bool:
        assert self._path is not None  # noqa: S101 - for the type checker
        path = str(Path(frame.resolve_folder(source.folder), self._path(frame)))
        now = _facts(path)
        if now == self._opened:
            return False
        others = members(path) if suffix_of(path) in _RAGGED else ()
        self._take(self._opened_rows(partial(open_rows, source.format, path), path, others))
        if not self.length:
            raise TaskFailedError.of(
                "E232", f"{path} has no rows to read", "see how it was made, or take the reader out"
            )
        self._opened = now
        return True

    def _take(self, rows: Rows) -> None:
        self._close()
        self._rows = rows
        self.length = -1 if len(rows) == ENDLESS else len(rows)
        self._close = weakref.finalize(self, rows.close)

    def _opened_rows(self, open_members: OpenMembers, source: str, others: Sequence[str]) -> Rows:
        columns = [(field.member, field.lengths) for field in self.reader.fields]
        joined = bool(self.reader.batch)
        return open_ragged(open_members, source, columns, joined=joined, others=others)

    def _held(self, frame: Frame) -> Rows:
        known = {name: self._rows_of(name, get(frame)) for name, get in self._values}
        if self._unsteady:
            known = {name: array.copy() for name, array in known.items()}
        source = f"reader '{self.reader.name}'"

        def open_members(names: tuple[str, ...]) -> Rows:
            return ArrayRows(source, tuple(known[name] for name in names), names)

        return self._opened_rows(open_members, source, tuple(known))

    def _rows_of(self, name: str, value: Value) -> np.ndarray[Any, Any]:
        if is_tree(value):
            raise TaskFailedError.of(
                "E248",
                f"reader '{self.reader.name}' reads '{name}', which is {describe(value)}, and "
                "rows are those of an array",
                f"make an array of it: {name} = array({name})",
            )
        return np.asarray(value)

    def _object_iterator(self, frame: Frame, start: int) -> RecordIterator:
        source, reader = self.reader.source, self.reader
        assert isinstance(source, CallSource)  # noqa: S101 - the only one without rows
        values = {name: get(frame) for name, get in self._values}
        trees = {
            name: value
            for name, value in values.items()
            if type(value) is Counter or is_tree(value)
        }
        loans = {name: lend(value) for name, value in trees.items()}
        arguments = {
            name: read_only_view(value) for name, value in values.items() if name not in loans
        }
        arguments |= {name: loan.lent for name, loan in loans.items()}

        settings = frame.run.settings
        class_ = settings.load(load_callable, source.target, frame.resolve_folder(source.folder))

        def call(work: Callable[[], Any]) -> Any:
            def printing() -> Any:
                # A pass may last for several epochs.
                with collect(printed_lines(frame, reader.path, self._opening)):
                    return work()

            result = settings.run_for_task(frame.task, printing, "the task that reads")
            for name, loan in loans.items():
                path = loan.change()
                if path is not None:
                    raise TaskFailedError.of(
                        "E246",
                        f"the class '{source.target}' of reader '{reader.name}' has changed its "
                        f"argument '{name}', at '{'/'.join((name, *path))}'",
                        "let it change a copy of its own: copy.deepcopy(value)",
                    )
            return result

        names = tuple(field.member for field in reader.fields)
        return ObjectIterator(
            lambda: make_instance(source.target, class_, arguments, frame),
            names,
            start,
            reader.batch,
            drop_last=reader.drop_last,
            target=source.target,
            note_gaps=self._gap_notes.to(frame),
            call=call,
        )


def _named(reader: Reader) -> tuple[tuple[str, Expr], ...]:
    match reader.source:
        case BlobSource(values=values):
            return values
        case CallSource(arguments=arguments):
            return arguments
        case _:
            return ()


def _path(reader: Reader, names: BlockNames) -> Callable[[Frame], str] | None:
    if isinstance(reader.source, FileSource):
        return compile_expression(reader.source.path, names)
    return None


def _facts(path: str) -> tuple[str, int, int]:
    try:
        facts = os.stat(path)  # noqa: PTH116 - the path is a text all the way
    except OSError:
        return path, -1, -1  # opening it raises what is wrong
    return path, facts.st_size, facts.st_mtime_ns


def _nothing() -> None:
    """Do nothing, to close a data source of a reader that was never opened."""
