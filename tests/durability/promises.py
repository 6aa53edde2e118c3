"""What a user may rely on at each moment of a recorded run. From the calls alone, not the disk."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from tests.support.call_recorder import Change

JOURNAL, EVENTS = "committed.jsonl", "events.jsonl"
_BEFORE = (-1, 0)
_COPY = re.compile(r"/copies/.*/epoch-(\d+)$")


@dataclass(frozen=True)
class Promise:
    """Which epochs must be there after a power cut, and how.

    Attributes:
        whole: Each must be in its place, whole.
        over: The run went back behind them: each must be somewhere, whole.
        damaged: Each was damaged from outside: it must be somewhere, as it was.
        copied: Each must be where copies go, whole.
        within: The epoch in which the run was saved last, and after how many of its records: a
            run must go on from there, or from later.
    """

    whole: frozenset[int] = frozenset()
    over: frozenset[int] = frozenset()
    damaged: frozenset[int] = frozenset()
    copied: frozenset[int] = frozenset()
    within: tuple[int, int] = (-1, 0)


NOTHING = Promise()


class Promises:
    """Follows a run.

    An epoch is promised when its line in the journal has been synced, or when the run tells of it
    (its event is written), whichever comes first; a copy when the run tells of it, and all copies
    when the run says that it has finished. A step back takes effect when its line begins to be
    written: from then on either is right.

    Args:
        begun: What holds before the first call.
        newest: How many of the newest epochs retention keeps; and epoch 0.
    """

    def __init__(self, begun: Promise, newest: int) -> None:
        self.now = begun
        self._newest = newest
        self._waiting: list[tuple[int, int]] = []
        self._copies: set[int] = set()
        self._unfinished: dict[str, bytes] = {}

    def see(self, change: Change, name: str) -> None:
        """Take a call into account.

        Args:
            change: The call.
            name: Of the file that it is about.
        """
        if name == JOURNAL and change.kind == "synced":
            for epoch, records in self._waiting:
                self._promise(epoch, records)
            self._waiting.clear()
        elif change.kind == "renamed" and (copy := _COPY.search(change.other)):
            self._copies.add(int(copy[1]))
        elif change.kind == "written" and name in {JOURNAL, EVENTS}:
            # A file system that is shut down may write the beginning of a line only.
            *lines, unfinished = (self._unfinished.pop(name, b"") + change.data).split(b"\n")
            if unfinished:
                self._unfinished[name] = unfinished
            for line in lines:
                self._read(json.loads(line))

    def _read(self, entry: dict[str, object]) -> None:
        kind, epoch = entry.get("kind"), entry.get("epoch")
        assert isinstance(epoch, int | None)
        if kind == "rewind" and epoch is not None:
            gone = frozenset(promised for promised in self.now.whole if promised > epoch)
            self.now = replace(
                self.now,
                whole=self.now.whole - gone,
                over=(self.now.over | gone) - self.now.damaged,
                within=_BEFORE if self.now.within[0] > epoch else self.now.within,
            )
        elif kind in {"epoch", "records"} and epoch is not None:
            self._waiting.append((epoch, _number(entry.get("records"))))
        elif epoch is not None:
            self._tell(entry, epoch)

    def _tell(self, entry: dict[str, object], epoch: int) -> None:
        match entry.get("event"):
            case "CheckpointCommitted":
                self._promise(epoch)
            case "CheckpointWithin":
                self._promise(epoch, _number(entry.get("records")))
            case "CheckpointTimes" if entry.get("action") == "upload":
                self.now = replace(self.now, copied=self.now.copied | {epoch})
            case "RunEnded" if entry.get("outcome") == "finished":
                self.now = replace(self.now, copied=self.now.copied | self._copies)

    def _promise(self, epoch: int, records: int = 0) -> None:
        if records:
            self.now = replace(self.now, within=max(self.now.within, (epoch, records)))
            return
        newest = sorted({*self.now.whole, epoch} - {0})[-self._newest :]
        known = ({0} & {*self.now.whole, epoch}) | set(newest)
        within = _BEFORE if self.now.within[0] <= epoch else self.now.within
        self.now = replace(self.now, whole=frozenset(known), within=within)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
