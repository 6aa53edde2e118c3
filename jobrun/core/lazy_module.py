"""Import a module at the first use of one of its names, where most commands use none of them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


def lazy_module(name: str) -> ModuleType:
    """Return a stand-in for a module, which is imported lazily: when an attribute is first read.

    A type checker needs an ``import`` of it beside this, under ``TYPE_CHECKING``.
    """
    return _Lazy(name)


class _Lazy(ModuleType):
    def __getattr__(self, name: str) -> Any:
        names = vars(import_module(self.__name__))
        # The next use of any name does not come here.
        vars(self).update(names)
        try:
            return names[name]
        except KeyError:
            message = f"module '{self.__name__}' has no attribute '{name}'"
            raise AttributeError(message) from None
