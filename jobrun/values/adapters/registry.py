"""Define what an adapter is, and register, find and call the adapters of classes.

A library's adapters are in the module of its name beside this one, in the table below, and in the
entry points of the group ``jobrun.adapters``, each named after the package whose classes it
adapts. They are loaded when a value of a class from that package is first met.
"""

from __future__ import annotations

import sys
import weakref
from collections import ChainMap, UserDict, UserList, UserString
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from jobrun.values.kinds import SELF, Kind, Steps, known_kinds
from jobrun.values.kinds.builtin import dict_parts
from jobrun.values.kinds.record import note_unbound

Tree = Any
# Steps from a value to a part of it: names of keys and fields, numbers of items.
Path = tuple[str, ...]

GROUP = "jobrun.adapters"
CLASS_PREFIX = "a value of class "
# The package of a class, and the module beside this one that adapts its classes.
_SHIPPED = {
    "numpy": "numpy", "sklearn": "sklearn", "scipy": "scipy", "pandas": "pandas",
    "pyarrow": "pandas", "jaxlib": "jax", "jax": "jax", "xgboost": "xgboost",
    "lightgbm": "lightgbm", "emcee": "emcee", "cma": "cma", "deap": "deap",
    "gymnasium": "gymnasium", "flax": "flax",
}  # fmt: skip
_STANDARD = frozenset(
    {"array", "builtins", "collections", "datetime", "decimal", "enum", "fractions", "functools",
     "itertools", "pathlib", "random", "uuid", "zoneinfo"}
)  # fmt: skip
# Packages whose values are all kept, as far as they can be.
ADAPTED_WHOLLY = frozenset({*_STANDARD - {"functools"}, "numpy", "pandas", "pyarrow", "sklearn"})
# Of the module collections, without an adapter until a user asks for one.
_NOT_KEPT = (UserDict, UserList, UserString, ChainMap)
# Classes that are not where their names say.
_HIDDEN = {"builtins:method": MethodType, "builtins:ellipsis": type(Ellipsis)}
# Classes of what is saved by name; each version of Cython has a class of its own.
_FUNCTIONS: tuple[type, ...] = (FunctionType, BuiltinFunctionType, type, np.ufunc)
_CYTHON_FUNCTION = "cython_function_or_method"


class UnsavableError(ValueError):
    """A part of a value cannot be saved exactly.

    Attributes:
        path: Where it is.
        what: What it is, in words.
        part: The part itself, if no adapter knows it as a part.
    """

    def __init__(self, path: Path, what: str, part: Any = None) -> None:
        super().__init__(f"{'/'.join(path)}: {what}" if path else what)
        self.path = path
        self.what = what
        self.part = part


class RemakeError(ValueError):
    """A class's library refuses to make a stored value again, or to set it.

    Args:
        name: The class.
        reason: What it raised.
    """

    def __init__(self, name: str, reason: Exception) -> None:
        super().__init__(
            f"a value of class {name} cannot be made again: {type(reason).__name__}: {reason}"
        )


class Adapter(Struct, frozen=True):
    """How values of a class are taken apart, and made or set again.

    With ``set`` a value is an object: a task with ``rebuild: true`` makes it at every start, and it
    is never copied. With ``make`` alone it is an ordinary value: copied, and state if init makes
    it. With both it is an object, and a value where it is a part of something else.

    Attributes:
        get: Returns the tree of a value: arrays, numbers, text, bytes, None, containers of these,
            and further values that have adapters. Raises ``UnsavableError`` for what it cannot
            keep exactly.
        make: Makes a value of a class from such a tree.
        fill: Completes a value that has been made, so that its parts may refer to it. Then the tree
            is a pair: what ``make`` gets, and what ``fill`` gets.
        set: Sets an object's state to such a tree.
        version: Of the form of the tree; a checkpoint of another version is refused.
        immutable: Nothing can change such a value, so it is lent without a copy.
        inner: Adapts parts of values only; such a value by itself is refused.
        by_name: ``get`` returns the name by which the value itself is found again.
        memory: Returns the arrays over whose memory a value is, where ``get`` returns copies of it.
        copies_on_write: Values with this adapter that share memory copy it before they change it.
        leaves_out: Names of attributes that it leaves out on purpose.
    """

    get: Callable[[Any], Tree]
    make: Callable[[type, Tree], Any] | None = None
    set: Callable[[Any, Tree], object] | None = None
    fill: Callable[[Any, Tree], object] | None = None
    version: int = 1
    immutable: bool = False
    inner: bool = False
    by_name: bool = False
    memory: Callable[[Any], Iterable[Any]] | None = None
    copies_on_write: bool = False
    leaves_out: tuple[str, ...] = ()

    @property
    def is_value(self) -> bool:
        """Return whether a registered adapter is for plain values, not for objects with a state."""
        return self.make is not None and self.set is None and not self.inner


