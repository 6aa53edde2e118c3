"""Where records come from and go to: readers, their sources, and queues. Frozen values.

A task that reads runs its steps once per record; a record is a value for each of some names,
the *fields*. A reader belongs to one task's node: its position is a state blob there, so that
a resumed run goes on with the record it would have seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jobrun.core.origin import Origin
from jobrun.graph.expr import Expr, Text
from jobrun.graph.steps import NOWHERE

# What a row of the state blob of a reader's position holds, as int64. There is one row for each
# share of the data that the node gives out: one, or one for each instance. Where a pass was
# divided anew, further rows tell which places of it the shares have (``runtime.standing``).
POSITION: tuple[str, ...] = (
    "passes",  # begun so far
    "records",  # given out in the pass
    "rows",  # of the share that these took
    "finished",  # 1 when the last run of the group found no more
    "part",  # which share of the data
    "parts",  # of how many
    "length",  # rows of the whole; -1 when the source does not tell
)

POSITION_PREFIX = "readers/"


@dataclass(frozen=True, slots=True)
class Field:
    """A name that each record binds, and what it is called at the source.

    ``member`` is empty where the source has a single member without a name.
    """

    name: str
    member: str


@dataclass(frozen=True, slots=True)
class FileSource:
    """Rows of a data file: the members' first axis.

    Attributes:
        folder: That of the spec which says so, relative to the job's; empty for the job's own.
    """

    format: Literal["npy", "npz", "hdf5", "csv", "parquet"]
    path: Text
    folder: str = ""


@dataclass(frozen=True, slots=True)
class BlobSource:
    """Rows of blobs that live on the node: the values' first axis, as they are at the start."""

    values: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class CounterSource:
    """``start``, ``start + step``, … before ``stop``; without one it never ends."""

    start: int = 0
    stop: int | None = None
    step: int = 1


@dataclass(frozen=True, slots=True)
class CallSource:
    """A class of the user's, ``package.module:Class``, made with ``arguments`` for each pass.

    Its objects can be iterated over, row by row, or have ``read(n)``, which gives up to ``n``
    rows at once and none at the end. With ``seek(n)`` a resumed run need not read the rows
    before.

    Attributes:
        folder: As that of a ``FileSource``.
    """

    target: str
    arguments: tuple[tuple[str, Expr], ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True)
class ZipSource:
    """Records side by side, one of each reader; it ends with the shortest and drops no row."""

    readers: tuple[Reader, ...]


Source = FileSource | BlobSource | CounterSource | CallSource | ZipSource


@dataclass(frozen=True, slots=True)
class Reader:
    """A source, and in what portions and order its rows are given out.

    Attributes:
        fields: What each record binds, in the order of its values.
        batch: Rows of one record, stacked along a first axis; 0: one row, without that axis.
        drop_last: A last batch of fewer rows is not given out.
        shuffle: Rows come in an order that is a function of (seed, pass over the data).
        restart: ``epoch``: each run of the group starts a new pass; ``never``: it goes on
            where the last one ended.
        limit: Records per run of the group and node, over all instances; None for no limit.
            Where each instance has its share of the rows, it has its share of these too.
        time_limit_s: No record is begun after so many seconds of a run; 0 for no limit.
        delay_s: Wait before each record; for tests and demonstrations.
        shard: Who gets a part of the rows of his own: each node, each instance, or nobody.
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
    origin: Origin = field(default=NOWHERE, compare=False)

    @property
    def position(self) -> str:
        """The name of the state blob that holds the position."""
        return f"{POSITION_PREFIX}{self.name}"


@dataclass(frozen=True, slots=True)
class Queue:
    """A bounded line of records between tasks of one group.

    Attributes:
        capacity: How many records wait in it before a writer has to.
        shared: One for all nodes of the group, instead of one per node.
        ordered: Records leave in the order in which their inputs were taken, though several
            instances work on them.
        batch: So many records are read as one, joined along their first axis; 0: one at a time,
            as they were sent.
    """

    name: str
    capacity: int = 100
    shared: bool = False
    ordered: bool = False
    batch: int = 0
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


def record_path(task: str) -> str:
    """The path of the block that one record of a task runs: the one that its ``stop`` leaves."""
    return f"{task}/record"


def readers_in(reader: Reader) -> tuple[Reader, ...]:
    """The reader, and all that it reads side by side: whoever has a position."""
    found = [reader]
    if isinstance(reader.source, ZipSource):
        for one in reader.source.readers:
            found += readers_in(one)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """``read: reader``.

    Attributes:
        part: Which of ``parts`` equal shares of the rows this task's node gets.
    """

    reader: Reader
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class ReadQueue:
    """``read: queue``: binds ``names`` in the order in which the writers send them."""

    queue: Queue
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteQueue:
    """``write: {queue: [names]}``: sends the blobs of those names, as one record."""

    queue: Queue
    names: tuple[str, ...]
