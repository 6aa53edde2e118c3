"""What a group run may spoil, put aside so that it can start again. Not a checkpoint: in memory."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from jobrun.blobs.values import Value, detach
from jobrun.runtime.workspace import Blobs

Workspaces = Mapping[str, Blobs]


@dataclass(frozen=True, slots=True)
class Kept:
    """The blobs of all nodes, by node and name.

    Attributes:
        blobs: As they were; whatever is changed in place is not in any workspace.
        changed: Per node, the names whose value the group may change in place.
    """

    blobs: Mapping[str, Mapping[str, Value]]
    changed: Mapping[str, Set[str]]


def put_aside(workspaces: Workspaces, changed: Mapping[str, Set[str]]) -> Kept:
    """Keep what is in the workspaces, and let these go on with copies of what may change.

    With copies from the first run on, so that each run starts from values of the same form.
    Values that are only bound anew are shared, since nothing changes them.
    """
    kept = Kept({node: dict(blobs) for node, blobs in workspaces.items()}, changed)
    put_back(kept, workspaces)
    return kept


def put_back(kept: Kept, workspaces: Workspaces) -> None:
    """Make the workspaces what they were, any number of times."""
    for node, blobs in kept.blobs.items():
        spoiled = kept.changed.get(node, frozenset())
        fresh = {
            name: detach(value, name) if name in spoiled else value for name, value in blobs.items()
        }
        workspaces[node].clear()
        workspaces[node].update(fresh)
