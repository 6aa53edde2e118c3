"""Define readers with their sources and fields, queues, and the ``read`` and ``write`` of tasks.

A task that reads runs its steps once per record; a record is a value for each of some names,
the *fields*. A reader belongs to one task's node: its position is a state blob there, so that
a resumed run continues with the record that it would have read.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from jobrun.core.errors import Origin
from jobrun.core.file_formats import FileFormat
from jobrun.core.partly_compared import PartlyCompared
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import (
    Call,
    Compare,
    Const,
    Expr,
    Index,
    NodeBlob,
    Sequence,
    Slice,
    Text,
)

# The columns of the state blob of a reader's position, int64. There is one row for each share of
# the data that the node reads: one, or one for each instance. Where a pass was divided again,
# further rows hold the places of it that the shares have (see ``runtime.records.reader_position``).
POSITION: tuple[str, ...] = (
    "passes",  # begun so far
    "records",  # given out in the pass
    "rows",  # of the share that these took
    "finished",  # 1 if the last run of the group read the last record
    "part",  # which share of the data
    "parts",  # of how many
    "length",  # rows of the whole; -1 if the source does not know
)

POSITION_PREFIX = "readers/"


class Field(Struct, frozen=True):
    """A name that each record binds, and its name at the source.

    Attributes:
        member: Empty where the source has a single member without a name.
        lengths: None: a record is a row of ``member``. Else the field is ragged: ``member`` holds
            the values of all records, one behind the other along its first axis, and this member
            holds how many each record has.
    """

    name: str
    member: str
    lengths: str | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """Return the names of a reader field's columns: its values, and lengths if ragged."""
        return (self.member,) if self.lengths is None else (self.member, self.lengths)


class FileSource(Struct, frozen=True):
    """The rows of a data file: the first axis of its members.

    Attributes:
        folder: The folder of the spec that names the file, relative to the job's; may be empty.
    """

    format: FileFormat
    path: Text
    folder: str = ""


class BlobSource(Struct, frozen=True):
    """The rows of blobs of the node: the first axis of the values at the start."""

    values: tuple[tuple[str, Expr], ...]


class CounterSource(Struct, frozen=True):
    """The numbers ``start``, ``start + step``, … before ``stop``; endless without ``stop``."""

    start: int = 0
    stop: int | None = None
    step: int = 1


class CallSource(Struct, frozen=True):
    """A class of the user's, ``package.module:Class``, called with ``arguments`` for each pass.

    Its objects are iterated over row by row, or have ``read(n)``, which returns up to ``n`` rows
    and none at the end. With ``seek(n)`` a resumed run can skip the rows before.

    Attributes:
        folder: As in ``FileSource``.
    """

    target: str
    arguments: tuple[tuple[str, Expr], ...] = ()
    folder: str = ""


class ZipSource(Struct, frozen=True):
    """Records of several readers side by side; ends with the shortest and drops no row."""

    readers: tuple[Reader, ...]


Source = FileSource | BlobSource | CounterSource | CallSource | ZipSource


class Reader(PartlyCompared, frozen=True):
    """A source with the batch size, order and share in which its rows become records.

    Attributes:
        fields: What each record binds, in the order of its values.
        batch: Rows of one record, stacked along a first axis; 0: one row, without that axis.
        drop_last: A last batch of fewer rows is dropped.
        shuffle: The order of the rows is a function of (seed, pass over the data).
        restart: ``epoch``: each run of the group starts a new pass; ``never``: it continues
            where the last one ended.
        limit: Records per run of the group and node, over all instances; None for no limit.
            Where each instance has its share of the rows, it has its share of these too.
        time_limit_s: No record is read after this many seconds of a run; 0 for no limit.
        delay_s: Wait before each record; for tests and demonstrations.
        shard: How rows are divided: a part for each node, for each instance, or no parts.
            Of ``n`` rows part ``k`` of ``m`` are those at the places ``k * n // m`` to
            ``(k + 1) * n // m`` of the pass.
    """

    name: str
    source: Source
    fields: tuple[Field, ...] = ()
    batch: int = 0
    drop_last: bool = False
    shuffle: bool = False
    restart: Literal["epoch", "never"] = "epoch"
    limit: int | None = None
    time_limit_s: float = 0.0
    delay_s: float = 0.0
    shard: Literal["node", "instance", "none"] = "none"
    path: str = ""
    origin: Origin = NOWHERE

    @property
    def position(self) -> str:
        """Return the name of the state blob that holds this reader's position."""
        return f"{POSITION_PREFIX}{self.name}"


class Queue(PartlyCompared, frozen=True):
    """A bounded queue of records between tasks of one group.

    Attributes:
        capacity: The number of records that can wait in it before a writer blocks.
        shared: One for all nodes of the group, instead of one per node.
        ordered: Records leave in the order in which their inputs were read, although several
            instances work on them.
        batch: This many records are read as one, concatenated along their first axis; 0: one at a
            time, as they were sent.
    """

    name: str
    capacity: int = 100
    shared: bool = False
    ordered: bool = False
    batch: int = 0
    path: str = ""
    origin: Origin = NOWHERE


def record_path(task: str) -> str:
    """Return ``task/record``, the path of the steps that run for each record of a reader."""
    return f"{task}/record"


def readers_in(reader: Reader) -> tuple[Reader, ...]:
    """Return a reader with all readers that it zips, at any depth; each has a position."""
    readers = [reader]
    if isinstance(reader.source, ZipSource):
        for zipped in reader.source.readers:
            readers += readers_in(zipped)
    return tuple(readers)


def has_finished(node: str, reader: Reader) -> Expr:
    """Build the expression that asks a reader's position whether all records are read."""
    column = Sequence((Slice(), Const(POSITION.index("finished"))))
    flags = Index(NodeBlob(node, reader.position), column)
    return Call("all", (Compare(flags, ("!=",), (Const(0),)),))


class ReadRecords(Struct, frozen=True):
    """A task's ``read: reader``.

    Attributes:
        part: Which of ``parts`` equal shares of the rows this task's node gets.
    """

    reader: Reader
    part: int = 0
    parts: int = 1


class ReadQueue(Struct, frozen=True):
    """A task's ``read: queue``: binds ``names`` in the order in which the writers send them."""

    queue: Queue
    names: tuple[str, ...]


class WriteQueue(Struct, frozen=True):
    """A task's ``write: {queue: [names]}``: sends the blobs of those names as one record."""

    queue: Queue
    names: tuple[str, ...]


def record_fields(read: ReadRecords | ReadQueue | None) -> tuple[str, ...]:
    """Return the names to which a task's reader or queue binds the values of each record."""
    match read:
        case ReadRecords(reader=reader):
            return tuple(field.name for field in reader.fields)
        case ReadQueue(names=names):
            return names
        case None:
            return ()


def source_expressions(reader: Reader) -> tuple[Expr, ...]:
    """Return the expressions in a reader's source: values of blobs, arguments of a class."""
    match reader.source:
        case BlobSource(values=values):
            return tuple(value for _, value in values)
        case CallSource(arguments=arguments):
            return tuple(value for _, value in arguments)
        case ZipSource(readers=readers):
            return tuple(value for zipped in readers for value in source_expressions(zipped))
        case FileSource() | CounterSource():
            return ()
