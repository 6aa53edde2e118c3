"""The steps that save, load and copy a node's state. What is in a file is ``checkpoint``'s.

No spec can hold them: the plans of the checkpoint layer make them, and a session runs them
where the node lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from jobrun.blobs.objects import ObjectState
from jobrun.blobs.values import Value, is_object
from jobrun.checkpoint.copying import copy_file, publish
from jobrun.checkpoint.divided import read_parts
from jobrun.checkpoint.hdf5 import read_state
from jobrun.checkpoint.plainfile import open_plain
from jobrun.checkpoint.store import StoredFile
from jobrun.graph.divided import FilePart
from jobrun.graph.steps import AdoptState, CopyState, LoadState, PublishCopy, SaveState
from jobrun.runtime.frame import Frame
from jobrun.runtime.objects import take_in
from jobrun.runtime.workspace import Blobs

StateStep = SaveState | LoadState | AdoptState | CopyState | PublishCopy


def state_action(step: StateStep) -> Callable[[Frame], None]:
    """The function of such a step."""
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
            return lambda _: publish(step.directory, step.staged, step.target)


def _save(step: SaveState, frame: Frame) -> None:
    held = frame.run.savings.hold(step, frame.node.name, frame.epoch, frame.n)
    frame.results["ticket"] = held


def _load(step: LoadState, frame: Frame) -> None:
    started = time.perf_counter()
    node = frame.node.name
    values, size_bytes = _read(step, frame) if step.file else ({}, 0)
    values |= read_parts(_brought(step.parts, frame), step.epoch, step.run_id)
    # Nothing of it becomes visible before all of it has been read.
    _put(values, frame.g if step.partial else frame.n, None if step.partial else frame.n)
    frame.results["names"] = tuple(values)
    if step.file:
        name, seconds = Path(step.file).name, time.perf_counter() - started
        frame.results["file"] = StoredFile(node, name, size_bytes, step.digest, seconds)


def _read(step: LoadState, frame: Frame) -> tuple[dict[str, Value], int]:
    """What is in the file, and its length."""
    with frame.run.bring(step.file) as path:
        values = read_state(
            path,
            node=frame.node.name,
            epoch=step.epoch,
            run_id=step.run_id,
            digest=step.digest,
            names=(*step.names, *(name for name in step.objects if is_object(frame.n[name]))),
            partial=step.partial,
        )
        with open_plain(path) as (_, size_bytes):
            return values, size_bytes


def _brought(parts: Iterable[FilePart], frame: Frame) -> Iterator[FilePart]:
    """The parts, each with a path that can be read until the next one is asked for."""
    for part in parts:
        with frame.run.bring(part.file) as path:
            yield replace(part, file=path)


def _adopt(step: AdoptState, frame: Frame) -> None:
    _put({name: frame.g[name] for name in step.names if name in frame.g}, frame.n, frame.n)


def _put(values: Mapping[str, Value], there: Blobs, objects: Blobs | None) -> None:
    """Bind values; states of objects go into these, unless they are to wait."""
    states = {n: v for n, v in values.items() if isinstance(v, ObjectState)}
    if objects is not None:
        for name, state in states.items():
            take_in(name, objects.get(name), state)
    there.update({n: v for n, v in values.items() if objects is None or n not in states})


def _copy(step: CopyState, frame: Frame) -> None:
    name = Path(step.file).name
    expected = StoredFile(step.node, name, step.size_bytes, step.digest)
    frame.results["file"] = copy_file(step.file, step.staged, expected)