class UnboundValue:
    """A value whose class or adapter is not loaded; to read and pass on.

    Attributes:
        class_name: ``module:qualified.name``.
        version: Of the form of its tree.
        tree: What its adapter returned for it, for ``make``.
        rest: For ``fill``; None if its adapter has none.
    """

    __slots__ = ("__weakref__", "class_name", "rest", "tree", "version")

    def __init__(self, class_name: str, version: int, tree: Tree) -> None:
        self.class_name = class_name
        self.version = version
        self.tree = tree
        self.rest: Tree = None


# Packages, modules and classes that the spec admits, each as a dotted name.
_admitted: tuple[str, ...] = ()
_own: dict[type, Adapter] = {}
_own_objects: dict[int, tuple[Any, Adapter]] = {}
# By class, also that there is none.
_found: dict[type, Adapter | None] = {}
# Classes whose adapters are those of users, plug-ins, or the spec.
_foreign: set[type] = set()
_MOST_FOUND = 4096


def find_adapter(kind: type) -> Adapter | None:
    """Find the registered adapter that saves values of a class; None if no adapter does."""
    try:
        return _found[kind]
    except KeyError:
        pass
    adapter = _search(kind)
    if len(_found) >= _MOST_FOUND:
        _forget_found()
    _found[kind] = adapter
    return adapter


def _forget_found() -> None:
    _found.clear()
    known_kinds.clear()


def find_object_adapter(value: Any) -> Adapter | None:
    """Find the registered adapter that can load a state into an existing object, or None."""
    if _own_objects and id(value) in _own_objects:
        return _own_objects[id(value)][1]
    adapter = find_adapter(type(value))
    return None if adapter is None or adapter.set is None or adapter.inner else adapter


def adapt(
    what: Any,
    *,
    get: Callable[[Any], Tree] | None = None,
    make: Callable[[Tree], Any] | None = None,
    set: Callable[[Any, Tree], object] | None = None,  # noqa: A002 - the word of the manual
    version: int = 1,
    leaves_out: Iterable[str] = (),
) -> Any:
    """Register an adapter for a user's class, or for one object, so that checkpoints can hold it.

    Call it for a class at the top level of the module that defines or imports it, so that it is
    known before a checkpoint is loaded; for one object where it is made.

    A class alone is enough where ``copy.copy`` and ``pickle`` work without code of its own: its
    values are kept by their attributes, and are ordinary values.

    Args:
        what: The class, or an object; of an object only the state can be set.
        get: Returns all that decides what the value does next, as a tree of arrays, numbers, text,
            bytes, None and containers of these.
        make: Makes a new value from the tree. The class's values are then ordinary values.
        set: Sets the state of an object from the tree. The class's values are then objects, which
            a task with ``rebuild: true`` makes at every start.
        version: Of the form of the tree: count it up when ``get`` returns another form.
        leaves_out: Names of attributes that ``get`` leaves out on purpose, such as a lock: a
            warning names all others that a remade value lacks.

    Returns:
        ``what``.

    Raises:
        TypeError: Not one of ``make`` and ``set`` is given with ``get``, ``make`` for a single
            object, or the class needs no adapter.
    """
    kind = what if isinstance(what, type) else type(what)
    by_attributes = get is None and make is None and set is None
    if not by_attributes and (get is None or (make is None) == (set is None)):
        raise TypeError("give get and one of make and set to jobrun.adapt, or a class alone")
    if kind.__module__ in ("builtins", "numpy", "collections") and kind not in _NOT_KEPT:
        raise TypeError(f"{kind.__qualname__} is kept without an adapter; adapt a class of yours")
    if isinstance(what, type) and get is None:
        _own[what] = replace(_reducing_adapter(what), version=version, leaves_out=tuple(leaves_out))
        _forget_found()
        return what
    if isinstance(what, type) and get is not None:
        maker = None if make is None else lambda _, tree: make(tree)
        _own[what] = Adapter(get, maker, set, version=version, leaves_out=tuple(leaves_out))
        _forget_found()
        return what
    if get is None or set is None:
        raise TypeError("give jobrun.adapt the class, and not an object, without set")
    number = id(what)
    try:
        reference = weakref.ref(what, lambda _: _own_objects.pop(number, None))
    except TypeError as error:
        message = f"no weak reference to a {kind.__qualname__} is possible; adapt its class"
        raise TypeError(message) from error
    _own_objects[number] = (reference, Adapter(get, None, set, version=version))
    return what


