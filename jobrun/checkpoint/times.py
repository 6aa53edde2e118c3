"""How long a checkpoint took, node by node, from the facts about its files. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobrun.checkpoint.store import StoredFile
from jobrun.core.events import CheckpointTimes, NodeTime

_DIGITS = 6


def stored_files(outputs: Mapping[Any, Any]) -> tuple[StoredFile, ...]:
    """The facts about files among the outputs of a group that saved, loaded or copied them."""
    return tuple(value for value in outputs.values() if isinstance(value, StoredFile))


def times_of(action: str, epoch: int, files: Iterable[StoredFile]) -> CheckpointTimes:
    """The times of an action on an epoch's files; of equally slow nodes the first is named."""
    nodes = tuple(
        NodeTime(
            file.node,
            file.size_bytes,
            round(file.seconds, _DIGITS),
            _speed(file.size_bytes, file.seconds),
        )
        for file in files
    )
    size_bytes = sum(node.size_bytes for node in nodes)
    slowest = max(nodes, key=lambda node: node.seconds, default=None)
    seconds = slowest.seconds if slowest else 0.0
    return CheckpointTimes(
        action=action,
        epoch=epoch,
        size_bytes=size_bytes,
        seconds=seconds,
        megabytes_per_s=_speed(size_bytes, seconds),
        slowest=slowest.node if slowest else "",
        nodes=nodes,
    )


def _speed(size_bytes: int, seconds: float) -> float:
    return round(size_bytes / seconds / 1e6, 3) if seconds > 0 else 0.0
