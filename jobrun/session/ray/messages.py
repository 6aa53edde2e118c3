"""Encode messages to and from Ray actors as arguments of actor calls, and keep them in order.

Ray may reorder the calls of one actor, so frames are numbered, and ``Resequencer`` restores their
order. Nothing here needs Ray.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from jobrun.session.wire.codec import WIRE_TYPES, decode, encode

# The head of a message, and the memory (uint8) of its large arrays.
Frame = tuple[bytes, list[np.ndarray[Any, np.dtype[np.uint8]]]]


def encode_frame(value: Any, *, copied: bool = False) -> Frame:
    """Encode a value as a Ray message, sharing the memory of its arrays unless ``copied``.

    Raises:
        TaskFailedError: E274, an array's dtype cannot be encoded.
    """
    head, out_of_band = encode(value, WIRE_TYPES)
    arrays = [np.frombuffer(memory, np.uint8) for memory in out_of_band]
    return bytes(head), [one.copy() for one in arrays] if copied else arrays


def frame_size(frame: Frame) -> int:
    """Return the size in bytes of a message to or from an actor."""
    return len(frame[0]) + sum(one.nbytes for one in frame[1])


def decode_frame(frame: Frame) -> Any:
    """Decode the value of a message to or from an actor; its arrays own their memory."""
    head, arrays = frame
    left = iter(arrays)

    def fill(memory: memoryview) -> None:
        memory[:] = next(left).data

    return decode(head, WIRE_TYPES, fill)


class Resequencer:
    """Passes on numbered messages in order 0, 1, …; those that come too early wait.

    Args:
        put: Takes each frame; must not block.
    """

    def __init__(self, put: Callable[[Frame], None]) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._early: dict[int, Frame] = {}
        self._next = 0

    def receive(self, number: int, frame: Frame) -> None:
        """Accept a numbered message of actor calls that may arrive in any order. Thread-safe."""
        with self._lock:
            self._early[number] = frame
            while self._next in self._early:
                self._put(self._early.pop(self._next))
                self._next += 1
