"""Readers run without a session: one task's source, read to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jobrun.graph.data import POSITION, BlobSource, Field, Reader, ReadRecords
from jobrun.graph.expr import Name
from jobrun.runtime.frame import Frame
from jobrun.runtime.reading import ReaderPlan
from jobrun.runtime.usage import BlockNames
from jobrun.runtime.workspace import Blobs
from tests.support.running import Bench


def blob_reader(**keys: Any) -> Reader:
    """A reader of the blob ``X``, which binds ``x``."""
    return Reader("r", BlobSource((("x", Name("X")),)), (Field("x", "x"),), **keys)


class Desk:
    """A task that reads, on a node of its own, with its position in the node's workspace."""

    def __init__(self, reader: Reader, *, instances: int = 1, part: int = 0, parts: int = 1,
                 rows: int = 10, folder: str = ".", changed: str = "") -> None:  # fmt: skip
        self.bench = Bench(folder, X=np.arange(rows))
        names = BlockNames(changed=frozenset(changed.split()))
        self.plan = ReaderPlan(ReadRecords(reader, part, parts), instances, names)
        self.reader = reader

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *error: object) -> None:
        self.bench.crew.close()
        self.bench.leash.close()

    @property
    def node(self) -> Blobs:
        """The node's workspace."""
        return self.bench.node

    def position(self, name: str = "r") -> dict[str, int]:
        """The position of the first share."""
        row = self.node[f"readers/{name}"][0]
        return dict(zip(POSITION, row.tolist(), strict=True))

    def run(self, most: int = 1000, instance: int = 0,
            between: Callable[[], None] = lambda: None) -> list[Any]:  # fmt: skip
        """One run of the group: the values of each record, at most so many; single ones bare."""
        source = self.plan.source(self.bench.frame)
        frame = self.frame(instance)
        found: list[Any] = []
        try:
            source.begin(self.bench.frame)
            while len(found) < most and (record := source.read(frame)) is not None:
                number, values = record
                assert number == len(found)
                found.append(values[0] if len(values) == 1 else values)
                between()
        finally:
            source.close()
        return found

    def frame(self, instance: int) -> Frame:
        """The view of an instance."""
        frame = self.bench.frame.at("e/t")
        frame.instance = instance
        return frame


def plain(records: list[Any]) -> list[Any]:
    """Records as Python values."""
    return [one.tolist() if isinstance(one, np.ndarray | np.generic) else one for one in records]
