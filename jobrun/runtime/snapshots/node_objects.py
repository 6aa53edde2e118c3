"""Capture the states of Python objects in a node's workspace for a save, and restore them.

Each object is made by a ``rebuild`` task at every start and stays where it is; only what is in it
comes and goes. What has been put in is taken out again and compared, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jobrun.checkpoint.blob_parts import capture_object, flatten_values
from jobrun.core.errors import CheckpointError, TaskFailedError
from jobrun.core.lazy_dataclass import replace
from jobrun.values import container_flattening as trees
from jobrun.values.blob_kinds import Value, is_object, may_be_compound
from jobrun.values.change_detection import ChangeDetector
from jobrun.values.compare import find_difference
from jobrun.values.copies import detach_state
from jobrun.values.object_state import ObjectState, class_name, put_state
from jobrun.values.pytorch import GRADIENTS

if TYPE_CHECKING:
    from jobrun.checkpoint.read.load_into_objects import InPlace

_MEND = (
    "construct it as it was when it was saved; or fork the run, and name the blobs to take: --blobs"
)


def collect_state(
    names: Iterable[str],
    objects: Iterable[str],
    blobs: Mapping[str, Value],
    origins: Iterable[tuple[str, str]] = (),
    detector: ChangeDetector | None = None,
) -> tuple[dict[str, Value], frozenset[str]]:
    """Collect what a node saves: its blobs, and its objects' states as named arrays and values.

    Shares memory with the blobs, and with what is in the objects.

    Args:
        names: Of the state blobs.
        objects: Of blobs that may be objects.
        blobs: The node's.
        origins: Of some of them the name, and the place of the step that makes it.
        detector: Knows what the objects held.

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
    found: dict[str, Value] = {}
    for name in (*values, *objects):
        try:
            found.update(_held(name, blobs[name], is_state=name in values))
            if detector is not None and name not in values:
                detector.require_same(name, blobs[name])
        except TaskFailedError as error:
            path = dict(origins).get(name, "")
            raise TaskFailedError(*(replace(one, path=path) for one in error.faults)) from error
    return found, frozenset(found.keys() - values.keys())


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
    """Load a saved state into a node's object; require that its state now equals the saved one.

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


def _expect_same_parts(name: str, own: ObjectState, state: ObjectState) -> None:
    """Require that a node's object has arrays of the saved state's names, dtypes and shapes."""
    ours, theirs = trees.flatten(own.tree), trees.flatten(state.tree)
    facts = [
        {"/".join(path): _form(leaf) for path, leaf in parts.leaves.items() if path[0] != GRADIENTS}
        for parts in (ours, theirs)
    ]
    here, there = facts
    differences = [f"'{one}' is in the checkpoint only" for one in there if one not in here]
    differences += [f"'{one}' is not in the checkpoint" for one in here if one not in there]
    differences += [
        f"'{one}' is {there[one]} in the checkpoint and {here[one]} here"
        for one in here
        if one in there and here[one] != there[one]
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
