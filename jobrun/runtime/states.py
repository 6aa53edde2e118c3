"""The steps that save, load and copy a node's state. What is in a file is ``checkpoint``'s.

No spec can hold them: the plans of the checkpoint layer make them, and a session runs them
where the node lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from jobrun.checkpoint.copying import copy_file, publish
from jobrun.checkpoint.hdf5 import read_state
from jobrun.checkpoint.store import StoredFile
from jobrun.graph.steps import AdoptState, CopyState, LoadState, PublishCopy, SaveState
from jobrun.runtime.frame import Frame

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
    values = read_state(
        step.file,
        node=node,
        epoch=step.epoch,
        run_id=step.run_id,
        digest=step.digest,
        names=step.names,
        partial=step.partial,
    )
    # Nothing of it becomes visible before all of it has been read.
    (frame.g if step.partial else frame.n).update(values)
    path = Path(step.file)
    seconds = time.perf_counter() - started
    frame.results["file"] = StoredFile(node, path.name, path.stat().st_size, step.digest, seconds)
    frame.results["names"] = tuple(values)


def _adopt(step: AdoptState, frame: Frame) -> None:
    frame.n.update({name: frame.g[name] for name in step.names if name in frame.g})


def _copy(step: CopyState, frame: Frame) -> None:
    name = Path(step.file).name
    expected = StoredFile(step.node, name, step.size_bytes, step.digest)
    frame.results["file"] = copy_file(step.file, step.staged, expected)
