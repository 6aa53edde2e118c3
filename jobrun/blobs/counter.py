"""A counter that several tasks may change at the same time. Not a number: it has no arithmetic."""

from __future__ import annotations

import threading


class Counter:
    """One integer, every change of which is atomic.

    Each change answers with what was there before it, so that exactly one of several
    tasks sees a limit being reached.

    Attributes:
        value: The present number; Python's int, so it never overflows.
    """

    __slots__ = ("_lock", "value")

    def __init__(self, value: int = 0) -> None:
        self.value: int = int(value)
        self._lock = threading.Lock()

    def up(self) -> int:
        """Add one; returns the old value."""
        return self.add(1)

    def down(self) -> bool:
        """Take one away, also below zero; returns whether it was zero or less before."""
        return self.add(-1) <= 0

    def add(self, amount: int) -> int:
        """Add ``amount``, which may be negative; returns the old value."""
        with self._lock:
            old = self.value
            self.value = old + int(amount)
            return old

    def maximum(self, candidate: int) -> int:
        """Raise the value to ``candidate`` if that is more; returns the old value."""
        with self._lock:
            old = self.value
            self.value = max(old, int(candidate))
            return old

    def reset(self) -> int:
        """Back to zero; returns the old value."""
        with self._lock:
            old = self.value
            self.value = 0
            return old

    def __repr__(self) -> str:
        return f"Counter({self.value})"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)
