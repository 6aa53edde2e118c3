"""Open the data source of a reader: a file, blob, counter or user object, for its iterators."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, assert_never

import numpy as np

from jobrun.core.captured_output import collect
from jobrun.core.errors import TaskFailedError
from jobrun.core.file_formats import suffix_of
from jobrun.formats.headers import HDF5, members
from jobrun.formats.npy import ArrayRows
from jobrun.formats.ragged import OpenMembers, open_ragged
from jobrun.formats.rows import Rows, open_rows
from jobrun.graph.expressions import Expr
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    FileSource,
    Reader,
    ZipSource,
)
from jobrun.runtime.codegen.compiler import compile_expression
from jobrun.runtime.codegen.liveness import BlockNames, collect_expression_usage
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.records.cursor import MakeIterator
from jobrun.runtime.records.reader_position import Position, share_bounds
from jobrun.runtime.records.row_iterators import (
    ENDLESS,
    CounterRows,
    ObjectIterator,
    RecordIterator,
    RowIterator,
)
from jobrun.runtime.records.shuffle import shuffle_order
from jobrun.runtime.steps.call import GapNotes, make_instance, printed_lines, read_only_view
from jobrun.values.atomic_counter import Counter
from jobrun.values.blob_kinds import Value, describe
from jobrun.values.change_detection import lend
from jobrun.values.container_flattening import is_tree

Getter = Callable[[Frame], Value]
# Files whose members may differ in length.
_RAGGED = HDF5 | {".npz"}


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
        # Place, size and time of last change of the open file.
        self._opened: tuple[str, int, int] | None = None
        # Of the task that opened it last.
        self._opening: Frame | None = None
        self._path = _path(reader, names)
        self._values = [(name, compile_expression(one, names)) for name, one in _named(reader)]
        self._gap_notes = GapNotes(getattr(reader.source, "target", ""), reader.path, reader.origin)
        used = collect_expression_usage(one for _, one in _named(reader)).used
        # Whether a step may change it in place while it is read.
        self._unsteady = bool(used & names.changed)

    def open(self, frame: Frame) -> bool:
        """Open this data source again; return whether its rows differ from those of the last run.

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
        """Return a function that iterates over one node's or instance's share of a data source.

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

        def made(begin: Position, most: int) -> RecordIterator:
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

        return made

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

    def _opened_rows(self, open_members: OpenMembers, what: str, others: Sequence[str]) -> Rows:
        columns = [(one.member, one.lengths) for one in self.reader.fields]
        joined = bool(self.reader.batch)
        return open_ragged(open_members, what, columns, joined=joined, others=others)

    def _held(self, frame: Frame) -> Rows:
        known = {name: self._rows_of(name, get(frame)) for name, get in self._values}
        if self._unsteady:
            known = {name: array.copy() for name, array in known.items()}
        what = f"reader '{self.reader.name}'"

        def open_members(names: tuple[str, ...]) -> Rows:
            return ArrayRows(what, tuple(known[name] for name in names), names)

        return self._opened_rows(open_members, what, tuple(known))

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
        trees = {name: one for name, one in values.items() if type(one) is Counter or is_tree(one)}
        loans = {name: lend(one) for name, one in trees.items()}
        given = {name: read_only_view(one) for name, one in values.items() if name not in loans}
        given |= {name: loan.lent for name, loan in loans.items()}

        def made() -> Any:
            return make_instance(source.target, frame.resolve_folder(source.folder), given, frame)

        @contextmanager
        def around() -> Iterator[None]:
            # A pass may last for several epochs.
            with collect(printed_lines(frame, reader.path, self._opening)):
                yield
            for name, loan in loans.items():
                path = loan.change()
                if path is not None:
                    raise TaskFailedError.of(
                        "E246",
                        f"the class '{source.target}' of reader '{reader.name}' has changed its "
                        f"argument '{name}', at '{'/'.join((name, *path))}'",
                        "let it change a copy of its own: copy.deepcopy(value)",
                    )

        names = tuple(one.member for one in reader.fields)
        return ObjectIterator(
            made,
            names,
            start,
            reader.batch,
            drop_last=reader.drop_last,
            what=source.target,
            note_gaps=self._gap_notes.to(frame),
            around=around,
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
