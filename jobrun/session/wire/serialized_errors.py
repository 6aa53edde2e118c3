"""Serialize errors as plain values that a message can carry, and rebuild them."""

from __future__ import annotations

import builtins
import traceback

from jobrun.core import errors
from jobrun.core.errors import Fault, JobrunError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.runtime.context import cancel as scopes
from jobrun.runtime.context import frame
from jobrun.session import group_errors as cancel
from jobrun.session.group_errors import GroupCancelledError

_OWN: dict[str, type[BaseException]] = {
    one.__name__: one
    for module in (errors, cancel, scopes, frame)
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, BaseException)
}


@dataclass(frozen=True, slots=True)
class SerializedError:
    """An error as plain values.

    Attributes:
        kind: The name of its class.
        said: Its message, if it has no faults.
        trace: Where it was raised, for debugging.
    """

    kind: str
    said: str
    faults: tuple[Fault, ...] = ()
    tasks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trace: str = ""


class RemoteTracebackError(Exception):
    """The cause of an error that was raised in another process: its traceback, as text."""


def serialize_error(error: BaseException) -> SerializedError:
    """Serialize an error: convert it to plain values that a message can carry."""
    notes = tuple(getattr(error, "__notes__", ()))
    trace = "".join(traceback.format_exception(error)).rstrip()
    kind = type(error).__name__
    if isinstance(error, JobrunError):
        return SerializedError(kind, "", error.faults, error.tasks, notes, trace)
    said = str(error.args[0]) if error.args else str(error)
    return SerializedError(kind, said, notes=notes, trace=trace)


def deserialize_error(form: SerializedError) -> BaseException:
    """Rebuild the error that was serialized into a message, of its class if that is known."""
    error = _build_error(form)
    for note in form.notes:
        error.add_note(note)
    if not isinstance(error, GroupCancelledError):
        error.__cause__ = RemoteTracebackError(f"\n{form.trace}")
    return error


def _build_error(form: SerializedError) -> BaseException:
    cls = _OWN.get(form.kind)
    if cls is not None and issubclass(cls, JobrunError):
        known = cls(*form.faults)
        known.tasks = form.tasks
        return known
    if cls is not None:
        return cls(form.said)
    python = getattr(builtins, form.kind, None)
    if isinstance(python, type) and issubclass(python, Exception):
        try:
            return python(form.said)
        except TypeError:
            pass
    return RuntimeError(f"{form.kind}: {form.said}")
