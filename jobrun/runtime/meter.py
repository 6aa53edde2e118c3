"""Collects how long steps take: per block, per task and instance. How it is shown is ``tools``'.

A ``Meter`` is handed to a session, whose blocks then carry laps (see ``lapping``); without one
there is no trace of any of this in the code. Each instance of a task notes its own laps in
lists that no other thread writes to.
"""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobrun.runtime.cancel import PASSES
from jobrun.runtime.frame import Frame
from jobrun.runtime.gathered import Gathered
from jobrun.runtime.lapping import SAMPLED, Lapping
from jobrun.runtime.positions import Place
from jobrun.runtime.syntax import Globals

# So many runs of blocks get a bar of their own in a trace; further ones only count.
SPANS = 20_000


class Owner(NamedTuple):
    """Whose block ran: ``task`` is empty for what is around all tasks of the node."""

    group: str
    node: str
    task: str
    instance: int


class Span(NamedTuple):
    """One run of a block, in seconds of the monotonic clock of the process."""

    start: float
    end: float
    epoch: int
    thread: int


@dataclass(frozen=True, slots=True)
class StepTime:
    """What one step has taken by itself, without the steps inside it.

    Attributes:
        path: The step's path.
        line: Its line in the spec; 0 where there is none.
        calls: How often it ran.
        seconds: In all of them.
        estimated: Most passes around it were timed as a whole, and shared out by those looked into.
    """

    path: str
    line: int
    calls: int
    seconds: float
    estimated: bool


@dataclass(frozen=True, slots=True)
class BlockTime:
    """What one block has taken, of one owner, over all its runs.

    Attributes:
        path: The block's path.
        seconds: With everything inside, from its beginning to its end.
        spans: The first runs.
    """

    owner: Owner
    path: str
    runs: int
    seconds: float
    steps: tuple[StepTime, ...]
    spans: tuple[Span, ...]


class Laps:
    """What one owner's runs of one block have taken. Used by one thread at a time.

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
        """A run of the block begins."""
        self._epoch = epoch
        self._started = time.perf_counter()

    def end(self) -> None:
        """It has ended, in whichever way."""
        now = time.perf_counter()
        self.runs += 1
        self.total += now - self._started
        if self._meter.has_room():
            self.spans.append(Span(self._started, now, self._epoch, threading.get_ident()))

    def turn(self, loop: int) -> bool:
        """Whether the next chunk of passes is one to be looked into."""
        number = self._turns[loop]
        self._turns[loop] = number + 1
        return number % SAMPLED == 0

    def plain(self, loop: int, passes: int, last: float) -> float:
        """A chunk that was not looked into has ended; the present time."""
        now = time.perf_counter()
        self._passes[loop] += min(passes, PASSES)
        self._spent[loop] += now - last
        return now

    def left(self, loop: int, last: float) -> float:
        """Such a chunk was left early, after nobody knows how many passes; the present time."""
        now = time.perf_counter()
        self._unfinished[loop] += now - last
        return now

    def between(self, loop: int, number: int, last: float) -> float:
        """The pass of that number will be looked into, unlike those before it."""
        now = time.perf_counter()
        if number:
            self._passes[loop] += SAMPLED - 1
            self._spent[loop] += now - last
        return now

    def rest(self, loop: int, number: int, last: float) -> float:
        """A numbered loop has ended with the pass of that number; -1 for none."""
        now = time.perf_counter()
        if number >= 0:
            self._passes[loop] += number % SAMPLED
            self._spent[loop] += now - last
        return now

    def counted(self, loop: int, place: int, one: int) -> bool:
        """Whether it is known how often a place in the loop was passed: once in each pass."""
        half = len(self.calls) // 2
        if not (self._passes[loop] or self._unfinished[loop]):
            return True
        once = self.calls[half + one] == self.calls[half + place]
        return once and not self._unfinished[loop]

    def scaled(self, loop: int, place: int, inside: frozenset[int], lap_s: float) -> _Scaled:
        """What the loop's passes have taken in all, shared out by those looked into."""
        half = len(self.calls) // 2
        seen = self.calls[half + place]
        own = {one: max(0.0, self.seconds[half + one] - lap_s * self.calls[half + one])
               for one in (place, *inside)}  # fmt: skip
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
    """By how much calls and seconds must be multiplied, and the seconds of those looked into."""

    calls: float
    seconds: float
    own: dict[int, float]


