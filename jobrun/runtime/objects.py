"""Objects in a node's workspace: their state is taken for a save, and put back by a load.

Each object is made by a ``rebuild`` task at every start and stays where it is; only what is in it
comes and goes. What has been put in is taken out again and compared, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from jobrun.blobs import trees
from jobrun.blobs.objects import ObjectState, class_name, put_state
from jobrun.blobs.values import Value, detach, is_object, may_be_whole
from jobrun.checkpoint.parts import captured, differing, taken_apart
from jobrun.core.errors import CheckpointError, TaskFailedError

_MEND = (
    "construct it as it was when it was saved; or fork the run, and name the blobs to take: --blobs"
)


def held_values(
    names: Iterable[str],
    objects: Iterable[str],
    blobs: Mapping[str, Value],
    origins: Iterable[tuple[str, str]] = (),
) -> tuple[dict[str, Value], frozenset[str]]:
    """What a save writes: state blobs, and the states of objects; containers taken apart.

    Shares memory with the blobs, and with what is in the objects.

    Args:
        names: Of the state blobs.
        objects: Of blobs that may be objects.
        blobs: The node's.
        origins: Of some of them the name, and the place of the step that makes it.

    Returns:
        The values by name; and the names of those that are parts of containers and objects.

    Raises:
        TaskFailedError: E241, something cannot be kept; E242, an object that is not made anew.
    """
    values: dict[str, Value] = {name: blobs[name] for name in names}
    objects = [name for name in objects if is_object(blobs[name])]
    # By types: of ten thousand arrays each question counts.
    if not objects and not any(map(may_be_whole, set(map(type, values.values())))):
        return values, frozenset()
    found: dict[str, Value] = {}
    for name in (*values, *objects):
        try:
            found.update(_held(name, blobs[name], is_state=name in values))
        except TaskFailedError as error:
            path = dict(origins).get(name, "")
            raise TaskFailedError(*(replace(one, path=path) for one in error.faults)) from error
    return found, frozenset(found.keys() - values.keys())


def _held(name: str, value: Value, *, is_state: bool) -> Mapping[str, Value]:
    if not is_object(value):
        return taken_apart({name: value})
    if is_state:
        raise TaskFailedError.of(
            "E242",
            f"the state blob '{name}' is an object of class {class_name(value)}, and a resume "
            "would have nothing to load its state into",
            "make it in a task of init with rebuild: true, which runs at every start",
        )
    return taken_apart({name: captured(name, value)})


def take_in(name: str, value: Any, state: ObjectState) -> None:
    """Put a stored state into the object of a blob, exactly.

    Raises:
        CheckpointError: E325, it does not fit, or the object makes something else of it. Where
            that could be told before, the object is as it was.
    """
    if not is_object(value):
        raise _unfit(name, f"is {_what(value)}, and no object")
    before = captured(name, value)
    # A module copies what it is given, and after this takes all of it: no copies for it, which
    # may be most of the memory that there is.
    is_module = hasattr(type(value), "named_parameters")
    if is_module:
        _expect_same_parts(name, before, state)
    undo = None if is_module else _copy(before)
    try:
        put_state(value, state if is_module else _copy(state))
    except Exception as error:
        if undo is not None:
            _put_back(value, undo)
        said = str(error).strip().replace("\n", " ")
        raise _unfit(name, f"does not take it: {type(error).__name__}: {said}") from error
    differs = differing(state, captured(name, value))
    if differs:
        raise _unfit(name, f"makes something else of it: {differs}")


def kept_state(name: str, value: Any) -> ObjectState:
    """A copy of an object's state, for ``give_back``.

    Raises:
        TaskFailedError: E241, it cannot be kept.
    """
    return _copy(captured(name, value))


def give_back(value: Any, state: ObjectState) -> None:
    """Put a kept state into the object that it was taken from; any number of times."""
    put_state(value, _copy(state))


def _expect_same_parts(name: str, own: ObjectState, state: ObjectState) -> None:
    """A module must have the parts that are stored; it would else take in the half of them."""
    ours, theirs = trees.taken_apart(own.tree), trees.taken_apart(state.tree)
    facts = [
        {"/".join(path): _form(leaf) for path, leaf in parts.leaves.items()}
        for parts in (ours, theirs)
    ]
    here, there = facts
    told = [f"'{one}' is in the checkpoint only" for one in there if one not in here]
    told += [f"'{one}' is not in the checkpoint" for one in here if one not in there]
    told += [
        f"'{one}' is {there[one]} in the checkpoint and {here[one]} here"
        for one in here
        if one in there and here[one] != there[one]
    ]
    if told:
        more = f"; and {len(told) - 3} more" if len(told) > 3 else ""
        raise _unfit(name, f"has other parts: {'; '.join(told[:3])}{more}")


def _form(leaf: Value) -> str:
    shape = getattr(leaf, "shape", ())
    return f"{getattr(leaf, 'dtype', type(leaf).__name__)} {' x '.join(map(str, shape))}".strip()


def _unfit(name: str, why: str) -> CheckpointError:
    return CheckpointError.of(
        "E325", f"the state of object '{name}' in the checkpoint is for another one: '{name}' "
        f"{why}", _MEND,
    )  # fmt: skip


def _what(value: Value) -> str:
    return f"a {type(value).__name__}"


def _copy(state: ObjectState) -> ObjectState:
    return ObjectState(state.class_name, detach(state.tree))


def _put_back(value: Any, state: ObjectState) -> None:
    try:
        put_state(value, state)
    except Exception:  # noqa: BLE001 - what is told is why it could not take the stored one
        return
