"""Read what a run did to a disk, call by call, as the preloaded library recorded it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["created", "written", "cut", "synced", "renamed", "made", "removed", "linked"]
# In the order of ``enum kind`` in ``faults.c``; the first has number 1.
_KINDS: tuple[Kind, ...] = (
    "created", "written", "cut", "synced", "renamed", "made", "removed", "linked",
)  # fmt: skip
# ``struct record`` there.
_HEAD = struct.Struct("<IIIIQQQ")


@dataclass(frozen=True, slots=True)
class Change:
    """One recorded call that changed the disk.

    Attributes:
        kind: ``created``: a file or a link; ``made``: a directory; ``cut``: given another length.
        inode: What it was done to; 0 for what is removed.
        path: Its name, where the call has one; the old one of what is renamed.
        other: The new name; of a link that is created, what it leads to.
        offset: Where ``data`` went, or the new length.
        data: What was written.
    """

    kind: Kind
    inode: int
    path: str = ""
    other: str = ""
    offset: int = 0
    data: bytes = b""


def read_changes(log: Path, within: int | None = None) -> list[Change]:
    """Read the recorded calls of a log, in their order.

    Args:
        log: The file.
        within: Only those that are whole in so many bytes of it; None for all.
    """
    data = log.read_bytes()
    end = len(data) if within is None else within
    changes, at = [], 0
    while at < len(data):
        kind, path, other, _, inode, offset, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        parts = []
        for length in (path, other, size):
            parts.append(data[at : at + length])
            at += length
        assert at <= len(data), "the log is torn"
        if at > end:
            break
        names = (parts[0].decode(), parts[1].decode())
        changes.append(Change(_KINDS[kind - 1], inode, *names, offset, parts[2]))
    return changes
