"""Times that were measured in other processes, as they told them. Measures nothing itself.

Each process tells again and again what it has measured so far, and of the runs of blocks only
those that it has not told yet. What a process had told last stays, also when it is lost.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobrun.runtime.meter import BlockTime, Owner, Span


class Gathered:
    """What was told, by who told it. Any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, tuple[BlockTime, ...]] = {}
        self._spans: dict[str, dict[tuple[Owner, str], list[Span]]] = {}

    def take_in(self, teller: str, times: Sequence[BlockTime]) -> None:
        """Keep what a process has told.

        Args:
            teller: No two processes of an invocation have the same, nor one that is lost and the
                one in its place.
            times: All that it has measured, each with the spans that were not told before.
        """
        with self._lock:
            self._newest[teller] = tuple(replace(one, spans=()) for one in times)
            spans = self._spans.setdefault(teller, defaultdict(list))
            for one in times:
                if one.spans:
                    spans[one.owner, one.path] += one.spans

    def times(self) -> Iterator[BlockTime]:
        """All of it."""
        with self._lock:
            newest = dict(self._newest)
            left = {teller: dict(spans) for teller, spans in self._spans.items()}
        for teller, times in newest.items():
            for one in times:
                # A block may be there twice, made at different times: its spans are not.
                spans = left[teller].pop((one.owner, one.path), ())
                yield replace(one, spans=tuple(spans))
