"""Execute the steps that write, read and copy checkpoint files of a node's state, also divided.

No spec can hold them: the plans of the checkpoint layer make them, and a session runs them
where the node lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from jobrun.checkpoint.blob_parts import capture_object
from jobrun.checkpoint.read.safe_file import open_regular_file
from jobrun.checkpoint.store_protocol import StoredFile
from jobrun.checkpoint.stores.epoch_copy import copy_file, publish_copy
from jobrun.checkpoint.stores.object_references import local_path
from jobrun.core.interpreter import lazy_module
from jobrun.graph.steps import (
    STATE_DIRS,
    AdoptState,
    CopyState,
    FilePart,
    LoadState,
    PublishCopy,
    Rows,
    SaveState,
)
from jobrun.runtime.callables.user_modules import load_callable
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.snapshots.node_objects import (
    find_sharing,
    load_object_state,
    require_state_taken,
)
from jobrun.values.axis_order import axis_order, dense_copy, empty_in_order
from jobrun.values.blob_kinds import Value, is_object
from jobrun.values.container_flattening import is_tree, unbound_class_error, unbound_classes
from jobrun.values.copies import detach
from jobrun.values.object_state import ObjectState

if TYPE_CHECKING:
    from jobrun.checkpoint import checkpoint_file
    from jobrun.checkpoint.read import load_into_objects
else:
    checkpoint_file = lazy_module("jobrun.checkpoint.checkpoint_file")
    load_into_objects = lazy_module("jobrun.checkpoint.read.load_into_objects")

StateStep = SaveState | LoadState | AdoptState | CopyState | PublishCopy


def state_action(step: StateStep, _names: object, _getter: object) -> Callable[[Frame], None]:
    """Build the function of a step that saves, loads or copies a node's checkpoint file."""
    match step:
        case SaveState():
            return lambda frame: _save(step, frame)
        case LoadState():
            return lambda frame: _load(step, frame)
        case AdoptState():
            return lambda frame: _adopt(step, frame)
        case CopyState():
            return lambda frame: _copy(step, frame)
        case PublishCopy():
            return lambda _: publish_copy(step.directory, step.staged, step.target)


def _save(step: SaveState, frame: Frame) -> None:
    settings = frame.run.settings.capture()
    frame.results["ticket"] = frame.run.snapshots.begin(
        step, frame.node.name, frame.epoch, frame.n, settings
    )


def _load(step: LoadState, frame: Frame) -> None:
    started = time.perf_counter()
    node = frame.node.name
    # Before the values are made: settings of JAX limit the dtypes of its arrays.
    _restore_settings(step, frame)
    parts = read_parts(_open_parts(step.parts, frame), step.epoch, step.run_id)
    in_place = _objects_in_place(step, frame)
    # Read last, since its values may be loaded directly into objects.
    values, size_bytes = _read(step, frame, in_place) if step.file else ({}, 0)
    values = _resolve_classes(values | parts, step, frame)
    # Bind the other values only after everything has been read.
    if step.partial:
        frame.g.update(values)
    else:
        _bind_values(frame, values, in_place)
    frame.results["names"] = tuple(values)
    if step.file:
        name, seconds = Path(step.file).name, time.perf_counter() - started
        frame.results["file"] = StoredFile(node, name, size_bytes, step.digest, seconds)


def _objects_in_place(step: LoadState, frame: Frame) -> load_into_objects.InPlace | None:
    """Choose the objects into whose memory a step may read their states from a checkpoint file."""
    wanted = {} if step.partial else {name: frame.n.get(name) for name in step.objects}
    states = {
        name: capture_object(name, value)
        for name, value in wanted.items()
        if load_into_objects.takes_in_place(value)
    }
    has_directories = any(name.startswith(STATE_DIRS) for name in step.names)
    if not states and not has_directories:
        return None
    return load_into_objects.InPlace(states, str(Path(frame.run.run_dir, "state_dirs")))


def _read(
    step: LoadState, frame: Frame, in_place: load_into_objects.InPlace | None
) -> tuple[dict[str, Value], int]:
    """Read the checkpoint file that a step loads; return its values, and its size in bytes."""
    with frame.run.fetch_file(step.file) as path:
        values = checkpoint_file.read_state(
            path,
            node=frame.node.name,
            epoch=step.epoch,
            run_id=step.run_id,
            digest=step.digest,
            names=(*step.names, *(name for name in step.objects if is_object(frame.n[name]))),
            partial=step.partial,
            in_place=in_place,
        )
        with open_regular_file(local_path(path)) as (_, size_bytes):
            return values, size_bytes


