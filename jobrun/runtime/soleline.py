"""A line with one thread at each end, which locks nothing while nobody waits. No other rules.

With one writer nobody else fills the room that it sees, and with one reader nobody else takes
the record that it sees, so both can use the line's ends as they are: adding to and taking from
a ``deque`` are each one indivisible act of the interpreter. Whoever finds nothing to do goes
the way of all lines: it puts its bell up, looks once more, and only then waits; whoever did
something looks for bells after that. One of the two therefore always sees the other.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from jobrun.runtime.cancel import CancelScope
from jobrun.runtime.lines import LineInTurn, Values


class SoleLine(LineInTurn):
    """Records in turn, from one thread to one other.

    Args:
        capacity: How many records wait in it at most.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, 1, 1)

    def put(self, number: int, values: Values | None, scope: CancelScope) -> bool:
        """See ``Line.put``; one thread only."""
        records = self._records
        if values is None or self._readers < 1 or len(records) >= self._capacity:
            return super().put(number, values, scope)
        if self._writers < 1:
            self._is_read()
        records.append(values)
        if self._takers:
            self._wake(self._takers)
        return True

    def take(self, scope: CancelScope) -> tuple[int, Values] | None:
        """See ``Line.take``; one thread only."""
        try:
            values = self._records.popleft()
        except IndexError:
            return super().take(scope)
        if self._putters:
            self._wake(self._putters)
        number = self._takes
        self._takes = number + 1
        return number, values

    def _wake(self, waiting: deque[Any]) -> None:
        with self._lock:
            if waiting:
                waiting.popleft().put(None)
