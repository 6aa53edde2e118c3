"""Capture and restore the states of a node's Python objects, and keep what the objects share.

Each object is made by a ``rebuild`` task at every start and stays where it is; only what is in it
comes and goes. What has been put in is taken out again and compared, bit for bit.

New objects are made with what they share: two of them may have one generator, or one the other.
Their states are stored one by one. So sharing outlives a resume where it is made by the rebuild
task, and where loading changes things in place. Both are tried out right after init, only where
something is shared: each object concerned takes in a copy of its own state. From then on nothing
more may come to be shared, and nothing less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from jobrun.checkpoint.blob_parts import capture_object, flatten_values
from jobrun.checkpoint.hdf5.dataset_names import split_part_name
from jobrun.core.errors import CheckpointError, Fault, JobrunError, TaskFailedError
from jobrun.values import container_flattening as trees
from jobrun.values.blob_kinds import Value, is_object, may_be_compound
from jobrun.values.change_detection import ChangeDetector
from jobrun.values.compare import find_difference
from jobrun.values.container_flattening import is_tree
from jobrun.values.copies import NoteRemade, detach_state, ignore_remade, require_remakeable
from jobrun.values.kinds.tensor import GRADIENTS
from jobrun.values.object_state import ObjectState, class_name, put_state
from jobrun.values.overlapping_arrays import Pair, Path, find_overlapping
from jobrun.values.shared_parts import (
    find_shared_parts,
    render_place,
)
from jobrun.values.tree_survey import survey

if TYPE_CHECKING:
    from jobrun.checkpoint.read.load_into_objects import InPlace

_MEND = (
    "construct it as it was when it was saved; or fork the run, and name the blobs to take: --blobs"
)

_SHARING_MEND = (
    "give each its own, made with the same seed if need be; or let load_state_dict() change what "
    "there is in place, where both have it"
)


def collect_state(
    names: Iterable[str],
    objects: Iterable[str],
    blobs: Mapping[str, Value],
    origins: Iterable[tuple[str, str]] = (),
    detector: ChangeDetector | None = None,
    note_remade: NoteRemade = ignore_remade,
) -> tuple[dict[str, Value], frozenset[str]]:
    """Collect what a node saves: its blobs, and its objects' states as named arrays and values.

    Shares memory with the blobs, and with what is in the objects.

    Args:
        names: Of the state blobs.
        objects: Of blobs that may be objects.
        blobs: The node's.
        origins: Of some of them the name, and the place of the step that makes it.
        detector: Knows what the objects held.
        note_remade: As of ``boundary_form``.

    Returns:
        The values by name; and the names of those that are parts of containers and objects.

    Raises:
        TaskFailedError: E241, something cannot be kept; E242, no ``rebuild`` task makes an object;
            E247, an object has changed, and no step says so.
    """
    values: dict[str, Value] = {name: blobs[name] for name in names}
    objects = [name for name in objects if is_object(blobs[name])]
    # By types: of ten thousand arrays each question counts.
    if not objects and not any(map(may_be_compound, set(map(type, values.values())))):
        return values, frozenset()
    parts: dict[str, Value] = {}
    for name in (*values, *objects):
        try:
            if is_tree(blobs[name]) and survey(blobs[name]) is not None:
                # The end of the epoch has passed it by.
                require_remakeable(blobs[name], name, note_remade)
            parts.update(_held(name, blobs[name], is_state=name in values))
            if detector is not None and name not in values:
                detector.require_same(name, blobs[name])
        except TaskFailedError as error:
            path = dict(origins).get(name, "")
            raise TaskFailedError(*(replace(fault, path=path) for fault in error.faults)) from error
    return parts, frozenset(parts.keys() - values.keys())


def _held(name: str, value: Value, *, is_state: bool) -> Mapping[str, Value]:
    if not is_object(value):
        return flatten_values({name: value})
    if is_state:
        raise TaskFailedError.of(
            "E242",
            f"the state blob '{name}' is an object of class {class_name(value)}, and a resume "
            "would have nothing to load its state into",
            "make it in a task of init with rebuild: true, which runs at every start",
        )
    return flatten_values({name: capture_object(name, value)})


def load_object_state(
    name: str, value: Any, state: ObjectState, in_place: InPlace | None = None
) -> None:
    """Load a saved state into a Python object of a node; raise if its state then differs.

    Args:
        name: The blob.
        value: Its object.
        state: What was stored.
        in_place: By this it was loaded, where it may be into the object's memory.

    Raises:
        CheckpointError: E325, it does not fit, or the object makes something else of it. Where
            that was known before, the object is as it was.
    """
    if not is_object(value):
        raise _unfit(name, f"is {_what(value)}, and no object")
    undo, given = None, state
    if not hasattr(type(value), "named_parameters"):
        undo, given = copy_object_state(name, value), _copy(state)
    elif in_place is None or not in_place.holds(name):
        # A module copies what it is given, and after this takes all of it: no copies for it, which
        # may be most of the memory that there is.
        _expect_same_parts(name, capture_object(name, value), state)
    try:
        put_state(value, given)
    except Exception as error:
        if undo is not None:
            _put_back(value, undo)
        said = str(error).strip().replace("\n", " ")
        raise _unfit(name, f"does not take it: {type(error).__name__}: {said}") from error
    require_state_taken(name, value, state, in_place)


def require_state_taken(
    name: str, value: Any, state: ObjectState, in_place: InPlace | None = None
) -> None:
    """Require that a node's object now has the restored state, bit for bit, or refuse it (E325).

    Raises:
        CheckpointError: E325.
    """
    differs = find_difference(state, capture_object(name, value))
    if differs is not None:
        raise _unfit(name, f"makes something else of it: {differs}")
    # Where the two are the same memory, only digests show what has become of it.
    changed = in_place.find_changed(name) if in_place else None
    if changed is not None:
        raise _unfit(name, f"makes something else of it: '{changed}' has other bits")


def copy_object_state(name: str, value: Any) -> ObjectState:
    """Copy the state of a node's object, to be put back by ``restore_object_state``.

    Raises:
        TaskFailedError: E241, it cannot be kept.
    """
    return _copy(capture_object(name, value))


def restore_object_state(value: Any, state: ObjectState) -> None:
    """Restore a node's object from a copied state, which stays unchanged to be used again."""
    put_state(value, _copy(state))


