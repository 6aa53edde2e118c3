"""Tune Python's interpreter: collect garbage seldom, import late, and reserve memory for calls.

CPython keeps the frames of nested calls in blocks of 16 KiB. A call whose frame no longer fits
into its caller's block gets another one from the kernel, and gives it back when it returns. A loop
that happens to make its calls at such a depth pays 6 us for each of them instead of 20 ns (Python
3.11 to 3.13; ``tests/core/test_call_stack.py`` counts the pages). At which depth of a task's calls
that is depends on how deep the calls of jobrun below it are.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Result = TypeVar("Result")

# Values made, and not released again, from which on it pays to leave them out of a search.
_MANY = 20_000
# A command has imported and made half as many before its first task.
_MORE_THAN_A_START = 200_000
# The thresholds before start-up changed them, once it has.
_usual: list[tuple[int, int, int]] = []
# A block is the least power of two that holds its first frame: 512 KiB for one that asks for
# 320,000 bytes, which leaves 200,000 bytes for the calls below, some 1,500 levels. What is never
# touched takes no memory.
_FRAME_VALUES = 40_000


def collect_seldom() -> None:
    """Make garbage collection rare while a command starts, as imported code is never freed."""
    _usual.append(gc.get_threshold())
    gc.set_threshold(_MORE_THAN_A_START)


def collect_as_usual() -> None:
    """Restore the garbage collector's usual thresholds, which ``collect_seldom`` had raised."""
    if _usual:
        _count_as_old()
    while _usual:
        gc.set_threshold(*_usual.pop())


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection inside the block; treat the objects made there as old ones.

    Reading and compiling a spec make millions of small values and no cycles among them: to search
    them again and again, or once at the end, takes as long as making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _count_as_old()
            gc.enable()


def _count_as_old() -> None:
    """Move all objects made so far to the garbage collector's oldest generation.

    The next collection of the youngest would search all of them.
    """
    # get_freeze_count() walks all that is frozen, which takes milliseconds.
    if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


def call_with_large_stack(function: Callable[[], Result]) -> Result:
    """Call a function with one large block of memory for the frames of all calls that it makes.

    It costs a few microseconds: call it once in each thread, below everything that takes long.
    """
    return function()


# A frame's size is that of its local variables and of the values that its code stacks at most.
call_with_large_stack.__code__ = call_with_large_stack.__code__.replace(co_stacksize=_FRAME_VALUES)


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
