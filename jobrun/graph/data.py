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


@dataclass(frozen=True, slots=True)
class Field:
    """A name that each record binds, and what it is called at the source."""

    name: str
    member: str


@dataclass(frozen=True, slots=True)
class FileSource:
    """Rows of a data file: the members' first axis."""

    format: Literal["npy", "npz", "hdf5", "csv", "parquet"]
    path: Text


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
    """A class of the user's, ``package.module:Class``, made with ``arguments``."""

    target: str
    arguments: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class ZipSource:
    """Records side by side, one of each reader; it ends with the shortest and drops no row."""

    readers: tuple[Reader, ...]


Source = FileSource | BlobSource | CounterSource | CallSource | ZipSource


@dataclass(frozen=True, slots=True)
class Reader:
    """A source, and in what portions and order its rows are given out.

    Attributes:
        fields: What each record binds; empty: all that the source has, by their own names.
        batch: Rows of one record, stacked along a first axis; 0: one row, without that axis.
        drop_last: A last batch of fewer rows is not given out.
        shuffle: Rows come in an order that is a function of (seed, pass over the data).
        restart: ``epoch``: each run of the group starts a new pass; ``never``: it goes on
            where the last one ended.
        limit: Records per run of the group, over all instances; None for no limit.
        time_limit_s: No record is begun after so many seconds of a run; 0 for no limit.
        delay_s: Wait before each record; for tests and demonstrations.
        shard: Who gets a part of the rows of his own: each node, each instance, or nobody.
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
        return f"readers/{self.name}"


@dataclass(frozen=True, slots=True)
class Queue:
    """A bounded line of records between tasks of one group.

    Attributes:
        capacity: How many records wait in it before a writer has to.
        shared: One for all nodes of the group, instead of one per node.
        ordered: Records leave in the order in which their inputs were taken, though several
            instances work on them.
    """

    name: str
    capacity: int = 100
    shared: bool = False
    ordered: bool = False
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


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
