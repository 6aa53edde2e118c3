"""Adapt Python objects by the reduce protocol (``__reduce_ex__``), as the module ``copy`` does.

That is the protocol that ``copy`` and ``pickle`` use: the arguments from which a class makes an
object, and its state. Only what is of the packages that an adapter names is made, and a name in a
file is looked up among them; nothing is pickled.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from jobrun.values.adapters.registry import (
    Adapter,
    UnsavableError,
    attributes_of,
    class_name,
    class_text,
    find_adapter,
    find_by_name,
    find_name,
    named_tree,
    package_of,
)

_PROTOCOL = 4
_REDUCING = ("__reduce__", "__reduce_ex__")
_NEW_ARGUMENTS = ("__getnewargs__", "__getnewargs_ex__")
# Kinds whose content is no attribute.
_CONTENT = (dict, list, set, frozenset, tuple, str, bytes, bytearray, int, float, complex)
# What a class may extend, to be made with that content.
_BASES: dict[str, Any] = {kind.__name__: kind for kind in (dict, list, set, frozenset)}
_reduce_newobj: Any = vars(copyreg)["__newobj__"]
_reduce_reconstructor: Any = vars(copyreg)["_reconstructor"]


@lru_cache
def object_adapter(
    *packages: str, immutable: bool = False, inner: bool = False, by_attributes: bool = False
) -> Adapter:
    """Build an adapter by ``__reduce_ex__`` for objects that functions of given packages make.

    Args:
        packages: Their names.
        immutable: As of an ``Adapter``.
        inner: As of an ``Adapter``.
        by_attributes: Prefer all attributes to what a class's ``__getstate__`` returns.
    """

    def make(kind: type, tree: Any) -> Any:
        return new_object(kind, tree, packages)

    get = attribute_tree if by_attributes else object_tree
    return Adapter(get, make, fill=fill_object, immutable=immutable, inner=inner)


def attribute_tree(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert a Python object as ``object_tree`` does, but to all its attributes where possible.

    A class's ``__getstate__`` may leave out caches that decide the next result, or change the
    object, as by ``next(self.counter)``. It is only called where an attribute cannot be kept.

    Raises:
        UnsavableError: As by ``object_tree``.
    """
    kind: Any = type(value)
    if not _has_plain_state(kind):
        return object_tree(value)
    attributes = attributes_of(value)
    if not all(map(_may_be_kept, attributes.values())):
        return object_tree(value)
    return {}, {"attributes": attributes}


@lru_cache(maxsize=1024)
def _has_plain_state(kind: type) -> bool:
    """Return whether a class differs from ``object`` in ``__getstate__`` alone, for copies."""
    plain: Any = object
    is_replaced = kind.__getstate__ is not plain.__getstate__
    same = all(getattr(kind, name) is getattr(plain, name) for name in _REDUCING)
    return (
        is_replaced
        and same
        and not any(hasattr(kind, name) for name in _NEW_ARGUMENTS)
        and (kind.__base__ is object or not issubclass(kind, _CONTENT))
    )


def _may_be_kept(value: Any) -> bool:
    """Return whether a value is of a kind that is kept, or that could be: no lock, file, lambda."""
    kind: Any = type(value)
    adapter = find_adapter(kind)
    if adapter is not None and adapter.by_name:
        return bool(find_name(value))
    if adapter is not None and adapter.get is not attribute_tree:
        return True
    if kind.__module__ == "builtins" or _has_plain_state(kind):
        return True
    try:
        value.__reduce_ex__(_PROTOCOL)
    except Exception:  # noqa: BLE001 - a class's own code may raise anything
        return False
    return True


def object_tree(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert a Python object by ``__reduce_ex__`` to a dict of arguments and one of its state.

    Raises:
        UnsavableError: It does not support that.
    """
    kind, title = type(value), class_text(value)
    try:
        reduced = value.__reduce_ex__(_PROTOCOL)
    except Exception as error:
        raise UnsavableError((), f"{title}, which cannot be copied: {error}") from error
    if isinstance(reduced, str):
        # Of pandas.NA, the class says another module than the one where it is.
        names = [f"{module}:{reduced}" for module in (kind.__module__, package_of(kind))]
        importable = [name for name in names if find_by_name(name) is value]
        if not importable:
            raise UnsavableError((), f"{title}, which is not found by its name {reduced}")
        return {"name": importable[0]}, {}
    parts: list[Any] = [*reduced, *[None] * (6 - len(reduced))]
    function, arguments, state, items, pairs, setter = parts
    if setter is not None:
        raise UnsavableError((), f"{title}, whose state is set by a function")
    tree: dict[str, Any] = {}
    if function is _reduce_newobj and arguments[0] is kind:
        arguments = arguments[1:]
    elif function is _reduce_reconstructor and arguments[0] is kind:
        _, base, content = arguments
        arguments = () if base is object else (content,)
        if base is not object:
            tree["base"] = base.__name__
    elif function is kind:
        tree["by"] = "call"
    else:
        tree["by"] = named_tree(function)
    if arguments:
        tree["arguments"] = tuple(arguments)
    contents: dict[str, Any] = {}
    for name, part in (("state", state), ("items", items), ("pairs", pairs)):
        if part is not None:
            contents[name] = list(part) if name in ("items", "pairs") else part
    return tree, contents


def new_object(kind: type, tree: Any, packages: Iterable[str]) -> Any:
    """Rebuild a Python object, without its state yet, from what ``__reduce_ex__`` returned.

    Raises:
        ValueError: The tree fits no such object, or a function of another package would make it.
    """
    if "name" in tree:
        named = find_by_name(tree["name"])
        if type(named) is not kind:
            raise ValueError(f"there is no {tree['name']} of class {class_name(kind)}")
        return named
    arguments = tree.get("arguments", ())
    if "base" in tree:
        base = _BASES[tree["base"]]
        value = base.__new__(kind, *arguments)
        base.__init__(value, *arguments)
        return value
    match tree.get("by"):
        case None:
            return kind.__new__(kind, *arguments)
        case "call":
            return kind(*arguments)
        case name:
            if name.partition(":")[0].partition(".")[0] not in {*packages, package_of(kind)}:
                raise ValueError(f"{name} is no function that makes a {kind.__qualname__}")
            return find_by_name(name)(*arguments)


def fill_object(value: Any, contents: Any) -> None:
    """Set the items and state of a Python object rebuilt from what ``__reduce_ex__`` returned."""
    if contents.get("items"):
        value.extend(contents["items"])
    for key, item in contents.get("pairs", ()):
        value[key] = item
    for name, item in contents.get("attributes", {}).items():
        object.__setattr__(value, name, item)
    if "state" not in contents:
        return
    state = contents["state"]
    # Asked of the class: a new object may have a __getattr__ that needs its attributes.
    if hasattr(type(value), "__setstate__"):
        value.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        vars(value).update(attributes)
    for name, item in (slots or {}).items():
        setattr(value, name, item)
