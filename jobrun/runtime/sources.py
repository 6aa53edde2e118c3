"""The data behind a reader: what is open of it, and the feeds that records are made from."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never

import numpy as np

from jobrun.blobs.values import Value
from jobrun.core.errors import TaskFailedError
from jobrun.formats.row_arrays import ArrayRows
from jobrun.formats.rows import Rows, open_rows
from jobrun.graph.data import (
    BlobSource,
    CallSource,
    CounterSource,
    FileSource,
    Reader,
    ZipSource,
)
from jobrun.graph.expr import Expr
from jobrun.runtime.callables import instance_of
from jobrun.runtime.codegen import compile_expression
from jobrun.runtime.cursor import MakeFeed
from jobrun.runtime.feeds import ENDLESS, CounterRows, Feed, ObjectFeed, RowsFeed
from jobrun.runtime.files import folder_of
from jobrun.runtime.frame import Frame
from jobrun.runtime.shuffle import shuffled
from jobrun.runtime.standing import Position, part_of
from jobrun.runtime.usage import BlockNames, usage_of

Getter = Callable[[Frame], Value]


class OpenData:
    """What is open of a reader, from one run of its group to the next.

    Args:
        reader: It reads no other readers.
        names: What is known of the names of the task that reads.

    Attributes:
        length: How many rows there are; -1 when nobody can tell.
    """

    def __init__(self, reader: Reader, names: BlockNames) -> None:
        self.reader = reader
        self.length = -1
        self._rows: Rows | None = None
        self._close: Callable[[], object] = _nothing
        # Place, size and time of last change of the open file.
        self._opened: tuple[str, int, int] | None = None
        self._path = _path(reader, names)
        self._values = [(name, compile_expression(one, names)) for name, one in _named(reader)]
        used = usage_of(one for _, one in _named(reader)).used
        # What somebody may change in place while it is read.
        self._unsteady = bool(used & names.changed)

    def open(self, frame: Frame) -> bool:
        """Have the rows as they are now; whether they are others than those of the last run.

        Raises:
            JobrunError: The data cannot be read.
        """
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

    def feed(self, frame: Frame, share: tuple[int, int]) -> MakeFeed:
        """What makes the records of a share.

        Args:
            frame: The task's.
            share: Which of how many.

        Raises:
            TaskFailedError: E232, there is no row for the share.
        """
        reader, rows = self.reader, self._rows
        if rows is None:
            return lambda begin, _most: self._object_feed(frame, begin.rows)
        part, parts = share
        whole = part_of(len(rows), part, parts)
        if parts > 1 and whole[0] == whole[1]:
            raise TaskFailedError.of(
                "E232",
                f"reader '{reader.name}' has {len(rows)} rows for {parts} shares, and none is left "
                f"for share {part + 1}",
                "use fewer nodes or instances, or leave 'shard' out",
            )

        def made(begin: Position, most: int) -> Feed:
            order = None
            if reader.shuffle:
                order = shuffled(len(rows), frame.run.seed, reader.name, begin.passes)
            return RowsFeed(
                rows, order, begin.stretches or (whole,), begin.rows, reader.batch,
                drop_last=reader.drop_last, most=most,
            )  # fmt: skip

        return made

    def _open_file(self, source: FileSource, frame: Frame) -> bool:
        assert self._path is not None  # noqa: S101 - for the type checker
        path = str(Path(folder_of(frame, source.folder), self._path(frame)))
        now = _facts(path)
        if now == self._opened:
            return False
        members = tuple(one.member for one in self.reader.fields)
        self._take(open_rows(source.format, path, members))
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

    def _held(self, frame: Frame) -> ArrayRows:
        known = {name: np.asarray(get(frame)) for name, get in self._values}
        if self._unsteady:
            known = {name: array.copy() for name, array in known.items()}
        names = tuple(one.member for one in self.reader.fields)
        what = f"reader '{self.reader.name}'"
        return ArrayRows(what, tuple(known[name] for name in names), names)

    def _object_feed(self, frame: Frame, start: int) -> Feed:
        source, reader = self.reader.source, self.reader
        assert isinstance(source, CallSource)  # noqa: S101 - the only one without rows
        values = {name: get(frame) for name, get in self._values}

        def made() -> Any:
            return instance_of(source.target, folder_of(frame, source.folder), values, frame)

        names = tuple(one.member for one in reader.fields)
        return ObjectFeed(
            made, names, start, reader.batch, drop_last=reader.drop_last, what=source.target
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
        return path, -1, -1  # opening it tells what is wrong
    return path, facts.st_size, facts.st_mtime_ns


def _nothing() -> None:
    """Nothing is open yet."""
