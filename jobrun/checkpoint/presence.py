"""Whether a node's part of an epoch is there, and whether it is as it was written. Only reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobrun.checkpoint.plainfile import open_plain
from jobrun.checkpoint.store import CheckpointStore, StoredFile
from jobrun.checkpoint.verifying import verified_pieces
from jobrun.core.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Presence:
    """How it stands with one node's file of an epoch.

    Attributes:
        state: ``absent``; ``present``: there, with the right length; ``verified``: every byte
            was compared; ``damaged``: there, or promised by the manifest, but of no use.
        reason: Of a damaged or absent one, in words.
    """

    node: str
    state: Literal["absent", "present", "verified", "damaged"]
    reason: str = ""

    @property
    def there(self) -> bool:
        """It can be used, as far as it was looked at."""
        return self.state in {"present", "verified"}


def exists(
    store: CheckpointStore, epoch: int, nodes: Iterable[str], *, verified: bool = False
) -> dict[str, Presence]:
    """Whether an epoch of a store has the state of each of the nodes. Never raises for absence.

    Args:
        store: The store.
        epoch: The epoch.
        nodes: The nodes asked about, in the order of the answer.
        verified: Compare every byte with the manifest, rather than only lengths.
    """
    wanted = tuple(nodes)
    if epoch not in store.epochs():
        why = f"there is no epoch {epoch}"
        return {node: Presence(node, "absent", why) for node in wanted}
    try:
        files = {file.node: file for file in store.manifest(epoch).files}
    except CheckpointError as error:
        why = error.faults[0].message
        return {node: Presence(node, "damaged", why) for node in wanted}
    found: dict[str, Presence] = {}
    for node in wanted:
        if node not in files:
            found[node] = Presence(node, "absent", f"epoch {epoch} has no file of node '{node}'")
            continue
        reason = damage_of(store.path(epoch), files[node], whole=verified)
        state: Literal["verified", "present"] = "verified" if verified else "present"
        found[node] = Presence(node, "damaged" if reason else state, reason)
    return found


def damage_of(directory: str, file: StoredFile, *, whole: bool) -> str:
    """Why a file of an epoch's directory is not what its manifest tells of; empty if it is.

    Args:
        directory: Where it should be.
        file: What the manifest says.
        whole: Compare the digest too, not only the length.
    """
    path = str(Path(directory, file.name))
    try:
        with open_plain(path) as (_, length):
            if length != file.size_bytes:
                return f"{file.name} has {length} bytes, expected {file.size_bytes}"
        if whole:
            for _ in verified_pieces(path, file.digest):
                pass
    except CheckpointError as error:
        return error.faults[0].message
    return ""
