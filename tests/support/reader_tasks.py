"""Run readers without a session: one task's source, read to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jobrun.graph.expressions import Name
from jobrun.graph.readers import POSITION, BlobSource, Field, Reader, ReadRecords
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.frame import Blobs, Frame
from jobrun.runtime.records.task_reader import ReaderPlan
from tests.support.step_bench import Bench


def blob_reader(**keys: Any) -> Reader:
    """Make a reader of the blob ``X``, which binds ``x``."""
    return Reader("r", BlobSource((("x", Name("X")),)), (Field("x", "x"),), **keys)


class Desk:
    """A task that reads, on a node of its own, with its position in the node's workspace."""

    def __init__(
        self,
        reader: Reader,
        *,
        instances: int = 1,
        part: int = 0,
        parts: int = 1,
        rows: int = 10,
        folder: str = ".",
        changed: str = "",
    ) -> None:
        self.bench = Bench(folder, X=np.arange(rows))
        names = BlockNames(changed=frozenset(changed.split()))
        self.plan = ReaderPlan(ReadRecords(reader, part, parts), instances, names)
        self.reader = reader

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *error: object) -> None:
        self.bench.crew.close()
        self.bench.reaper.close()

    @property
    def node(self) -> Blobs:
        """Return the node's workspace."""
        return self.bench.node

    def position(self, name: str = "r") -> dict[str, int]:
        """Return the position of the first share."""
        row = self.node[f"readers/{name}"][0]
        return dict(zip(POSITION, row.tolist(), strict=True))

    def run(
        self, most: int = 1000, instance: int = 0, between: Callable[[], None] = lambda: None
    ) -> list[Any]:
        """Run the group once: return the values of at most so many records; single ones bare."""
        source = self.plan.source(self.bench.frame)
        frame = self.frame(instance)
        values_of_records: list[Any] = []
        try:
            source.begin(self.bench.frame)
            records = source.connect(frame)
            while len(values_of_records) < most and (record := next(records, None)) is not None:
                number, values = record
                assert number == len(values_of_records)
                values_of_records.append(values[0] if len(values) == 1 else values)
                between()
        finally:
            source.close()
        return values_of_records

    def frame(self, instance: int) -> Frame:
        """Return the frame of an instance."""
        frame = self.bench.frame.at("e/t")
        frame.instance = instance
        return frame


def plain(records: list[Any]) -> list[Any]:
    """Convert records to Python values."""
    return [
        record.tolist() if isinstance(record, np.ndarray | np.generic) else record
        for record in records
    ]