def admit(names: Iterable[str]) -> None:
    """Register the classes of packages and modules, or single classes, that the spec admits.

    Their values are kept by their attributes, or by their own ``__reduce_ex__``, unless an adapter
    knows the class. What was admitted before is no longer.

    Args:
        names: Dotted: ``neat``, ``optuna.trial``, ``optuna.trial.FrozenTrial``.
    """
    global _admitted  # noqa: PLW0603 - of the process, as what is registered
    _admitted = tuple(names)
    _forget_found()


def _is_admitted(title: str) -> bool:
    return any(title == name or title.startswith(f"{name}.") for name in _admitted)


def _find_admitted(kind: type) -> Adapter | None:
    """Find the adapter of a class that the spec admits and that is found by its name, or None."""
    if not _is_admitted(f"{kind.__module__}.{kind.__qualname__}"):
        return None
    if find_by_name(class_name(kind)) is not kind:
        return None
    # By itself such a value is an object, and the part of another one is made again with that.
    has_state = all(hasattr(kind, name) for name in ("state_dict", "load_state_dict"))
    return replace(_reducing_adapter(kind), inner=has_state)


def _reducing_adapter(kind: type) -> Adapter:
    """Build the adapter that keeps a class's values by their attributes or ``__reduce_ex__``."""
    objects: Any = import_module(f"{__name__.rpartition('.')[0]}.reduce_protocol")
    adapter: Adapter = objects.object_adapter(package_of(kind), by_attributes=True)
    return adapter


def class_name(kind: Any) -> str:
    """Return ``module:qualified.name`` of a class or function, which names it in checkpoints."""
    return f"{kind.__module__}:{kind.__qualname__}"


def find_by_name(name: str) -> Any:
    """Find a class or function by the ``module:name`` that its adapter has saved, or None.

    Modules of libraries that are adapted here or admitted by the spec are imported; of all others
    those that are loaded are looked at, because what a file names is not run.
    """
    module, _, path = name.partition(":")
    package = module.partition(".")[0]
    if name in _HIDDEN:
        return _HIDDEN[name]
    value: Any = sys.modules.get(module)
    if value is None and (package in _SHIPPED or package in _STANDARD or _is_admitted(module)):
        try:
            value = import_module(module)
        except ImportError:
            return None
    for part in path.split("."):
        value = None if value is None else getattr(value, part, None)
    return _find_own(name) if value is None else value


def _find_own(name: str) -> type | None:
    """Find a class registered by ``jobrun.adapt`` by name, even one defined in a function."""
    return next((kind for kind in _own if class_name(kind) == name), None)


