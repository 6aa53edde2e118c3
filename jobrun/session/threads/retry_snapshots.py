"""Take snapshots of workspaces before a group run in threads; restore them for a retry."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from msgspec import Struct, field

from jobrun.runtime.context.context_variables import Variables
from jobrun.runtime.context.frame import Blobs
from jobrun.runtime.snapshots.node_objects import copy_object_state, restore_object_state
from jobrun.values.blob_kinds import Value, is_object
from jobrun.values.container_flattening import is_tree
from jobrun.values.copies import detach
from jobrun.values.object_state import ObjectState

Workspaces = Mapping[str, Blobs]


class WorkspaceSnapshot(Struct, frozen=True):
    """The blobs of all nodes of this process, by node and name.

    Attributes:
        blobs: As they were; whatever is changed in place is not in any workspace.
        changed: Per node, the names whose value the group may change in place.
        states: Per node, copies of the states of objects, of which there is only one.
        settings: Those of libraries that callables have made.
        variables: Context variables that all calls see.
    """

    blobs: Mapping[str, Mapping[str, Value]]
    changed: Mapping[str, Set[str]]
    states: Mapping[str, Mapping[str, ObjectState]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    variables: Variables = field(default_factory=dict)


def take_snapshot(workspaces: Workspaces, changed: Mapping[str, Set[str]]) -> WorkspaceSnapshot:
    """Return a snapshot of all nodes' blobs, to restore them when a group run is retried.

    With copies from the first run on, so that each run starts from values of the same form.
    Arrays that are only rebound are shared, since nothing changes them. Containers are not: a
    callable may have changed one that it was lent itself, before it raised.
    """
    states = {
        node: {
            name: copy_object_state(name, value)
            for name, value in blobs.items()
            if is_object(value)
        }
        for node, blobs in workspaces.items()
    }
    snapshot = WorkspaceSnapshot(
        {node: dict(blobs) for node, blobs in workspaces.items()}, changed, states
    )
    _bind_copies(snapshot, workspaces)
    return snapshot


def restore_snapshot(snapshot: WorkspaceSnapshot, workspaces: Workspaces) -> None:
    """Restore the blobs of all nodes from a snapshot, to retry a group run.

    May be called repeatedly.
    """
    for node, states in snapshot.states.items():
        for name, state in states.items():
            restore_object_state(snapshot.blobs[node][name], state)
    _bind_copies(snapshot, workspaces)


def _bind_copies(snapshot: WorkspaceSnapshot, workspaces: Workspaces) -> None:
    for node, blobs in snapshot.blobs.items():
        spoiled = snapshot.changed.get(node, frozenset())
        fresh = {
            name: detach(value, name)
            if (name in spoiled or is_tree(value)) and not is_object(value)
            else value
            for name, value in blobs.items()
        }
        workspaces[node].clear()
        workspaces[node].update(fresh)
