"""Adapt Python objects by ``__reduce_ex__``, as ``copy`` does, and functions and classes by name.

That is the protocol that ``copy`` and ``pickle`` use: the arguments from which a class makes an
object, and its state. Only what is of the packages that an adapter names is made, and a name in a
file is looked up among them; nothing is pickled.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from jobrun.values.adapters.registry import (
    Adapter,
    UnboundValue,
    UnsavableError,
    class_name,
    class_text,
    find_adapter,
    find_by_name,
    package_of,
)

_PROTOCOL = 4
_FUNCTIONS: tuple[type, ...] = (FunctionType, BuiltinFunctionType, type, np.ufunc)
# What a class may extend, to be made with that content.
_BASES: dict[str, Any] = {kind.__name__: kind for kind in (dict, list, set, frozenset)}
# Each version of Cython has a class of its own.
_CYTHON_FUNCTION = "cython_function_or_method"
_reduce_newobj: Any = vars(copyreg)["__newobj__"]
_reduce_reconstructor: Any = vars(copyreg)["_reconstructor"]


@lru_cache
def object_adapter(*packages: str, immutable: bool = False, inner: bool = False) -> Adapter:
    """Build an adapter for Python objects that are rebuilt by functions of the given packages."""

    def make(kind: type, tree: Any) -> Any:
        return new_object(kind, tree, packages)

    return Adapter(object_tree, make, fill=fill_object, immutable=immutable, inner=inner)


def object_tree(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Adapt a Python object: convert it by ``__reduce_ex__`` to dicts of arguments and of state.

    Raises:
        UnsavableError: It does not support that.
    """
    try:
        form = value.__reduce_ex__(_PROTOCOL)
    except Exception as error:
        raise UnsavableError((), f"{class_text(value)}, which cannot be copied: {error}") from error
    if isinstance(form, str):
        return {"name": f"{type(value).__module__}:{form}"}, {}
    parts: list[Any] = [*form, *[None] * (6 - len(form))]
    function, arguments, state, items, pairs, setter = parts
    if setter is not None:
        raise UnsavableError((), f"{class_text(value)}, whose state is set by a function")
    tree: dict[str, Any] = {}
    if function is _reduce_newobj and arguments[0] is type(value):
        arguments = arguments[1:]
    elif function is _reduce_reconstructor and arguments[0] is type(value):
        _, base, content = arguments
        arguments = () if base is object else (content,)
        if base is not object:
            tree["base"] = base.__name__
    elif function is type(value):
        tree["by"] = "call"
    else:
        tree["by"] = named_tree(function)
    if arguments:
        tree["arguments"] = tuple(arguments)
    rest: dict[str, Any] = {}
    for name, part in (("state", state), ("items", items), ("pairs", pairs)):
        if part is not None:
            rest[name] = list(part) if name in ("items", "pairs") else part
    return tree, rest


def new_object(kind: type, tree: Any, packages: Iterable[str]) -> Any:
    """Rebuild a Python object, without its state yet, from what ``__reduce_ex__`` returned.

    Raises:
        ValueError: The tree fits no such object, or a function of another package would make it.
    """
    if "name" in tree:
        found = find_by_name(tree["name"])
        if type(found) is not kind:
            raise ValueError(f"there is no {tree['name']} of class {class_name(kind)}")
        return found
    arguments = tree.get("arguments", ())
    if "base" in tree:
        base = _BASES[tree["base"]]
        made = base.__new__(kind, *arguments)
        base.__init__(made, *arguments)
        return made
    match tree.get("by"):
        case None:
            return kind.__new__(kind, *arguments)
        case "call":
            return kind(*arguments)
        case name:
            if name.partition(":")[0].partition(".")[0] not in {*packages, package_of(kind)}:
                raise ValueError(f"{name} is no function that makes a {kind.__qualname__}")
            return find_by_name(name)(*arguments)


def fill_object(made: Any, rest: Any) -> None:
    """Set the items and state of a rebuilt Python object, as ``copy.copy`` does."""
    if rest.get("items"):
        made.extend(rest["items"])
    for key, one in rest.get("pairs", ()):
        made[key] = one
    if "state" not in rest:
        return
    state = rest["state"]
    # Asked of the class: a new object may have a __getattr__ that needs its attributes.
    if hasattr(type(made), "__setstate__"):
        made.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        vars(made).update(attributes)
    for name, one in (slots or {}).items():
        setattr(made, name, one)


def named_tree(value: Any) -> str:
    """Return the name ``module:name`` by which a Python function or class is saved.

    Raises:
        UnsavableError: It is not found there: a lambda, or one defined inside a function.
    """
    name = find_name(value)
    if name:
        return name
    title = getattr(value, "__qualname__", repr(value))
    what = "class" if isinstance(value, type) else "function"
    raise UnsavableError(
        (),
        f"the {what} {title}, which is not found by its name: define it at the top level of a "
        "module",
    )


def find_name(value: Any) -> str:
    """Return ``module:name`` of a Python function or class that an import finds there, else ""."""
    if isinstance(value, np.ufunc):
        name = f"numpy:{value.__name__}"
    else:
        name = f"{getattr(value, '__module__', None) or 'builtins'}:{value.__qualname__}"
    return name if find_by_name(name) is value else ""


NAMED = Adapter(named_tree, immutable=True, inner=True, by_name=True)


def is_named(kind: type) -> bool:
    """Return whether a type's instances are Python functions or classes, saved by name only."""
    return issubclass(kind, _FUNCTIONS) or kind.__name__ == _CYTHON_FUNCTION


def find_named_value(name: str) -> Any:
    """Find a Python function or class by its saved name; return ``UnboundValue`` if missing."""
    found = find_by_name(name)
    adapter = find_adapter(type(found))
    return found if adapter is not None and adapter.by_name else UnboundValue(name, 0, None)
