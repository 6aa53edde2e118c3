"""What may cross between the processes of a run, and errors in a form that does. No sockets."""

from __future__ import annotations

import builtins
import enum
import traceback
from dataclasses import dataclass, is_dataclass
from types import ModuleType

from jobrun.blobs import objects
from jobrun.checkpoint import elsewhere, plan, store, times
from jobrun.core import errors, events, objecturl, origin
from jobrun.core.errors import Fault, JobrunError
from jobrun.graph import conditions, data, divided, expr, pulled, steps, types
from jobrun.runtime import cancel as scopes
from jobrun.runtime import meter, midway, workspace
from jobrun.session import cancel, nodefiles, share
from jobrun.session.cancel import GroupCancelledError
from jobrun.session.codec import Table

_MODULES = (
    conditions, data, divided, elsewhere, errors, events, expr, meter, midway, nodefiles, objects,
    objecturl, origin, plan, pulled, share, steps, store, times, types,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """An error as plain values.

    Attributes:
        kind: The name of its class.
        said: What it says, where it has no faults.
        trace: Where it was raised, for whoever debugs.
    """

    kind: str
    said: str
    faults: tuple[Fault, ...] = ()
    tasks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trace: str = ""


class ElsewhereError(Exception):
    """The cause of an error that was raised in another process: its traceback, as text."""


def _listed(module: ModuleType) -> list[type]:
    return [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and one.__module__ == module.__name__
        and (is_dataclass(one) or issubclass(one, enum.Enum) or hasattr(one, "_fields"))
    ]


TABLE = Table({ErrorForm, *(cls for module in _MODULES for cls in _listed(module))})

_OWN: dict[str, type[BaseException]] = {
    one.__name__: one
    for module in (errors, cancel, scopes, workspace)
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, BaseException)
}


def form_of(error: BaseException) -> ErrorForm:
    """The form of an error."""
    notes = tuple(getattr(error, "__notes__", ()))
    trace = "".join(traceback.format_exception(error)).rstrip()
    kind = type(error).__name__
    if isinstance(error, JobrunError):
        return ErrorForm(kind, "", error.faults, error.tasks, notes, trace)
    said = str(error.args[0]) if error.args else str(error)
    return ErrorForm(kind, said, notes=notes, trace=trace)


def error_of(form: ErrorForm) -> BaseException:
    """The error of a form: of the same class, if that is one of ours or Python's own."""
    error = _made(form)
    for note in form.notes:
        error.add_note(note)
    if not isinstance(error, GroupCancelledError):
        error.__cause__ = ElsewhereError(f"\n{form.trace}")
    return error


def _made(form: ErrorForm) -> BaseException:
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
