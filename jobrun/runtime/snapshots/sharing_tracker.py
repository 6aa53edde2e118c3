"""Find what objects of a node share, keep it through a checkpoint and resume, or refuse it.

A ``rebuild`` task makes new objects at every start, with what they share: two of them may have one
generator, or one the other. Their states are stored one by one. So sharing outlives a resume where
it is made by the rebuild task, and where loading changes things in place. Both are tried out right
after init, only where something is shared: each object concerned takes in a copy of its own state.
From then on nothing more may come to be shared, and nothing less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobrun.checkpoint.blob_parts import capture_object, flatten_values
from jobrun.checkpoint.hdf5.dataset_names import split_part_name
from jobrun.core.errors import CheckpointError, Fault, JobrunError, TaskFailedError
from jobrun.core.lazy_dataclass import dataclass, replace
from jobrun.runtime.snapshots.node_objects import copy_object_state, load_object_state
from jobrun.values.blob_kinds import Value
from jobrun.values.pytorch import GRADIENTS
from jobrun.values.shared_parts import (
    Pair,
    Path,
    find_overlapping,
    find_shared_parts,
    render_place,
)

_SHARING_MEND = (
    "give each its own, made with the same seed if need be; or let load_state_dict() change what "
    "there is in place, where both have it"
)


@dataclass(frozen=True, slots=True)
class SharedParts:
    """Parts and arrays that the objects of a node share among themselves, and with other blobs.

    Attributes:
        parts: Generators and objects that two ways lead to.
        arrays: Arrays of their states that overlap with others.
    """

    parts: frozenset[Pair] = frozenset()
    arrays: frozenset[Pair] = frozenset()

    def names(self) -> set[str]:
        """Return the names of blobs found to share parts or array memory with another blob."""
        pairs = (*self.parts, *self.arrays)
        return {one[0] for pair in pairs for one in pair}

    def gradients(self) -> frozenset[Pair]:
        """Return the pairs of arrays that objects of a node share, one of them a gradient."""
        return frozenset(pair for pair in self.arrays if any(map(_is_gradient, pair)))

    def without_gradients(self) -> SharedParts:
        """Return what objects of a node share, without the arrays that are gradients."""
        return SharedParts(self.parts, self.arrays - self.gradients())

    def fault(self, path: str = "") -> Fault | None:
        """Build a fault for the first part that two objects share; None if they share nothing."""
        for first, second in sorted(self.parts):
            ours, other = (second, first) if len(first) == 1 else (first, second)
            text = f"{render_place(ours)} is the object {render_place(other)}"
            return Fault("E256", text, _SHARING_MEND, path=path)
        for first, second in sorted(self.arrays):
            text = f"{render_place(second)} shares memory with {render_place(first)}"
            return Fault("E257", text, _SHARING_MEND, path=path)
        return None


def find_sharing(
    objects: Mapping[str, Any], values: Mapping[str, Value] | None = None
) -> SharedParts:
    """Find which parts and memory the objects of a node share, with each other or other blobs.

    Args:
        objects: The node's, by name.
        values: Their states, taken apart, and other values that they may share memory with; of the
            objects alone if None.

    Raises:
        TaskFailedError: E241, an object does not give a state that can be kept.
    """
    if values is None:
        states = flatten_values({name: capture_object(name, one) for name, one in objects.items()})
    else:
        states = values
    arrays = {split_part_name(name): one for name, one in states.items()}
    parts, held = find_shared_parts(objects)
    pairs = find_overlapping(arrays, held)
    return SharedParts(
        frozenset(parts),
        # Other blobs are each their own.
        frozenset(pair for pair in pairs if any(place[0] in objects for place in pair)),
    )


class SharingTracker:
    """Tracks what the objects of each node of one process may share."""

    def __init__(self) -> None:
        self._allowed: dict[str, SharedParts] = {}

    def require_kept(
        self,
        node: str,
        objects: Mapping[str, Any],
        values: Mapping[str, Value],
        origins: Iterable[tuple[str, str]] = (),
    ) -> bool:
        """Refuse a save if objects share parts now that they would not share after a resume.

        Args:
            node: Whose they are.
            objects: By name.
            values: What the save writes, taken apart.
            origins: Of some blobs the name, and the place of the step that makes it.

        Returns:
            Whether objects have taken in their states, as they would after a resume.

        Raises:
            TaskFailedError: E256, of a generator or an object that two ways lead to; E257, of
                memory.
        """
        found = find_sharing(objects, values)
        tried = False
        allowed = self._allowed.get(node)
        if allowed is None:
            fault = _unrestored_sharing(found, objects)
            self._allowed[node] = found
        else:
            fault = _changed_sharing(found.without_gradients(), allowed.without_gradients())
            if fault is None and found.gradients() - allowed.gradients():
                # Gradients come and go: whether loading keeps them shared is tried when they come.
                fault = _unrestored_sharing(found, objects)
                self._allowed[node] = found
                tried = True
        if fault is not None:
            names = found.names() | (allowed or found).names()
            paths = (path for name, path in origins if name in names)
            raise TaskFailedError(replace(fault, path=next(paths, "")))
        return tried or (allowed is None and found != SharedParts())

    def require_same_sharing(
        self, node: str, before: SharedParts, objects: Mapping[str, Any]
    ) -> None:
        """Refuse a ``load`` step that changes which parts a node's objects share.

        Raises:
            CheckpointError: E337.
        """
        after = find_sharing(objects)
        fault = _changed_sharing(after.without_gradients(), before.without_gradients())
        if fault is not None:
            raise CheckpointError.of("E337", fault.message, fault.mend)
        self._allowed[node] = after


def _changed_sharing(found: SharedParts, allowed: SharedParts) -> Fault | None:
    """Return a fault if objects share more or fewer parts than ``allowed`` lists, else None."""
    more = SharedParts(found.parts - allowed.parts, found.arrays - allowed.arrays).fault()
    if more is not None:
        return replace(more, message=f"{more.message}, and was not when it was made")
    less = SharedParts(allowed.parts - found.parts, allowed.arrays - found.arrays).fault()
    return less and replace(less, message=f"it was so that {less.message}, and is not any more")


def _unrestored_sharing(found: SharedParts, objects: Mapping[str, Any]) -> Fault | None:
    """Return a fault if parts that objects share would be separate after a resume, else None."""
    fault = found.fault()
    if fault is None:
        return None
    concerned = {name: one for name, one in objects.items() if name in found.names()}
    why = ""
    try:
        states = {name: copy_object_state(name, one) for name, one in concerned.items()}
        for name, state in states.items():
            load_object_state(name, concerned[name], state)
        # A load makes new values of all others, so nothing of theirs would be shared.
        if found.names() <= objects.keys() and find_sharing(objects) == found:
            return None
    except JobrunError as error:
        why = f" ({error.faults[0].message})"
    return replace(fault, message=f"{fault.message}, and would not be after a resume{why}")


def _is_gradient(place: Path) -> bool:
    return place[1:2] == (GRADIENTS,)