def named_tree(value: Any) -> str:
    """Return the ``module:name`` that adapters save of a function or class; refuse local ones.

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
    """Return the ``module:name`` by which adapters find a function or class, or an empty text."""
    if isinstance(value, np.ufunc):
        name = f"numpy:{value.__name__}"
    else:
        name = f"{getattr(value, '__module__', None) or 'builtins'}:{value.__qualname__}"
    return name if find_by_name(name) is value else ""


NAMED = Adapter(named_tree, immutable=True, inner=True, by_name=True)


def is_named(kind: type) -> bool:
    """Return whether values of a class are functions or classes, which adapters save by name."""
    return issubclass(kind, _FUNCTIONS) or kind.__name__ == _CYTHON_FUNCTION


def find_named_value(name: str) -> Any:
    """Find an adapted function or class by its name; return an ``UnboundValue`` if missing."""
    value = find_by_name(name)
    adapter = find_adapter(type(value))
    return (
        value
        if adapter is not None and adapter.by_name
        else note_unbound(UnboundValue(name, 0, None))
    )


def package_of(kind: Any) -> str:
    """Return a class's top-level package, by whose name the registry finds an adapter."""
    return str(getattr(kind, "__module__", "") or "").partition(".")[0]


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes of a Python object by name, those in ``__slots__`` too."""
    kind: Any = type(value)
    slots = {name: getattr(value, name) for name in slot_names(kind) if hasattr(value, name)}
    return {**slots, **getattr(value, "__dict__", {})}


@lru_cache(maxsize=1024)
def slot_names(kind: type) -> tuple[str, ...]:
    """List the names in ``__slots__`` of a class and its bases."""
    return tuple(
        name
        for base in kind.__mro__
        for name, member in vars(base).items()
        if type(member) is MemberDescriptorType and not name.startswith("__")
    )


def class_text(value: Any) -> str:
    """Describe a value's class for messages of the registry: ``a value of class module.Name``."""
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{CLASS_PREFIX}{module}{kind.__qualname__}"


def is_shipped(kind: type) -> bool:
    """Return whether the adapter of a class comes with jobrun, which has tested what it keeps."""
    find_adapter(kind)
    return kind not in _foreign


def _search(kind: type) -> Adapter | None:
    _foreign.discard(kind)
    if kind in _own:
        _foreign.add(kind)
        return _own[kind]
    if is_named(kind):
        return NAMED
    here = __name__.rpartition(".")[0]
    for base in kind.__mro__:
        package = package_of(base)
        if package == "builtins" and base is not kind:
            continue
        if package in _STANDARD:
            name = "standard"
        elif package in _SHIPPED:
            name = _SHIPPED[package]
        else:
            found = _plugged_in(package, kind)
            if found is not None:
                _foreign.add(kind)
                return found
            continue
        adapter: Adapter | None = import_module(f"{here}.{name}").find(kind)
        if adapter is not None:
            return adapter
    admitted = _find_admitted(kind)
    if admitted is not None:
        _foreign.add(kind)
    return admitted


def _plugged_in(package: str, kind: type) -> Adapter | None:
    """Find a class's adapter through a Python entry point named after the class's package."""
    for point in _entry_points().get(package, ()):
        adapter: Adapter | None = point.load()(kind)
        if adapter is not None:
            return adapter
    return None


_points: dict[str, list[Any]] | None = None


def _entry_points() -> dict[str, list[Any]]:
    global _points  # noqa: PLW0603 - read once: a look at all installed packages takes time
    if _points is None:
        found: dict[str, list[Any]] = {}
        metadata: Any = import_module("importlib.metadata")
        for point in metadata.entry_points(group=GROUP):
            found.setdefault(point.name, []).append(point)
        _points = found
    return _points


def is_makeable(value: Any) -> bool:
    """Return whether a registered adapter can rebuild this value from its saved form."""
    adapter = find_adapter(type(value))
    return adapter is not None and adapter.make is not None


def is_adapted(value: Any) -> bool:
    """Return whether a registered adapter converts this value to plain values and back."""
    adapter = find_adapter(type(value))
    return type(value) is UnboundValue if adapter is None else adapter.is_value


def take_tree(adapter: Adapter, value: Any, path: Path = ()) -> Any:
    """Convert a value by its registered adapter to nested plain values; refuse unsavable parts.

    Raises:
        UnsavableError: It has something that cannot be kept, or its adapter fails.
    """
    try:
        return adapter.get(value)
    except UnsavableError as error:
        raise UnsavableError((*path, *error.path), error.what, error.part) from error
    except Exception as error:
        # Some libraries append the stack of their C code.
        first, *_ = (*str(error).splitlines(), "")
        what = f"{class_text(value)}, whose adapter failed: {type(error).__name__}: {first}"
        raise UnsavableError(path, what) from error