def _resolve_classes(values: dict[str, Value], step: LoadState, frame: Frame) -> dict[str, Value]:
    """Import, in a step that loads checkpoint files, modules that define the values' classes.

    Modules of the step's callables are imported for that.

    Raises:
        TaskFailedError: E249, a class is not there then either.
    """
    unknown = {
        name: value for name, value in values.items() if is_tree(value) and unbound_classes(value)
    }
    if not unknown or step.partial:
        return values
    for target, folder in step.callables:
        load_callable(target, frame.resolve_folder(folder))
    resolved = {name: detach(value, name) for name, value in unknown.items()}
    for name, value in resolved.items():
        for class_name in unbound_classes(value):
            raise unbound_class_error(class_name, name)
    return values | resolved


def _restore_settings(step: LoadState, frame: Frame) -> None:
    """Set library settings to those in the checkpoint files that a step loads.

    What their modules set when they are imported comes before that.
    """
    if step.partial:
        return
    settings = frame.run.settings
    for target, folder in step.callables if step.settings else ():
        settings.load(load_callable, target, frame.resolve_folder(folder))
    settings.restore(dict(step.settings))


def _open_parts(parts: Iterable[FilePart], frame: Frame) -> Iterator[FilePart]:
    """Fetch each checkpoint file of a ``load`` step, and yield it while its path is valid."""
    for part in parts:
        with frame.run.fetch_file(part.file) as path:
            yield replace(part, file=path)


def _adopt(step: AdoptState, frame: Frame) -> None:
    _bind_values(frame, {name: frame.g[name] for name in step.names if name in frame.g})


def _bind_values(
    frame: Frame, values: Mapping[str, Value], in_place: load_into_objects.InPlace | None = None
) -> None:
    """Bind the values that a step has read from a checkpoint file; set states of objects."""
    states = {n: v for n, v in values.items() if isinstance(v, ObjectState)}
    if states:
        objects = {name: value for name, value in frame.n.items() if is_object(value)}
        before = find_sharing(objects)
        for name, state in states.items():
            load_object_state(name, frame.n.get(name), state, in_place)
        frame.run.snapshots.sharing.require_same_sharing(frame.node.name, before, objects)
        for name in before.names() & states.keys():
            # Loading another object's state may have changed a part that both objects share.
            require_state_taken(name, objects[name], states[name], in_place)
        frame.run.snapshots.objects.note_states(objects)
    frame.n.update({n: v for n, v in values.items() if n not in states})


def _copy(step: CopyState, frame: Frame) -> None:
    name = Path(step.file).name
    expected = StoredFile(step.node, name, step.size_bytes, step.digest)
    frame.results["file"] = copy_file(step.file, step.staged, expected)


def read_parts(parts: Iterable[FilePart], epoch: int, run_id: str) -> dict[str, Value]:
    """Read a step's divided blobs from checkpoint files of several nodes, and join their rows.

    One file's share of the wanted blobs is in memory at a time, beside the result.

    Args:
        parts: In the order of the rows.
        epoch: Of which epoch the files are.
        run_id: Of which run.

    Raises:
        CheckpointError: A file is missing, damaged, of something else, or lacks a blob.
    """
    whole: dict[str, Value] = {}
    pieces: dict[str, list[np.ndarray[Any, Any]]] = {}
    for part in parts:
        values = checkpoint_file.read_state(
            part.file,
            node=part.node,
            epoch=epoch,
            run_id=run_id,
            digest=part.digest,
            names=[rows.name for rows in part.blobs],
        )
        for rows in part.blobs:
            if rows.first is None:
                whole[rows.name] = values[rows.name]
            else:
                pieces.setdefault(rows.name, []).append(_piece(values[rows.name], rows))
    return whole | {name: _joined(blob_pieces) for name, blob_pieces in pieces.items()}


def _piece(value: np.ndarray[Any, Any], rows: Rows) -> np.ndarray[Any, Any]:
    # A copy, so that the other rows of the file's array can be freed.
    is_whole = (rows.first, rows.stop) == (0, len(value))
    return value if is_whole else dense_copy(value[rows.first : rows.stop])


def _joined(pieces: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    if len(pieces) == 1:
        return pieces[0]
    # Not ``np.concatenate``, which converts to native byte order.
    shape = (sum(map(len, pieces)), *pieces[0].shape[1:])
    # A piece with fewer than two rows does not determine an axis order.
    orders = {axis_order(piece) for piece in pieces if len(piece) > 1}
    whole = empty_in_order(shape, pieces[0].dtype, orders.pop() if len(orders) == 1 else ())
    at = 0
    for piece in pieces:
        whole[at : at + len(piece)] = piece
        at += len(piece)
    return whole
