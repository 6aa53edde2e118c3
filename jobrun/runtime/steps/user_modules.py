"""Import a user's module, from the spec's folder first, without changing ``sys.path``."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.text.names import did_you_mean

# sys.path and sys.modules belong to the whole process.
_LOCK = threading.RLock()


class FolderFinder:
    """Finds modules of one folder by name, after everything installed.

    For imports that a callable makes while it runs; its own module is found by ``load_callable``.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a top-level module in the user's folder; None for submodules and all others."""
        del target
        return PathFinder.find_spec(name, [self._folder]) if path is None else None

    def install(self) -> None:
        """Install this finder: user modules are found in the folder until ``remove``."""
        sys.meta_path.append(self)

    def remove(self) -> None:
        """Remove this finder of user modules from the import system; repeatable."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def load_callable(target: str, folder: str) -> Callable[..., Any]:
    """Import the callable ``module:name``, from the user's folder if it is there, else installed.

    Raises:
        EnvironmentFaultError: E207, the module or something it imports is not there.
        TaskFailedError: E207, the module failed while loading, or has no such callable.
    """
    module_name, _, attribute = target.partition(":")
    module = _module(module_name, folder)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise TaskFailedError.of(
                "E207",
                f"'{module_name}' has no '{attribute}'",
                did_you_mean(part, names),
            )
        found = getattr(found, part)
    if not callable(found):
        raise TaskFailedError.of("E207", f"'{target}' is not callable", "name a function")
    function: Callable[..., Any] = found
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


def _forget_other(top: str, folder: str) -> None:
    """Forget the imported module of this name if the user's folder has another one."""
    loaded = sys.modules.get(top)
    here = PathFinder.find_spec(top, [folder])
    if loaded is None or here is None or here.origin is None:
        return
    if getattr(loaded, "__file__", None) and Path(str(loaded.__file__)) == Path(here.origin):
        return
    if top in sys.stdlib_module_names:
        return
    for name in [one for one in sys.modules if one == top or one.startswith(f"{top}.")]:
        del sys.modules[name]
