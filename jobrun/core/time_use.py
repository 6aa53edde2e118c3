"""Hold where the wall time of a run went: computing, or waiting for saves, data and nodes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

# Activities of a run whose seconds are measured; see ``TimeUse``.
TimeRow = Literal["computing", "saves", "data", "nodes", "startup", "upload"]
TIME_ROWS: dict[TimeRow, str] = {
    "computing": "computing",
    "saves": "waiting for saves",
    "data": "waiting for data",
    "nodes": "waiting for nodes",
    "startup": "start-up",
    "upload": "upload",
}


class TimeUse(Struct, frozen=True):
    """Where the wall time of a run went, in seconds; the rows add up to it.

    Attributes:
        computing: Everything that is in no other row.
        saves: Waiting for checkpoints: to begin one, for the one before, for copies of the state.
        data: Tasks waiting for records of readers, as far as nothing else ran meanwhile.
        nodes: Nodes waiting for other nodes: for their tasks, blobs, records and replacement.
        startup: From the start of the process to init, or to the first epoch of a resumed run,
            and closing the session.
        upload: Waiting for uploads of checkpoints.
    """

    computing: float = 0.0
    saves: float = 0.0
    data: float = 0.0
    nodes: float = 0.0
    startup: float = 0.0
    upload: float = 0.0

    @property
    def total_s(self) -> float:
        """Return the sum of all seconds in a ``TimeUse``: the wall time of a run."""
        return self.computing + self.saves + self.data + self.nodes + self.startup + self.upload

    def add(self, other: TimeUse) -> TimeUse:
        """Return the sum of two ``TimeUse`` values, activity by activity."""
        return TimeUse(*(getattr(self, row) + getattr(other, row) for row in TIME_ROWS))

    def rows(self) -> list[tuple[str, float]]:
        """List the activities in a ``TimeUse`` with their seconds, longest first."""
        rows = [(label, getattr(self, row)) for row, label in TIME_ROWS.items()]
        return sorted((line for line in rows if line[1] > 0), key=lambda line: -line[1])
