"""Define safe points, the state of a group run between two records, and their hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from jobrun.values.blob_kinds import Value


class SafePoint(Struct, frozen=True):
    """The state of a group run between two records.

    Attributes:
        records: How many the task has got in this run.
        cursors: For each reader without parts, the records and the rows it gave in this run.
        blobs: The values of the workspaces ``t``, ``g`` and ``n`` by name, in boundary form; what
            two letters share is under the later one.
        streams: By place, the state of its generator, as numpy gives it.
        settings: Those of libraries that callables have made.
    """

    records: int
    cursors: tuple[tuple[int, int], ...]
    blobs: Mapping[str, Mapping[str, Value]]
    streams: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)


class SafePointHooks(Struct, frozen=True):
    """What a session does at which safe points of a group run.

    Attributes:
        every: After each such number of records; 0 for never.
        reached: Called there, in the task's thread; False when the run is to end there.
        entry: Where the run is entered, instead of at its beginning: set-up has run already.
    """

    every: int
    reached: Callable[[SafePoint], bool]
    entry: SafePoint | None = None
