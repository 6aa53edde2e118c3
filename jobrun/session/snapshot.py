"""What a group run may spoil, put aside so that it can start again. Not a checkpoint: in memory."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from jobrun.blobs.objects import ObjectFacts, ObjectState, class_name
from jobrun.blobs.values import Value, detach, is_object
from jobrun.runtime.objects import give_back, kept_state
from jobrun.runtime.workspace import Blobs

Workspaces = Mapping[str, Blobs]


@dataclass(frozen=True, slots=True)
class Kept:
    """The blobs of all nodes, by node and name.

    Attributes:
        blobs: As they were; whatever is changed in place is not in any workspace.
        changed: Per node, the names whose value the group may change in place.
        states: Per node, copies of the states of objects, of which there is only one.
    """

    blobs: Mapping[str, Mapping[str, Value]]
    changed: Mapping[str, Set[str]]
    states: Mapping[str, Mapping[str, ObjectState]] = field(default_factory=dict)


def put_aside(workspaces: Workspaces, changed: Mapping[str, Set[str]]) -> Kept:
    """Keep what is in the workspaces, and let these go on with copies of what may change.

    With copies from the first run on, so that each run starts from values of the same form.
    Values that are only bound anew are shared, since nothing changes them.
    """
    states = {
        node: {name: kept_state(name, value) for name, value in blobs.items() if is_object(value)}
        for node, blobs in workspaces.items()
    }
    kept = Kept({node: dict(blobs) for node, blobs in workspaces.items()}, changed, states)
    _bind(kept, workspaces)
    return kept


def put_back(kept: Kept, workspaces: Workspaces) -> None:
    """Make the workspaces, and the objects in them, what they were, any number of times."""
    for node, states in kept.states.items():
        for name, state in states.items():
            give_back(kept.blobs[node][name], state)
    _bind(kept, workspaces)


def _bind(kept: Kept, workspaces: Workspaces) -> None:
    for node, blobs in kept.blobs.items():
        spoiled = kept.changed.get(node, frozenset())
        fresh = {
            name: detach(value, name) if name in spoiled and not is_object(value) else value
            for name, value in blobs.items()
        }
        workspaces[node].clear()
        workspaces[node].update(fresh)


def told(value: Value, name: str) -> Value:
    """A copy of a blob's value for whoever looks at it; of an object what it is."""
    return ObjectFacts(class_name(value)) if is_object(value) else detach(value, name)
