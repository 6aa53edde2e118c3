"""What a user may rely on at each moment of a recorded run. From the calls alone, not the disk."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from tests.support.recorder import Change

JOURNAL, EVENTS = "committed.jsonl", "events.jsonl"


@dataclass(frozen=True)
class Promise:
    """Which epochs must be there after a power cut, and how.

    Attributes:
        kept: Each must be in its place, whole.
        over: The run went back behind them: each must be somewhere, whole.
        damaged: Each was damaged from outside: it must be somewhere, as it was.
    """

    kept: frozenset[int] = frozenset()
    over: frozenset[int] = frozenset()
    damaged: frozenset[int] = frozenset()


NOTHING = Promise()


class Promises:
    """Follows a run.

    An epoch is promised when its line in the journal has been synced, or when the run tells of it
    (its event is written), whichever comes first. A step back takes effect when its line begins to
    be written: from then on either is right.

    Args:
        begun: What holds before the first call.
        newest: How many of the newest epochs retention keeps; and epoch 0.
    """

    def __init__(self, begun: Promise, newest: int) -> None:
        self.now = begun
        self._newest = newest
        self._waiting: list[int] = []

    def see(self, change: Change, name: str) -> None:
        """Take a call into account.

        Args:
            change: The call.
            name: Of the file that it is about.
        """
        if name == JOURNAL and change.kind == "synced":
            for epoch in self._waiting:
                self._promise(epoch)
            self._waiting.clear()
        elif change.kind == "written" and name in {JOURNAL, EVENTS}:
            for line in change.data.splitlines():
                self._read(json.loads(line))

    def _read(self, entry: dict[str, object]) -> None:
        kind, epoch = entry.get("kind"), entry.get("epoch")
        assert isinstance(epoch, int | None)
        if kind == "rewind" and epoch is not None:
            gone = frozenset(one for one in self.now.kept if one > epoch)
            self.now = replace(
                self.now,
                kept=self.now.kept - gone,
                over=(self.now.over | gone) - self.now.damaged,
            )
        elif kind == "epoch" and epoch is not None:
            self._waiting.append(epoch)
        elif entry.get("event") == "CheckpointCommitted" and epoch is not None:
            self._promise(epoch)

    def _promise(self, epoch: int) -> None:
        newest = sorted({*self.now.kept, epoch} - {0})[-self._newest :]
        known = ({0} & {*self.now.kept, epoch}) | set(newest)
        self.now = replace(self.now, kept=frozenset(known))
