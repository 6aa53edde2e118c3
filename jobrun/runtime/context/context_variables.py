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
# Of these each thread keeps its own. The contexts of decimal are changed in place, and what is set
# in them and by ``np.seterr`` is carried as settings; the last is jobrun's.
_OWN = frozenset({"decimal_context", "numpy.ufunc.extobj", "jobrun-printing"})
# By name, the functions of libraries that set a variable of which users do not know.
_SET_BY = {"format_options": "np.set_printoptions"}


def read_variables(context: Context) -> dict[ContextVar[Any], Any]:
    """Return the variables of a context that threads share."""
    return {one: value for one, value in context.items() if one.name not in _OWN}


def make_context(variables: Variables, previous: Context) -> Context:
    """Return a context with the given variables, and those of ``previous`` that are not shared.

    A new one, since nothing can remove a variable from a context.
    """
    own = {one: value for one, value in previous.items() if one.name in _OWN}
    context = Context()
    context.run(_set_all, own | dict(variables))
    return context


def _set_all(variables: Variables) -> None:
    for one, value in variables.items():
        one.set(value)


def find_changed(before: Variables, after: Variables) -> list[ContextVar[Any]]:
    """Return the variables with another value than before, or none; a value is compared by ``is``.

    Values of users may have no other comparison, such as arrays.
    """
    missing = object()
    every = {**before, **after}
    return [one for one in every if before.get(one, missing) is not after.get(one, missing)]


def merge_changes(
    variables: Variables, changed: list[ContextVar[Any]], after: Variables
) -> Variables:
    """Return variables with the values that the changed ones have afterwards."""
    merged = dict(variables)
    for one in changed:
        if one in after:
            merged[one] = after[one]
        else:
            merged.pop(one, None)
    return merged


def describe_variable(variable: ContextVar[Any]) -> str:
    """Return what a message calls a context variable: its name, and what sets it."""
    setter = _SET_BY.get(variable.name)
    return f"'{variable.name}'" + (f" ({setter})" if setter else "")
