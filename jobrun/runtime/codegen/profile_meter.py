"""Measure how long steps take, for ``--profile``: timers of blocks, loops and their passes.

A ``Meter`` is given to a session, whose blocks are then instrumented (see ``instrument``); without
one there is no trace of any of this in the code. Each instance of a task adds its times to lists
that no other thread writes to.
"""

from __future__ import annotations

import ast
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from jobrun.runtime.codegen.expressions import Globals
from jobrun.runtime.codegen.instrument import SAMPLED, Instrumentation
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.profile_times import BlockTime, Owner, Span, StepTime
from jobrun.runtime.context.cancel import PASSES
from jobrun.runtime.context.frame import Frame

# So many runs of blocks get a bar of their own in a trace; further ones only count.
SPANS = 20_000


class StepTimers:
    """Timers of the steps of one block for one owner. Used by one thread at a time.

    Attributes:
        seconds: By the number of the place; in the second half what was looked into now and then.
        calls: Likewise.
    """

    __slots__ = (
        "_epoch", "_meter", "_passes", "_spent", "_started", "_turns", "_unfinished", "calls",
        "owner", "runs", "seconds", "spans", "total",
    )  # fmt: skip

    def __init__(self, meter: Meter, owner: Owner, places: int, loops: int) -> None:
        self._meter = meter
        self.owner = owner
        self.seconds = [0.0] * (2 * places)
        self.calls = [0] * (2 * places)
        # By loop: chunks so far, passes not looked into, their time, and that of cut ones.
        self._turns = [0] * loops
        self._passes = [0] * loops
        self._spent = [0.0] * loops
        self._unfinished = [0.0] * loops
        self.runs = 0
        self.total = 0.0
        self.spans: list[Span] = []
        self._started = 0.0
        self._epoch = 0

    def begin(self, epoch: int) -> None:
        """Start the meter's timers for one run of a block."""
        self._epoch = epoch
        self._started = time.perf_counter()

    def end(self) -> None:
        """Stop the meter's timers after one run of a block, however it ended."""
        now = time.perf_counter()
        self.runs += 1
        self.total += now - self._started
        if self._meter.has_room():
            self.spans.append(Span(self._started, now, self._epoch, threading.get_ident()))

    def begin_chunk(self, loop: int) -> bool:
        """Return whether the profile meter times each step in a loop's next chunk of passes."""
        number = self._turns[loop]
        self._turns[loop] = number + 1
        return number % SAMPLED == 0

    def add_plain_chunk(self, loop: int, passes: int, last: float) -> float:
        """Add the time of a loop's chunk that was metered as a whole; return it."""
        now = time.perf_counter()
        self._passes[loop] += min(passes, PASSES)
        self._spent[loop] += now - last
        return now

    def add_unfinished_chunk(self, loop: int, last: float) -> float:
        """Add to the profile meter's timers a loop's chunk left at an unknown pass."""
        now = time.perf_counter()
        self._unfinished[loop] += now - last
        return now

    def add_plain_passes(self, loop: int, number: int, last: float) -> float:
        """Add the time of passes that were not metered step by step; return it."""
        now = time.perf_counter()
        if number:
            self._passes[loop] += SAMPLED - 1
            self._spent[loop] += now - last
        return now

    def add_last_passes(self, loop: int, number: int, last: float) -> float:
        """Add the time that the meter took for the last passes of a numbered loop."""
        now = time.perf_counter()
        if number >= 0:
            self._passes[loop] += number % SAMPLED
            self._spent[loop] += now - last
        return now

    def is_counted(self, loop: int, place: int, one: int) -> bool:
        """Return whether a metered step surely ran exactly once in each pass of its loop."""
        half = len(self.calls) // 2
        if not (self._passes[loop] or self._unfinished[loop]):
            return True
        once = self.calls[half + one] == self.calls[half + place]
        return once and not self._unfinished[loop]

    def scale(self, loop: int, place: int, inside: frozenset[int], read_s: float) -> _Scaled:
        """Scale what the profile meter measured in some passes of a loop to all its passes."""
        half = len(self.calls) // 2
        seen = self.calls[half + place]
        own = {
            one: max(0.0, self.seconds[half + one] - read_s * self.calls[half + one])
            for one in (place, *inside)
        }
        known = sum(own.values())
        passes = float(seen + self._passes[loop])
        plain_s = self._spent[loop] + self._unfinished[loop]
        if self._unfinished[loop]:
            timed_s = self._spent[loop] or known
            timed = self._passes[loop] or seen
            passes += timed * self._unfinished[loop] / timed_s if timed_s > 0 else 0
        times = passes / seen if seen else 0.0
        longer = (known + plain_s) / known if known > 0 else 0.0
        return _Scaled(times, longer, own)


class _Scaled(NamedTuple):
    """The factor from sampled to all passes for calls and seconds, and the sampled seconds."""

    calls: float
    seconds: float
    own: dict[int, float]


