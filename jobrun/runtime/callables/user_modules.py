"""Import a user's module, from the spec's folder first."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.text.names import did_you_mean
from jobrun.values.adapters import registry

# sys.path and sys.modules belong to the whole process.
_LOCK = threading.RLock()


class FolderOnPath:
    """Makes the modules of one folder importable, after everything installed.

    For imports that a callable makes while it runs, and for the processes that it starts with
    ``multiprocessing``: unless they are forked, they get a copy of ``sys.path``, and import the
    functions that they are to call. The callable's own module is found by ``load_callable``.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._is_added = False

    def add(self) -> None:
        """Add the folder to ``sys.path``: user modules are found in it until ``remove``."""
        with _LOCK:
            sys.path.append(self._folder)
            self._is_added = True

    def remove(self) -> None:
        """Remove the folder of user modules from ``sys.path``. May be called twice."""
        with _LOCK:
            if self._is_added and self._folder in sys.path:
                # Remove the last one: users may have added the folder themselves, further in front.
                del sys.path[len(sys.path) - 1 - sys.path[::-1].index(self._folder)]
            self._is_added = False


def admit_classes(names: Iterable[str], folder: str) -> None:
    """Import what ``adapt`` names in a spec, and admit its classes to blobs of this process.

    Raises:
        EnvironmentFaultError: E207, a module is not there.
        TaskFailedError: E207, a module failed while loading; E250, it has no such class.
    """
    registry.admit([_admitted_name(name, folder) for name in names])


def _admitted_name(name: str, folder: str) -> str:
    """Return the dotted name of a package or module, or of a class where it is defined."""
    _module(re.split("[.:]", name)[0], folder)
    module_name, attributes = split_adapted(name, find_spec)
    owner: Any = _module(module_name, folder)
    for part in attributes:
        if not hasattr(owner, part):
            known = [
                class_name for class_name, value in vars(owner).items() if isinstance(value, type)
            ]
            raise TaskFailedError.of(
                "E250", f"adapt: '{module_name}' has no class '{part}'", did_you_mean(part, known)
            )
        owner = getattr(owner, part)
    if not attributes:
        return module_name
    return f"{owner.__module__}.{owner.__qualname__}"


def split_adapted(name: str, is_module: Callable[[str], object]) -> tuple[str, list[str]]:
    """Split a name of ``adapt`` into a module and the attributes that lead to a class in it.

    They are apart by a colon, or by dots: then the longest name of a module counts.
    """
    if ":" in name:
        module, _, path = name.partition(":")
        return module, path.split(".")
    parts = name.split(".")
    for count in range(len(parts), 1, -1):
        if is_module(".".join(parts[:count])):
            return ".".join(parts[:count]), parts[count:]
    return parts[0], parts[1:]


def load_callable(target: str, folder: str) -> Callable[..., Any]:
    """Import the callable ``module:name``, from the user's folder if it is there, else installed.

    Raises:
        EnvironmentFaultError: E207, the module or something it imports is not there.
        TaskFailedError: E207, the module failed while loading, or has no such callable.
    """
    module_name, _, attribute = target.partition(":")
    module = _module(module_name, folder)
    owner: Any = module
    for part in attribute.split("."):
        if not hasattr(owner, part):
            names = [name for name in dir(owner) if not name.startswith("_")]
            raise TaskFailedError.of(
                "E207",
                f"'{module_name}' has no '{attribute}'",
                did_you_mean(part, names),
            )
        owner = getattr(owner, part)
    if not callable(owner):
        raise TaskFailedError.of("E207", f"'{target}' is not callable", "name a function")
    function: Callable[..., Any] = owner
    return function


def _module(name: str, folder: str) -> ModuleType:
    with _LOCK:
        _forget_other(name.partition(".")[0], folder)
        sys.path.insert(0, folder)
        # Files written a moment ago may be newer than what the finders have listed.
        importlib.invalidate_caches()
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise EnvironmentFaultError.of(
                "E207",
                f"the module '{name}' cannot be imported: {error}",
                f"put it into '{folder}', or install what is missing",
            ) from error
        except Exception as error:
            raise TaskFailedError.of(
                "E207",
                f"the module '{name}' failed while loading with {type(error).__name__}: {error}",
                "fix the module; its traceback is in the error's notes",
            ) from error
        finally:
            sys.path.remove(folder)


def find_hidden_module(name: str, folder: str) -> str:
    """Return the file in a folder of which a module of Python's own takes the place, or "".

    A program that is begun in the folder may import the file. Here the other one is loaded already,
    and much depends on it.
    """
    top = name.partition(".")[0]
    if top not in sys.stdlib_module_names or top not in sys.modules:
        return ""
    return _find_other(top, folder)


def hidden_module_texts(name: str, file: str) -> tuple[str, str]:
    """Return the message and the mend for a file that ``find_hidden_module`` has found."""
    top = name.partition(".")[0]
    return (
        f"the module '{top}' is the one of Python's standard library, and not '{file}'",
        "give the file another name",
    )


def _find_other(top: str, folder: str) -> str:
    """Return the module's file in a folder if the one that is loaded is another, or ""."""
    loaded = sys.modules.get(top)
    here = PathFinder.find_spec(top, [folder])
    if loaded is None or here is None or here.origin is None:
        return ""
    if getattr(loaded, "__file__", None) and Path(str(loaded.__file__)) == Path(here.origin):
        return ""
    return here.origin


def _forget_other(top: str, folder: str) -> None:
    """Forget an imported module if the user's folder has one of its name, to import that one.

    Raises:
        TaskFailedError: E207, it is a module of Python's own.
    """
    other = _find_other(top, folder)
    if not other:
        return
    if top in sys.stdlib_module_names:
        raise TaskFailedError.of("E207", *hidden_module_texts(top, other))
    for name in [
        module_name
        for module_name in sys.modules
        if module_name == top or module_name.startswith(f"{top}.")
    ]:
        del sys.modules[name]
