"""The ``call`` step: a Python callable between blobs. It borrows arrays and may not keep them."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jobrun.blobs.trees import is_tree
from jobrun.blobs.values import PLAIN_KINDS, Value, checked, describe, detach, is_object, refusal
from jobrun.core.errors import TaskFailedError
from jobrun.graph.expr import Expr, Name
from jobrun.graph.steps import CallPython
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.files import folder_of
from jobrun.runtime.frame import Frame
from jobrun.runtime.imports import resolve
from jobrun.runtime.landing import array_of, land
from jobrun.runtime.usage import BlockNames
from jobrun.runtime.workspace import LEVELS, shown

Getter = Callable[[Frame], Any]

# Handed over when the callable's signature names them.
_EXTRAS: dict[str, Getter] = {
    "rng": lambda frame: frame.rng,
    "epoch": lambda frame: frame.epoch,
    "node": lambda frame: frame.node.name,
    "instance": lambda frame: frame.instance,
    "run_dir": lambda frame: frame.run.run_dir,
}
_SHOWN_FRAMES = 12


def call_action(
    step: CallPython, names: BlockNames, getter: Callable[[Expr], Getter]
) -> Callable[[Frame], None]:
    """The function of a ``call`` step; the module is imported when it first runs."""
    return _Call(step, names, getter)


class _Call:
    def __init__(
        self, step: CallPython, names: BlockNames, getter: Callable[[Expr], Getter]
    ) -> None:
        self._step = step
        self._names = names
        self._arguments = [(name, getter(value)) for name, value in step.arguments]
        self._blobs = {
            name: value.name
            for name, value in step.arguments
            if name in step.writable and isinstance(value, Name)
        }
        self._found: tuple[Callable[..., Any], tuple[str, ...]] | None = None

    def __call__(self, frame: Frame) -> None:
        function, extras = self._resolved(frame)
        values = {name: self._lent(name, get, frame) for name, get in self._arguments}
        values.update((name, _EXTRAS[name](frame)) for name in extras)
        before = {name: _references(values[name]) for name in self._blobs}
        parts = self._parts(_invoke(self._step.target, function, values))
        for name, blob in self._blobs.items():
            is_kept = _references(values[name]) > before[name] and not is_object(values[name])
            if is_kept or is_tree(values[name]):
                # The callable has kept it: from now on the blob is another array. What it has put
                # into a container nobody else may have either.
                self._put(frame, blob, detach(values[name], blob))
        self._store(frame, parts)

    def _resolved(self, frame: Frame) -> tuple[Callable[..., Any], tuple[str, ...]]:
        if self._found is None:
            folder = folder_of(frame, self._step.folder)
            function = resolve(self._step.target, folder)
            given = {name for name, _ in self._arguments}
            wanted = [name for name in _parameters(function) if name in _EXTRAS]
            self._found = (function, tuple(name for name in wanted if name not in given))
        return self._found

    def _lent(self, name: str, get: Getter, frame: Frame) -> Value:
        value = get(frame)
        blob = self._blobs.get(name)
        if blob is None:
            return read_only(value)
        if blob in self._names.objects and not is_object(value):
            raise TaskFailedError.of(
                "E244",
                f"'{shown(blob)}' is a constant, {describe(value)} that a 'rebuild' task makes at "
                f"every start, and '{self._step.target}' is to change it",
                "make it state: take 'rebuild' from the task that makes it; or leave out 'inout'",
            )
        if isinstance(value, np.ndarray) and value.base is not None:
            # A view would hide who keeps it: references would go to the array it looks at.
            value = value.copy(order="K")
            self._put(frame, blob, value)
        return value

    def _put(self, frame: Frame, blob: str, value: Value) -> None:
        getattr(frame, LEVELS[self._names.scope(blob)])[blob] = value

    def _parts(self, result: Any) -> list[Any]:
        outputs = self._step.outputs
        if not outputs:
            return []
        return [result] if len(outputs) == 1 else _parts(self._step.target, result, outputs)

    def _store(self, frame: Frame, parts: list[Any]) -> None:
        """Bind the results; ``parts`` is emptied, so that each is held by nothing else of ours."""
        outputs = self._step.outputs
        parts.reverse()
        owned = [_owned(parts.pop(), blob) for blob in outputs]
        for blob, value in zip(outputs, owned, strict=True):
            self._put(frame, blob, value)


def instance_of(target: str, folder: str, values: Mapping[str, Value], frame: Frame) -> Any:
    """An object of a class of the user's, made as a callable is called.

    Raises:
        TaskFailedError: E206, the class raised; E207, it cannot be imported.
    """
    made = resolve(target, folder)
    wanted = [name for name in _parameters(made) if name in _EXTRAS and name not in values]
    given = {name: read_only(value) for name, value in values.items()}
    return _invoke(target, made, given | {name: _EXTRAS[name](frame) for name in wanted})


def read_only(value: Value) -> Value:
    """What a callable may look at but not change."""
    if type(value) is np.ndarray:
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, np.dtype) or is_object(value):
        # There is only one of an object, and whether it changes is its own matter.
        return value
    if type(value) is tuple and PLAIN_KINDS.issuperset(map(type, value)):
        return value
    return detach(value) if refusal(value, "?") is None else value


def _invoke(target: str, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    process = os.getpid()
    try:
        # The callable's own code expects numpy's own way of warning.
        with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
            return function(**values)
    except (KeyboardInterrupt, CancelledError):
        raise
    except BaseException as error:  # also SystemExit: a callable may not end the process
        raise failure(target, error) from error
    finally:
        if os.getpid() != process:
            # The callable forked, and this is its copy, which must not go on with the run.
            os._exit(1)


def failure(target: str, error: BaseException) -> TaskFailedError:
    """What the user's code raised, with its place in the user's file."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
    text = str(error).partition("\n")[0]
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = ""
    if frames:
        last = frames[-1]
        place = f", at {Path(last.filename).name}:{last.lineno} in {last.name}"
    failure = TaskFailedError.of(
        "E206",
        f"the callable '{target}' raised {reason}{place}",
        "mend the callable, or what it is given",
    )
    if frames:
        listed = "".join(traceback.format_list(frames[-_SHOWN_FRAMES:])).rstrip()
        failure.add_note(f"{listed}\n{reason}")
    return failure


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (ValueError, TypeError):  # some functions written in C do not tell
        return ()


