"""Define the atomic counter, which several tasks may change at the same time."""

from __future__ import annotations

import threading

from jobrun.values.kinds import Kind


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
        """Increment the counter atomically; return the old value."""
        return self.add(1)

    def down(self) -> bool:
        """Decrement the counter atomically; return whether it was zero or less before that."""
        return self.add(-1) <= 0

    def add(self, amount: int) -> int:
        """Add an amount, which may be negative, to the counter atomically; return the old value."""
        with self._lock:
            old = self.value
            self.value = old + int(amount)
            return old

    def maximum(self, candidate: int) -> int:
        """Raise the counter atomically to ``candidate`` if that is more; return the old value."""
        with self._lock:
            old = self.value
            self.value = max(old, int(candidate))
            return old

    def reset(self) -> int:
        """Set the counter to zero atomically; return the old value."""
        with self._lock:
            old = self.value
            self.value = 0
            return old

    def __repr__(self) -> str:
        return f"Counter({self.value})"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


class CounterKind(Kind):
    """Counters."""

    is_memory = True

    @staticmethod
    def matches(value_class: type) -> bool:
        return value_class is Counter
