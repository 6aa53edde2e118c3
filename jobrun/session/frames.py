"""Messages as what actor calls carry: bytes, and arrays that go apart. No cluster is known here.

Calls of one actor may overtake each other, so frames are numbered, and ``InOrder`` gives them back
as they were sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from jobrun.session.codec import decode, encode
from jobrun.session.crossing import TABLE

# The head of a message, and the memory (uint8) of its large arrays.
Frame = tuple[bytes, list[np.ndarray[Any, np.dtype[np.uint8]]]]


def frame_of(value: Any, *, copied: bool = False) -> Frame:
    """A value as a frame, which shares memory with it unless ``copied``.

    Raises:
        TaskFailedError: E274, an array's dtype cannot be told.
    """
    head, apart = encode(value, TABLE)
    arrays = [np.frombuffer(memory, np.uint8) for memory in apart]
    return bytes(head), [one.copy() for one in arrays] if copied else arrays


def size_of(frame: Frame) -> int:
    """In bytes."""
    return len(frame[0]) + sum(one.nbytes for one in frame[1])


def value_of_frame(frame: Frame) -> Any:
    """The value of a frame; its arrays own their memory."""
    head, arrays = frame
    left = iter(arrays)

    def fill(memory: memoryview) -> None:
        memory[:] = next(left).data

    return decode(head, TABLE, fill)


class InOrder:
    """Passes frames on by their numbers, 0, 1, …; those that came too early wait.

    Args:
        put: Takes each frame; must not block.
    """

    def __init__(self, put: Callable[[Frame], None]) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._early: dict[int, Frame] = {}
        self._next = 0

    def came(self, number: int, frame: Frame) -> None:
        """A frame has come. Any thread."""
        with self._lock:
            self._early[number] = frame
            while self._next in self._early:
                self._put(self._early.pop(self._next))
                self._next += 1