_HASHED = (set, frozenset)


def make_adapted(
    name: str, version: int, tree: Any, list_unbound: Callable[[Any], list[str]]
) -> Any:
    """Rebuild a saved value by its registered adapter; an ``UnboundValue`` if that is missing.

    Args:
        name: The value's class, ``module:qualified.name``.
        version: Of the form of the tree.
        tree: What the adapter returned for the value.
        list_unbound: Lists the classes in a tree that are not loaded, by name.

    Raises:
        ValueError: The adapter fails, or the tree is of another version of it.
    """
    kind = find_by_name(name)
    adapter = find_adapter(kind) if isinstance(kind, type) else None
    if adapter is None or adapter.make is None or class_name(kind) != name:
        return note_unbound(UnboundValue(name, version, tree))
    if adapter.version != version:
        raise ValueError(
            f"a value of class {name} was saved by version {version} of its adapter, and version "
            f"{adapter.version} is here"
        )
    if kind in _HASHED and list_unbound(tree):
        # The order of its items is that of their hashes, which stand-ins do not have.
        return note_unbound(UnboundValue(name, version, tree))
    try:
        return adapter.make(kind, tree)
    except Exception as error:
        if list_unbound(tree):
            # Made as soon as they are loaded: a defaultdict whose default is a user's function.
            return note_unbound(UnboundValue(name, version, tree))
        raise RemakeError(name, error) from error


def fill_adapted(value: Any, name: str, content: Any) -> None:
    """Fill a value, which its registered adapter has made empty, with its saved content.

    Raises:
        ValueError: The adapter fails.
    """
    if type(value) is UnboundValue:
        value.rest = content
        return
    adapter = find_adapter(type(value))
    if adapter is None or adapter.fill is None:
        raise ValueError(f"a value of class {name} was saved by an adapter of another form")
    try:
        adapter.fill(value, content)
    except Exception as error:
        raise RemakeError(name, error) from error


class OtherKind(Kind):
    """Objects, and what no blob can hold; only of subclasses of dict are the parts known."""

    def parts(self, value: Any) -> Steps:
        """Return the items of a dict."""
        return dict_parts(value) if isinstance(value, dict) else ()

    def is_mutable(self, value: Any) -> bool:
        """Return whether it is a dict."""
        return isinstance(value, dict)


class AdaptedKind(OtherKind):
    """Values that an adapter takes apart."""

    def __init__(self, value_class: type) -> None:
        super().__init__(value_class)
        adapter = find_adapter(value_class)
        assert adapter is not None  # noqa: S101 - it matches
        self.adapter: Adapter = adapter
        self.is_memory = adapter.immutable and adapter.memory is not None

    @staticmethod
    def matches(value_class: type) -> bool:
        """Return whether values of a class have an adapter."""
        return find_adapter(value_class) is not None

    def parts(self, value: Any) -> Steps:
        """Return the items of a dict; of another value its tree."""
        if self.adapter.immutable or isinstance(value, dict):
            return super().parts(value)
        return ((SELF, self.adapter.get(value)),)

    def saved_parts(self, value: Any) -> Iterable[Any]:
        """Return the tree of a value."""
        return (self.adapter.get(value),)

    def is_mutable(self, value: Any) -> bool:
        """Return whether a value, or memory that it is over, can change."""
        if self.adapter.immutable:
            return self.is_memory or super().is_mutable(value)
        return not isinstance(value, tuple)

    def is_fixed(self, value: Any) -> bool:  # noqa: ARG002 - as of any kind
        """Return whether the adapter says that nothing can change it."""
        return self.adapter.immutable


class UnboundKind(Kind):
    """Values whose class is not loaded: no code can have a part of one, but a checkpoint does."""

    @staticmethod
    def matches(value_class: type) -> bool:
        """Return whether values of a class are those of one that is not loaded."""
        return value_class is UnboundValue

    def saved_parts(self, value: Any) -> Iterable[Any]:
        """Return what the adapter had returned."""
        return (value.tree, value.rest)