def _expect_same_parts(name: str, captured: ObjectState, state: ObjectState) -> None:
    """Require that a node's object has the arrays of its saved state: names, dtypes, shapes."""
    ours, theirs = trees.flatten(captured.tree), trees.flatten(state.tree)
    facts = [
        {"/".join(path): _form(leaf) for path, leaf in parts.leaves.items() if path[0] != GRADIENTS}
        for parts in (ours, theirs)
    ]
    here, there = facts
    differences = [f"'{part}' is in the checkpoint only" for part in there if part not in here]
    differences += [f"'{part}' is not in the checkpoint" for part in here if part not in there]
    differences += [
        f"'{part}' is {there[part]} in the checkpoint and {here[part]} here"
        for part in here
        if part in there and here[part] != there[part]
    ]
    if differences:
        more = f"; and {len(differences) - 3} more" if len(differences) > 3 else ""
        raise _unfit(name, f"has other parts: {'; '.join(differences[:3])}{more}")


def _form(leaf: Value) -> str:
    shape = getattr(leaf, "shape", ())
    return f"{getattr(leaf, 'dtype', type(leaf).__name__)} {' x '.join(map(str, shape))}".strip()


def _unfit(name: str, why: str) -> CheckpointError:
    return CheckpointError.of(
        "E325",
        f"the state of object '{name}' in the checkpoint does not fit: '{name}' {why}",
        _MEND,
    )


def _what(value: Value) -> str:
    return f"a {type(value).__name__}"


def _copy(state: ObjectState) -> ObjectState:
    return ObjectState(state.class_name, detach_state(state.tree))


def _put_back(value: Any, state: ObjectState) -> None:
    try:
        put_state(value, state)
    except Exception:  # noqa: BLE001 - the first error is reported
        return


class SharedParts(Struct, frozen=True):
    """Parts and arrays that the objects of a node share among themselves, and with other blobs.

    Attributes:
        parts: Generators and objects that two ways lead to.
        arrays: Arrays of their states that overlap with others.
    """

    parts: frozenset[Pair] = frozenset()
    arrays: frozenset[Pair] = frozenset()

    def names(self) -> set[str]:
        """Return the names of a node's blobs that share arrays or objects with another blob."""
        pairs = (*self.parts, *self.arrays)
        return {path[0] for pair in pairs for path in pair}

    def transient(self) -> frozenset[Pair]:
        """Return the pairs of arrays in a node's objects that may come and go.

        Both are of one object, or one is a gradient.
        """
        return frozenset(
            pair for pair in self.arrays if pair[0][0] == pair[1][0] or any(map(_is_gradient, pair))
        )

    def without_transient(self) -> SharedParts:
        """Return the parts that a node's objects share all the time."""
        return SharedParts(self.parts, self.arrays - self.transient())

    def fault(self, path: str = "") -> Fault | None:
        """Build a ``Fault`` for the first part that a node's objects share; None without any."""
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
    """Find arrays and inner objects that a node's objects share with each other or other blobs.

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
        """Refuse a save if a node's objects share parts that would be separate after a resume.

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
            fault = _changed_sharing(found.without_transient(), allowed.without_transient())
            if fault is None and found.transient() - allowed.transient():
                # They come and go: whether loading keeps them shared is tried when they come.
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
        fault = _changed_sharing(after.without_transient(), before.without_transient())
        if fault is not None:
            raise CheckpointError.of("E337", fault.message, fault.mend)
        self._allowed[node] = after


def _changed_sharing(sharing: SharedParts, allowed: SharedParts) -> Fault | None:
    """Return a ``Fault`` if a node's objects share more or fewer parts than before, else None."""
    more = SharedParts(sharing.parts - allowed.parts, sharing.arrays - allowed.arrays).fault()
    if more is not None:
        return replace(more, message=f"{more.message}, and was not when it was made")
    less = SharedParts(allowed.parts - sharing.parts, allowed.arrays - sharing.arrays).fault()
    return less and replace(less, message=f"it was so that {less.message}, and is not any more")


def _unrestored_sharing(sharing: SharedParts, objects: Mapping[str, Any]) -> Fault | None:
    """Return a ``Fault`` if a resume would separate parts shared by a node's objects, else None."""
    fault = sharing.fault()
    if fault is None:
        return None
    concerned = {name: value for name, value in objects.items() if name in sharing.names()}
    why = ""
    try:
        states = {name: copy_object_state(name, value) for name, value in concerned.items()}
        for name, state in states.items():
            load_object_state(name, concerned[name], state)
        # A load makes new values of all others, so nothing of theirs would be shared.
        if sharing.names() <= objects.keys() and find_sharing(objects) == sharing:
            return None
    except JobrunError as error:
        why = f" ({error.faults[0].message})"
    return replace(fault, message=f"{fault.message}, and would not be after a resume{why}")


def _is_gradient(path: Path) -> bool:
    return path[1:2] == (GRADIENTS,)
