"""What a task reads and writes, as its draft holds it. What a name stands for is told elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobrun.compile.faults import Place
from jobrun.graph.data import ReadQueue, ReadRecords, WriteQueue
from jobrun.graph.steps import NOWHERE
from jobrun.graph.types import Task

_NO_PLACE = Place("", NOWHERE)


@dataclass(frozen=True, slots=True)
class Records:
    """What each run of a task's steps begins with, and what is sent on after it.

    Attributes:
        read: Where the records come from; None: the steps run once, or that is not known.
        read_at: The place of ``read``.
        write: What is sent, in the order in which it is.
        write_at: The place of each.
        sent_at: The places of the names in each, by queue and name; as far as they are written.
        is_loop: The steps run once for each record.
    """

    read: ReadRecords | ReadQueue | None = None
    read_at: Place = _NO_PLACE
    write: tuple[WriteQueue, ...] = ()
    write_at: tuple[Place, ...] = ()
    sent_at: Mapping[tuple[str, str], Place] = field(default_factory=dict)
    is_loop: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The names that each record binds."""
        match self.read:
            case ReadRecords(reader=reader):
                return tuple(field.name for field in reader.fields)
            case ReadQueue(names=names):
                return names
            case None:
                return ()

    @property
    def are_unknown(self) -> bool:
        """Whether records bind names that nobody can tell, because of a fault told elsewhere."""
        return self.is_loop and not self.fields

    def names(self) -> set[str]:
        """All names that are bound by records or sent in one."""
        return {*self.fields, *(name for one in self.write for name in one.names)}


NO_RECORDS = Records()


def records_of(task: Task) -> Records:
    """What a task that was built by hand reads and writes."""
    return Records(
        task.read,
        Place(f"{task.path}/read", task.origin),
        task.write,
        tuple(Place(f"{task.path}/write.{one.queue.name}", task.origin) for one in task.write),
        is_loop=task.read is not None,
    )
