"""Explain an error in a step as a fault that says what, where and how to fix it.

Warnings of numpy about floating-point numbers (division, overflow, invalid) become one event per
location: values are as numpy makes them, nothing is stopped, and the standard error stays quiet.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from msgspec.structs import replace

from jobrun.core.errors import EnvironmentFaultError, Fault, JobrunError, TaskFailedError
from jobrun.core.events import Listener, Noted
from jobrun.core.files.disk import mend_of
from jobrun.graph.effects import NOWHERE
from jobrun.runtime.codegen.compiler import PLACES, Block
from jobrun.runtime.codegen.control_flow import StopBlock
from jobrun.runtime.codegen.line_table import StepLocation, find_location
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import Frame, MissingBlobError, display_name
from jobrun.runtime.context.group_run_state import GroupRun

Work = Callable[[], bool]

_MENDS: dict[type[Exception], str] = {
    ZeroDivisionError: "Python numbers do not divide by zero; guard it with a condition",
    MemoryError: "use smaller arrays, or work in batches",
    IndexError: "compare the index with the array's shape; a log step can show both",
}
_NO_VARIABLES: Mapping[str, str] = {}
# Faults about a value that no blob can hold. They are raised where the blob's name is unknown.
_OF_VALUES = frozenset({"E202", "E240", "E248"})
_SHAPES = "look at the shapes and dtypes of the blobs it reads; a log step before it shows them"


def run_block(block: Block, frame: Frame) -> bool:
    """Run a block of steps; explain an error by its step; return whether ``stop`` ended it.

    Raises:
        JobrunError: A step failed; every fault says where.
        CancelledError: The run was cancelled.
        StopBlock: A stop that leaves a block further out.
    """
    try:
        if frame.run.gates:
            gate = frame.gate(block.changes)
            if gate is not None:
                gate.pass_gate(block.changes)
        return block.run(frame) is True
    except StopBlock as stop:
        if stop.target != block.path:
            raise
        return True
    except Exception as error:  # noqa: BLE001 - raised again, with its place
        raise_explained(error, block, frame)


def raise_explained(error: Exception, block: Block, frame: Frame) -> NoReturn:
    """Raise a step's error, explained as a fault unless it is a cancel or explained already.

    Raises:
        JobrunError: The fault, which says where.
        CancelledError: The error is one.
    """
    if isinstance(error, CancelledError):
        raise error
    explained = explain(error, block, frame)
    if explained is error:
        raise error
    raise explained from error


def explain(error: Exception, block: Block, frame: Frame) -> JobrunError:
    """Explain an error that a step raised, with the step's source position and path in the spec."""
    return explain_at(error, _place(error, block), frame, block.variables)


def explain_at(
    error: Exception,
    location: StepLocation,
    frame: Frame,
    variables: Mapping[str, str] = _NO_VARIABLES,
) -> JobrunError:
    """Explain a run-time error as a fault of the step at ``location``, if it names no step yet.

    ``variables`` maps variables of generated code to blobs.
    """
    if isinstance(error, JobrunError):
        if all(fault.path for fault in error.faults):
            return error
        faults = [_placed(fault, location, frame) for fault in error.faults]
        explained: JobrunError = type(error)(*faults)
        for note in getattr(error, "__notes__", ()):
            explained.add_note(note)
        return explained
    if isinstance(error, OSError):
        # An error of a callable already has a location: this is a system call of jobrun itself.
        refused = Fault(
            "E222",
            f"the operating system refused: {error.strerror or error}",
            mend_of(error, "see the limits (ulimit -a), the permissions and the space (df)"),
        )
        return EnvironmentFaultError(_placed(refused, location, frame))
    name = _missing(error, variables)
    for blobs in (frame.i, frame.t, frame.g, frame.n):
        refusal = blobs.explain_missing(name or "")
        if refusal is not None:
            return TaskFailedError(*(_placed(fault, location, frame) for fault in refusal.faults))
    return TaskFailedError(_placed(_fault(error, variables), location, frame))


def is_only_missing_blobs(error: JobrunError) -> bool:
    """Return whether a step's error consists only of faults about missing blobs (E201)."""
    return all(fault.code == "E201" for fault in error.faults)


def _place(error: Exception, block: Block) -> StepLocation:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is block.code and block.places:
            return find_location(block.code, trace.tb_lasti, block.places)
        trace = trace.tb_next
    return block.places[0] if block.places else StepLocation(block.path, NOWHERE)


def _placed(fault: Fault, location: StepLocation, frame: Frame) -> Fault:
    where = fault.where or (location.origin if location.origin.line else None)
    blob = display_name(location.blob)
    named = f"blob '{blob}', " if blob and fault.code in _OF_VALUES else ""
    if f"'{blob}" in fault.message:
        named = ""
    message = f"{fault.message} ({named}{_circumstances(frame)})"
    return replace(fault, message=message, where=where, path=fault.path or location.path or "?")


def _circumstances(frame: Frame) -> str:
    task = f"task {frame.task}, " if frame.task else ""
    instance = f", instance {frame.instance}" if frame.instances > 1 else ""
    return f"{task}node {frame.node.name}, epoch {frame.epoch}{instance}"


def _fault(error: Exception, variables: Mapping[str, str]) -> Fault:
    name = _missing(error, variables)
    if name is not None:
        return Fault(
            "E201",
            f"the blob '{display_name(name)}' does not exist here",
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


def attempt(run: GroupRun, work: Work) -> bool:
    """Run ``work`` and catch a step's error: record it, cancel the group run, return False."""
    try:
        return work()
    except CancelledError:
        run.interrupted = True
    except BaseException as error:  # noqa: BLE001 - raised again by the session
        run.fail(error)
    return False


def attempt_after_failure(run: GroupRun, work: Work, *, failed: bool) -> bool:
    """Run a cleanup block and catch step errors; after a failure, ignore those of missing blobs."""

    def quiet() -> bool:
        try:
            return work()
        except JobrunError as error:
            if failed and is_only_missing_blobs(error):
                return False
            raise

    return attempt(run, quiet)


class NumpyWarnings:
    """Emits each kind of numpy's floating-point warnings once per location."""

    def __init__(self, emit: Listener) -> None:
        self._emit = emit
        self._reported: set[tuple[str, str]] = set()

    def errstate(self) -> np.errstate:
        """Return a context manager that reports numpy's floating-point warnings of one thread."""
        return np.errstate(
            divide="call", over="call", under="ignore", invalid="call", call=self.report
        )

    def context(self) -> Context:
        """Copy the caller's context, and set the copy to report numpy's floating-point warnings.

        That costs less than to enter what ``errstate`` returns, and to leave it.
        """
        context = copy_context()
        context.run(self.errstate().__enter__)
        return context

    def report(self, kind: str, flags: int) -> None:
        """Emit a floating-point warning of numpy, once per kind and location."""
        del flags
        path, where = _find_step(sys._getframe(1))
        if (kind, path) in self._reported:
            return
        self._reported.add((kind, path))
        step_text = f"{path} ({where})" if where else path
        self._emit(Noted(f"{kind} in {step_text}; reported once for this place", level="warning"))


def _find_step(frame: FrameType | None) -> tuple[str, str]:
    while frame is not None:
        locations: Any = frame.f_globals.get(PLACES)
        if locations:
            location = find_location(frame.f_code, frame.f_lasti, locations)
            return location.path, str(location.origin) if location.origin.line else ""
        frame = frame.f_back
    return "an expression", ""
