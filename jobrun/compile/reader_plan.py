"""The readers of a job as plain data, for ``jobrun plan --json``."""

from __future__ import annotations

from typing import Any

from jobrun.graph.data import Reader
from jobrun.graph.reader_notes import reader_notes, used_readers
from jobrun.graph.types import Job


def readers_json(job: Job) -> list[dict[str, Any]]:
    """Every reader that a task reads, in the order of first use."""
    return [_reader(reader) for reader in used_readers(job)]


def _reader(reader: Reader) -> dict[str, Any]:
    return {
        "name": reader.name,
        "path": reader.path,
        "where": str(reader.origin),
        "fields": {one.name: one.member for one in reader.fields},
        "batch": reader.batch or None,
        "drop_last": reader.drop_last,
        "shuffle": reader.shuffle,
        "restart": reader.restart,
        "limit": reader.limit,
        "time_limit_s": reader.time_limit_s or None,
        "shard": reader.shard,
        "position": reader.position,
        "text": "; ".join(reader_notes(reader)),
    }
