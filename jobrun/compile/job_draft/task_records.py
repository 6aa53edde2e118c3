"""Define the draft of the records that a task reads and writes, with places for messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from jobrun.compile.faults import Place
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.effects import NOWHERE
from jobrun.graph.readers import ReadQueue, ReadRecords, WriteQueue

_NO_PLACE = Place("", NOWHERE)


@dataclass(frozen=True, slots=True)
class Records:
    """The records for which a task's steps run, and those that each run sends.

    Attributes:
        read: The source of the records; None: the steps run once, or it is not known.
        read_at: The place of ``read``.
        write: What is sent, in the order of sending.
        write_at: The place of each.
        sent_at: The places of the names in each, by queue and name, where known.
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
        """Return the names of the fields of each record that a task reads."""
        match self.read:
            case ReadRecords(reader=reader):
                return tuple(field.name for field in reader.fields)
            case ReadQueue(names=names):
                return names
            case None:
                return ()

    @property
    def are_unknown(self) -> bool:
        """Return whether the fields of the records read are unknown, as the reader is invalid."""
        return self.is_loop and not self.fields

    def names(self) -> set[str]:
        """Return the names of all fields of the records read, and of all blobs sent."""
        return {*self.fields, *(name for one in self.write for name in one.names)}


NO_RECORDS = Records()
