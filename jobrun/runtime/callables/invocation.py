"""Call a user's Python code: its arguments by name, what it prints, and its exceptions."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from jobrun.core.captured_output import PrintedLines
from jobrun.core.errors import Origin, TaskFailedError
from jobrun.core.events import Logged, Noted
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.context.imported_code import IMPORTED_CODE, ChangedCodeError
from jobrun.values.blob_kinds import Value

# Handed over when the callable's signature names them.
EXTRAS: dict[str, Callable[[Frame], Any]] = {
    "rng": lambda frame: frame.rng,
    "epoch": lambda frame: frame.epoch,
    "node": lambda frame: frame.node.name,
    "instance": lambda frame: frame.instance,
    "run_dir": lambda frame: frame.run.run_dir,
}
_SHOWN_FRAMES = 12
if sys.version_info >= (3, 14):
    from annotationlib import Format

    # They are evaluated when they are asked for, and may name what only type checkers import.
    _signature = partial(inspect.signature, annotation_format=Format.STRING)
else:
    _signature = inspect.signature


class GapNotes:
    """Warns once for each place where a blob loses the gaps of an array that user code returned.

    Args:
        target: The callable or class.
        path: Of the step or reader, with its origin.
        origin: Where the spec has it.
    """

    def __init__(self, target: str, path: str, origin: Origin) -> None:
        self._where = f"{path} ({origin})" if origin.line else path
        self._target = target
        self._noted: set[str] = set()

    def to(self, frame: Frame) -> Callable[[str], None]:
        """Return a function that warns once if a ``call`` step's result has gaps in memory."""
        return partial(self._note, frame)

    def _note(self, frame: Frame, place: str) -> None:
        if place in self._noted:
            return
        self._noted.add(place)
        text = (
            f"{self._where}: '{self._target}' gives '{place}' a view with gaps between its "
            "elements, and a blob has none: products such as a @ b may round otherwise than in "
            "plain Python; return a copy, view.copy()"
        )
        frame.run.emit(Noted(text, level="warning"))


def printed_lines(frame: Frame, path: str, now: Frame | None = None) -> PrintedLines:
    """Create the ``PrintedLines`` of one ``call``, which log what its callable prints.

    Args:
        frame: The task's.
        path: The place in the spec of the step or reader that calls it.
        now: One of the present epoch, if that of the task is of an earlier one.
    """
    task, node, instance = frame.task, frame.node.name, frame.instance
    present = now or frame
    epoch = present.epoch

    def log(line: str) -> None:
        present.run.emit(Logged(line, task, node, instance, epoch, path, printed=True))

    return PrintedLines(log, (task, node, instance, epoch))


def make_instance(
    target: str, made: Callable[..., Any], values: Mapping[str, Value], frame: Frame
) -> Any:
    """Create an object of a user's class by a call, as the ``call`` step does.

    Args:
        target: The class, for messages.
        made: The class.
        values: Its arguments, in a form in which it cannot change blobs.
        frame: The task's.

    Raises:
        TaskFailedError: E206, the class raised.
    """
    wanted = [name for name in parameter_names(made) if name in EXTRAS and name not in values]
    return invoke(target, made, dict(values) | {name: EXTRAS[name](frame) for name in wanted})


def invoke(target: str, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a user's function.

    Raises:
        TaskFailedError: E206, it raised.
    """
    process = os.getpid()
    try:
        return function(**values)
    except (KeyboardInterrupt, CancelledError):
        raise
    except BaseException as error:  # also SystemExit: a callable may not end the process
        raise explain_exception(target, error) from error
    finally:
        if os.getpid() != process:
            # The callable forked, and this is its copy, which must not continue the run.
            os._exit(1)


def explain_exception(target: str, error: BaseException) -> TaskFailedError:
    """Build a ``call`` step's error from its callable's exception, with file and line."""
    if isinstance(error, ChangedCodeError):
        IMPORTED_CODE.note(error)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
    text = str(error).partition("\n")[0]
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = ""
    if frames:
        last = frames[-1]
        place = f", at {Path(last.filename).name}:{last.lineno} in {last.name}"
    explain_exception = TaskFailedError.of(
        "E206",
        f"the callable '{target}' raised {reason}{place}",
        "fix the callable, or its arguments",
    )
    if frames:
        listed = "".join(traceback.format_list(frames[-_SHOWN_FRAMES:])).rstrip()
        explain_exception.add_note(f"{listed}\n{reason}")
    return explain_exception


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a callable's parameters; none where its signature is not known."""
    try:
        return tuple(_signature(function).parameters)
    except (ValueError, TypeError):  # some functions written in C have none
        return ()
