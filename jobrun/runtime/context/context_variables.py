"""Carry the context variables that modules and callables set from thread to thread.

A ``contextvars.ContextVar`` belongs to the context in which it is set, and each thread has its own.
Python programs set them at the top of a module, or by a call, and see them from then on: a variable
of their own, or one of a library (``np.set_printoptions`` of numpy 2). Callables run in several
threads, so what one has set is set in the contexts of the others before their next call.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Context, ContextVar
from typing import Any

Variables = Mapping[ContextVar[Any], Any]

NO_VARIABLES: Variables = {}
# Variables that threads do not share. ``decimal`` changes its context in place; its settings and
# those of ``np.seterr`` are handled as library settings. The last variable is jobrun's own.
_OWN = frozenset({"decimal_context", "numpy.ufunc.extobj", "jobrun-printing"})
# By name, the functions of libraries that set a variable of which users do not know.
_SET_BY = {"format_options": "np.set_printoptions"}


def read_variables(context: Context) -> dict[ContextVar[Any], Any]:
    """Return the variables of a context that threads share."""
    return {variable: value for variable, value in context.items() if variable.name not in _OWN}


def make_context(variables: Variables, previous: Context) -> Context:
    """Return a context with the given variables, and those of ``previous`` that are not shared.

    A new one, since nothing can remove a variable from a context.
    """
    thread_variables = {
        variable: value for variable, value in previous.items() if variable.name in _OWN
    }
    context = Context()
    context.run(_set_all, thread_variables | dict(variables))
    return context


def _set_all(variables: Variables) -> None:
    for variable, value in variables.items():
        variable.set(value)


def find_changed(before: Variables, after: Variables) -> list[ContextVar[Any]]:
    """Return the variables with another value than before, or none; a value is compared by ``is``.

    Values of users may have no other comparison, such as arrays.
    """
    missing = object()
    every = {**before, **after}
    return [
        variable
        for variable in every
        if before.get(variable, missing) is not after.get(variable, missing)
    ]


def merge_changes(
    variables: Variables, changed: list[ContextVar[Any]], after: Variables
) -> Variables:
    """Return variables with the values that the changed ones have afterwards."""
    merged = dict(variables)
    for variable in changed:
        if variable in after:
            merged[variable] = after[variable]
        else:
            merged.pop(variable, None)
    return merged


def describe_variable(variable: ContextVar[Any]) -> str:
    """Return what a message calls a context variable: its name, and what sets it."""
    setter = _SET_BY.get(variable.name)
    return f"'{variable.name}'" + (f" ({setter})" if setter else "")