def _parts(target: str, result: Any, outputs: tuple[str, ...]) -> list[Any]:
    if not isinstance(result, tuple | list):
        found = f"one value of class {type(result).__name__}"
    elif len(result) != len(outputs):
        found = f"{len(result)} values"
    else:
        return list(result)
    names = ", ".join(map(shown, outputs))
    raise TaskFailedError.of(
        "E208",
        f"the callable '{target}' returned {found}, but its step names {len(outputs)} blobs",
        f"return a tuple of {len(outputs)} values, for {names}",
    )


def _owned(value: Any, blob: str) -> Value:
    """The value as the blob's own: copied unless nobody else refers to it."""
    if type(value) is not np.ndarray:
        if isinstance(value, tuple | list):
            array = array_of(value)
            return detach(value, shown(blob)) if array is None else array
        if isinstance(value, np.memmap):
            return land(value)
        return checked(value, shown(blob)) if is_object(value) else detach(value, shown(blob))
    alone = _references(value) <= _ALONE
    if alone and value.base is None and value.flags.writeable and not value.dtype.hasobject:
        return value
    return detach(value, shown(blob))


def _references(value: object) -> int:
    return sys.getrefcount(value)


def _alone() -> int:
    fresh = np.empty(0)
    return _references(fresh)


# How many references this interpreter counts to an array that one variable holds.
_ALONE = _alone()