class Meter:
    """Measures how long the steps of one invocation take, or of one process of it.

    Args:
        room: So many runs of blocks are kept by themselves.
    """

    def __init__(self, room: int = SPANS) -> None:
        self.started = time.perf_counter()
        self._blocks: list[_MeteredBlock] = []
        self._elsewhere = RemoteTimes()
        self._room = room
        self._read_s = _clock_read_cost_s()

    def instrument(
        self, body: list[ast.stmt], places: Sequence[StepLocation], path: str, table: Globals
    ) -> list[ast.stmt]:
        """Put the profile meter's clock reads into the statements of a block."""
        instrumentation = Instrumentation([place.path for place in places])
        block = _MeteredBlock(self, path, tuple(places), instrumentation)
        self._blocks.append(block)
        begin = table.bind(block.begin, "begin")
        return instrumentation.block(body, begin, table.bind(time.perf_counter, "clock"))

    def has_room(self) -> bool:
        """Reserve a place in the profile meter for one time span; return whether one was free."""
        self._room -= 1
        return self._room >= 0

    def times(self) -> tuple[BlockTime, ...]:
        """Return all step times that the meter has measured, in the order of their blocks."""
        return (*self._own(list), *self._elsewhere.times())

    def take_times(self) -> tuple[BlockTime, ...]:
        """Return all step times in the profile meter; take the time spans out of it.

        Only between groups.
        """
        return self._own(_taken)

    def merge_times(self, teller: str, times: Sequence[BlockTime]) -> None:
        """Add what the profile meter of another process measured; any thread may call this."""
        self._elsewhere.merge_times(teller, times)

    def _own(self, spans_of: Callable[[list[Span]], list[Span]]) -> tuple[BlockTime, ...]:
        return tuple(one for block in self._blocks for one in block.times(self._read_s, spans_of))


def _taken(spans: list[Span]) -> list[Span]:
    """Take the time spans that a profile meter has measured out of a list."""
    found = list(spans)
    spans.clear()
    return found


class _MeteredBlock:
    """One measured block's code, and the timers of all owners that have run it."""

    def __init__(
        self,
        meter: Meter,
        path: str,
        places: tuple[StepLocation, ...],
        instrumentation: Instrumentation,
    ) -> None:
        self._meter = meter
        self._path = path
        self._places = places
        self._instrumentation = instrumentation
        self._timers: dict[Owner, StepTimers] = {}

    def begin(self, frame: Frame) -> StepTimers:
        """Start a block's timers in the profile meter, for one more run by the frame's owner."""
        owner = Owner(frame.run.group, frame.node.name, frame.task, frame.instance)
        timers = self._timers.get(owner)
        if timers is None:
            made = StepTimers(
                self._meter, owner, len(self._places), len(self._instrumentation.loops)
            )
            timers = self._timers.setdefault(owner, made)
        timers.begin(frame.epoch)
        return timers

    def times(self, read_s: float, spans_of: Callable[[list[Span]], list[Span]]) -> list[BlockTime]:
        """Return what the profile meter measured of a block, for each task and instance."""
        return [
            BlockTime(
                owner,
                self._path,
                timers.runs,
                timers.total,
                self._steps(timers, read_s),
                tuple(spans_of(timers.spans)),
            )
            for owner, timers in list(self._timers.items())
        ]

    def _steps(self, timers: StepTimers, read_s: float) -> tuple[StepTime, ...]:
        count = len(self._places)
        calls = [float(one) for one in timers.calls[:count]]
        seconds = [
            max(0.0, spent - read_s * many)
            for spent, many in zip(timers.seconds[:count], calls, strict=True)
        ]
        estimated: set[int] = set()
        for loop, (place, inside) in enumerate(self._instrumentation.loops):
            found = timers.scale(loop, place, inside, read_s)
            for one, spent in found.own.items():
                seconds[one] += spent * found.seconds
                if one != place:
                    calls[one] += timers.calls[count + one] * found.calls
                    if not timers.is_counted(loop, place, one):
                        estimated.add(one)
        return self._merged(calls, seconds, estimated)

    def _merged(
        self, calls: list[float], seconds: list[float], estimated: set[int]
    ) -> tuple[StepTime, ...]:
        """Merge what the profile meter measured of a step at several places of the code."""
        found: dict[str, StepTime] = {}
        for number, place in enumerate(self._places):
            before = found.get(place.path)
            found[place.path] = StepTime(
                place.path,
                place.origin.line,
                (before.calls if before else 0) + round(calls[number]),
                (before.seconds if before else 0.0) + seconds[number],
                number in estimated or (before is not None and before.estimated),
            )
        return tuple(found.values())


def _clock_read_cost_s() -> float:
    """Measure what one clock read of the meter takes, in seconds, to be subtracted."""
    clock, seconds, calls, best = time.perf_counter, [0.0], [0], 1.0
    for _ in range(5):
        begun = last = clock()
        for _ in range(200):
            now = clock()
            seconds[0] += now - last
            calls[0] += 1
            last = now
        best = min(best, (clock() - begun) / 200)
    return best


class RemoteTimes:
    """Step times that other processes have measured. Any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, tuple[BlockTime, ...]] = {}
        self._spans: dict[str, dict[tuple[Owner, str], list[Span]]] = {}

    def merge_times(self, teller: str, times: Sequence[BlockTime]) -> None:
        """Add to the profile meter what was measured by that of another process.

        Args:
            teller: No two processes of an invocation have the same, nor one that is lost and the
                one in its place.
            times: All that it has measured, each with the spans that were not reported before.
        """
        with self._lock:
            self._newest[teller] = tuple(replace(one, spans=()) for one in times)
            spans = self._spans.setdefault(teller, defaultdict(list))
            for one in times:
                if one.spans:
                    spans[one.owner, one.path] += one.spans

    def times(self) -> Iterator[BlockTime]:
        """Iterate over step times that profile meters of other processes measured."""
        with self._lock:
            newest = dict(self._newest)
            left = {teller: dict(spans) for teller, spans in self._spans.items()}
        for teller, times in newest.items():
            for one in times:
                # A block may be there twice, made at different times: its spans are not.
                spans = left[teller].pop((one.owner, one.path), ())
                yield replace(one, spans=tuple(spans))
