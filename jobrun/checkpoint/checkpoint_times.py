"""Summarise how long a save, load or upload took, node by node, from the facts of its files."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from msgspec import Struct

from jobrun.checkpoint.store_protocol import StoredFile
from jobrun.core.events import CheckpointTimes, NodeTime

_DIGITS = 6
_SECONDS = attrgetter("seconds")


class NodeSave(Struct, frozen=True):
    """What saving one node came to.

    Attributes:
        file: The file; its seconds are those of writing.
        copy_s: How long copying took of what tasks change in place, all threads together.
        gate_s: How long tasks waited for a copy.
    """

    file: StoredFile
    copy_s: float = 0.0
    gate_s: float = 0.0


class SavePause(Struct, frozen=True):
    """How long the run paused for a save, before the first byte was written.

    Attributes:
        hold_s: To begin the save.
        wait_s: To wait for the save before it.
        in_background: The run continues while it is written.
    """

    hold_s: float = 0.0
    wait_s: float = 0.0
    in_background: bool = False


def build_times(action: str, epoch: int, files: Iterable[StoredFile]) -> CheckpointTimes:
    """Build the event ``CheckpointTimes`` of a save, load or upload from its files' times."""
    nodes = [
        NodeTime(
            file.node,
            file.size_bytes,
            round(file.seconds, _DIGITS),
            _speed(file.size_bytes, file.seconds),
        )
        for file in files
    ]
    return CheckpointTimes(action, epoch, *_summarise(nodes))


def build_save_times(
    epoch: int, saves: Iterable[NodeSave], pause: SavePause, commit_s: float
) -> CheckpointTimes:
    """Build the event ``CheckpointTimes`` of a save, with the times of its phases by node."""
    nodes = [
        NodeTime(
            save.file.node,
            save.file.size_bytes,
            round(save.file.seconds, _DIGITS),
            _speed(save.file.size_bytes, save.file.seconds),
            copy_s=round(save.copy_s, _DIGITS),
            gate_s=round(save.gate_s, _DIGITS),
            sync_s=round(save.file.sync_seconds, _DIGITS),
            written_bytes=save.file.written_bytes,
        )
        for save in saves
    ]
    size_bytes, seconds, speed, slowest, times = _summarise(nodes)
    gate_s = max([node.gate_s for node in nodes], default=0.0)
    stood_s = gate_s if pause.in_background else seconds + commit_s
    return CheckpointTimes(
        "save",
        epoch,
        size_bytes,
        seconds,
        speed,
        slowest,
        times,
        hold_s=round(pause.hold_s, _DIGITS),
        wait_s=round(pause.wait_s, _DIGITS),
        commit_s=round(commit_s, _DIGITS),
        beside=pause.in_background,
        stall_s=round(pause.hold_s + pause.wait_s + stood_s, _DIGITS),
        written_bytes=sum([node.written_bytes for node in nodes]),
    )


def _summarise(nodes: list[NodeTime]) -> tuple[int, float, float, str, tuple[NodeTime, ...]]:
    """Summarise a checkpoint's times by node: all bytes, seconds, speed and the slowest node."""
    size_bytes = sum([node.size_bytes for node in nodes])
    slowest = max(nodes, key=_SECONDS, default=None)
    if slowest is None:
        return 0, 0.0, 0.0, "", ()
    return (
        size_bytes,
        slowest.seconds,
        _speed(size_bytes, slowest.seconds),
        slowest.node,
        tuple(nodes),
    )


def save_phases(times: CheckpointTimes) -> tuple[tuple[str, float], ...]:
    """Split the time that a checkpoint's save took on its slowest node into named phases.

    ``wait`` is for the save before, ``hold`` to begin, ``gate`` what tasks waited for copies,
    ``commit`` from the last file to an epoch that is there to stay.
    """
    node = next((node_time for node_time in times.nodes if node_time.node == times.slowest), None)
    if node is None:
        return ()
    parts = {
        "wait": times.wait_s,
        "hold": times.hold_s,
        "copy": node.copy_s,
        "gate": node.gate_s,
        "write": max(0.0, node.seconds - node.sync_s),
        "fsync": node.sync_s,
        "commit": times.commit_s,
    }
    return tuple(sorted(parts.items(), key=lambda part: -part[1]))


def _speed(size_bytes: int, seconds: float) -> float:
    return round(size_bytes / seconds / 1e6, 3) if seconds > 0 else 0.0
