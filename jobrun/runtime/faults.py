"""From an error in a step to a fault that says what, where and how to mend it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from jobrun.core.errors import EnvironmentFaultError, Fault, JobrunError, TaskFailedError
from jobrun.graph.steps import NOWHERE
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.codegen import Block
from jobrun.runtime.control import StopBlock
from jobrun.runtime.frame import Frame
from jobrun.runtime.positions import Place, place_at
from jobrun.runtime.workspace import MissingBlobError, shown

_MENDS: dict[type[Exception], str] = {
    ZeroDivisionError: "Python numbers do not divide by zero; guard it with a condition",
    MemoryError: "use smaller arrays, or work in batches",
    IndexError: "compare the index with the array's shape; a log step can show both",
}
_NO_VARIABLES: Mapping[str, str] = {}
_SHAPES = "look at the shapes and dtypes of the blobs it reads; a log step before it shows them"


def run_block(block: Block, frame: Frame) -> bool:
    """Run a block's steps to their end, or to a stop of the block; whether it was stopped.

    Raises:
        JobrunError: A step failed; every fault says where.
        CancelledError: The run was cancelled.
        StopBlock: A stop that leaves a block further out.
    """
    try:
        if frame.run.gates and block.changes:
            _pass_gate(block, frame)
        return block.run(frame) is True
    except StopBlock as stop:
        if stop.target != block.path:
            raise
        return True
    except CancelledError:
        raise
    except Exception as error:
        explained = explain(error, block, frame)
        if explained is error:
            raise
        raise explained from error


def _pass_gate(block: Block, frame: Frame) -> None:
    """Wait until what the block changes in place is copied by the save that goes on."""
    gate = frame.run.gates.get(frame.node.name)
    if gate is not None:
        gate.pass_gate(block.changes)


def explain(error: Exception, block: Block, frame: Frame) -> JobrunError:
    """The error with its place; the error itself when it has one already."""
    return explain_at(error, _place(error, block), frame, block.variables)


def explain_at(
    error: Exception, place: Place, frame: Frame, variables: Mapping[str, str] = _NO_VARIABLES
) -> JobrunError:
    """The error as one of the given place; the error itself when it has one already.

    ``variables`` maps variables of generated code to blobs.
    """
    if isinstance(error, JobrunError):
        if all(fault.path for fault in error.faults):
            return error
        faults = [_placed(fault, place, frame) for fault in error.faults]
        explained: JobrunError = type(error)(*faults)
        for note in getattr(error, "__notes__", ()):
            explained.add_note(note)
        return explained
    if isinstance(error, OSError):
        # What callables raise has a place already: here the system has refused a step of ours.
        refused = Fault(
            "E222",
            f"the system refuses: {error.strerror or error}",
            "see the limits (ulimit -a), the permissions and the space (df)",
        )
        return EnvironmentFaultError(_placed(refused, place, frame))
    return TaskFailedError(_placed(_fault(error, variables), place, frame))


def missing_only(error: JobrunError) -> bool:
    """Whether the error says nothing but that blobs are missing: after a failure, its echo."""
    return all(fault.code == "E201" for fault in error.faults)


def _place(error: Exception, block: Block) -> Place:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is block.code and block.places:
            return place_at(block.code, trace.tb_lasti, block.places)
        trace = trace.tb_next
    return block.places[0] if block.places else Place(block.path, NOWHERE)


def _placed(fault: Fault, place: Place, frame: Frame) -> Fault:
    where = fault.where or (place.origin if place.origin.line else None)
    message = f"{fault.message} ({_circumstances(frame)})"
    return replace(fault, message=message, where=where, path=fault.path or place.path or "?")


def _circumstances(frame: Frame) -> str:
    task = f"task {frame.task}, " if frame.task else ""
    instance = f", instance {frame.instance}" if frame.instances > 1 else ""
    return f"{task}node {frame.node.name}, epoch {frame.epoch}{instance}"


def _fault(error: Exception, variables: Mapping[str, str]) -> Fault:
    name = _missing(error, variables)
    if name is not None:
        return Fault(
            "E201",
            f"the blob '{shown(name)}' does not exist at this moment",
            "make it in an earlier step of the task, or in init",
        )
    text = str(error).partition("\n")[0]
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Fault("E200", f"the step failed with {reason}", _MENDS.get(type(error), _SHAPES))


def _missing(error: Exception, variables: Mapping[str, str]) -> str | None:
    if isinstance(error, MissingBlobError):
        return error.name
    if isinstance(error, NameError):
        variable = re.search(r"'(b\d+)'", str(error))
        return variables.get(variable.group(1)) if variable else None
    return None
