"""Reserve one large block of memory for the Python calls of a thread, so that none is slow.

CPython keeps the frames of nested calls in blocks of 16 KiB. A call whose frame no longer fits
into its caller's block gets another one from the kernel, and gives it back when it returns. A loop
that happens to make its calls at such a depth pays 6 us for each of them instead of 20 ns (Python
3.11 to 3.13; ``tests/core/test_call_stack.py`` counts the pages). At which depth of a task's calls
that is depends on how deep the calls of jobrun below it are.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")

# A block is the least power of two that holds its first frame: 512 KiB for one that asks for
# 320,000 bytes, which leaves 200,000 bytes for the calls below, some 1,500 levels. What is never
# touched takes no memory.
_FRAME_VALUES = 40_000


def call_with_large_stack(function: Callable[[], Result]) -> Result:
    """Call a function with one large block of memory for the frames of all calls that it makes.

    It costs a few microseconds: call it once in each thread, below everything that takes long.
    """
    return function()


# A frame's size is that of its local variables and of the values that its code stacks at most.
call_with_large_stack.__code__ = call_with_large_stack.__code__.replace(co_stacksize=_FRAME_VALUES)