class Meter:
    """The times of one invocation, or of one process of it.

    Args:
        room: So many runs of blocks are kept by themselves.
    """

    def __init__(self, room: int = SPANS) -> None:
        self.started = time.perf_counter()
        self._blocks: list[_MeteredBlock] = []
        self._elsewhere = Gathered()
        self._room = room
        self._lap_s = _lap_cost_s()

    def measured(
        self, body: list[ast.stmt], places: Sequence[Place], path: str, table: Globals
    ) -> list[ast.stmt]:
        """The statements of a block, with laps."""
        lapping = Lapping([place.path for place in places])
        block = _MeteredBlock(self, path, tuple(places), lapping)
        self._blocks.append(block)
        begin = table.bind(block.begin, "begin")
        return lapping.block(body, begin, table.bind(time.perf_counter, "clock"))

    def has_room(self) -> bool:
        """Whether a further run of a block is kept by itself."""
        self._room -= 1
        return self._room >= 0

    def times(self) -> tuple[BlockTime, ...]:
        """All that was measured, in the order in which the blocks were made."""
        return (*self._own(list), *self._elsewhere.times())

    def told(self) -> tuple[BlockTime, ...]:
        """All that was measured in this process; of spans only those not told before.

        Only between groups.
        """
        return self._own(_taken)

    def take_in(self, teller: str, times: Sequence[BlockTime]) -> None:
        """See ``Metering.take_in``."""
        self._elsewhere.take_in(teller, times)

    def _own(self, spans_of: Callable[[list[Span]], list[Span]]) -> tuple[BlockTime, ...]:
        return tuple(one for block in self._blocks for one in block.times(self._lap_s, spans_of))


def _taken(spans: list[Span]) -> list[Span]:
    """The spans, which are not there any more afterwards."""
    found = list(spans)
    spans.clear()
    return found


class _MeteredBlock:
    """One block's code, and the laps of all who have run it."""

    def __init__(
        self, meter: Meter, path: str, places: tuple[Place, ...], lapping: Lapping
    ) -> None:
        self._meter = meter
        self._path = path
        self._places = places
        self._lapping = lapping
        self._laps: dict[Owner, Laps] = {}

    def begin(self, frame: Frame) -> Laps:
        """The laps of the frame's owner, for one more run."""
        owner = Owner(frame.run.group, frame.node.name, frame.task, frame.instance)
        laps = self._laps.get(owner)
        if laps is None:
            made = Laps(self._meter, owner, len(self._places), len(self._lapping.loops))
            laps = self._laps.setdefault(owner, made)
        laps.begin(frame.epoch)
        return laps

    def times(self, lap_s: float, spans_of: Callable[[list[Span]], list[Span]]) -> list[BlockTime]:
        """For each owner what its runs have taken."""
        return [
            BlockTime(
                owner, self._path, laps.runs, laps.total, self._steps(laps, lap_s),
                tuple(spans_of(laps.spans)),
            )
            for owner, laps in list(self._laps.items())
        ]  # fmt: skip

    def _steps(self, laps: Laps, lap_s: float) -> tuple[StepTime, ...]:
        count = len(self._places)
        calls = [float(one) for one in laps.calls[:count]]
        seconds = [
            max(0.0, spent - lap_s * many)
            for spent, many in zip(laps.seconds[:count], calls, strict=True)
        ]
        estimated: set[int] = set()
        for loop, (place, inside) in enumerate(self._lapping.loops):
            found = laps.scaled(loop, place, inside, lap_s)
            for one, spent in found.own.items():
                seconds[one] += spent * found.seconds
                if one != place:
                    calls[one] += laps.calls[count + one] * found.calls
                    if not laps.counted(loop, place, one):
                        estimated.add(one)
        return self._merged(calls, seconds, estimated)

    def _merged(
        self, calls: list[float], seconds: list[float], estimated: set[int]
    ) -> tuple[StepTime, ...]:
        """By path: a step may be at several places of the code."""
        found: dict[str, StepTime] = {}
        for number, place in enumerate(self._places):
            before = found.get(place.path)
            found[place.path] = StepTime(
                place.path, place.origin.line,
                (before.calls if before else 0) + round(calls[number]),
                (before.seconds if before else 0.0) + seconds[number],
                number in estimated or (before is not None and before.estimated),
            )  # fmt: skip
        return tuple(found.values())


def _lap_cost_s() -> float:
    """What reading the clock and noting it takes by itself: it is taken off again."""
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
