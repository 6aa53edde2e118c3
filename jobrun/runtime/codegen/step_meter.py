"""Measure step times for ``--profile``: instrument blocks with clock reads, and add them up.

A ``Meter`` is given to a session, whose blocks are then instrumented; without one there is no trace
of any of this in the code. Each instance of a task adds its times to lists that no other thread
writes to.
"""

from __future__ import annotations

import ast
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.runtime.codegen.control_flow import QUICK
from jobrun.runtime.codegen.expressions import Globals, assign, call, item, load, store
from jobrun.runtime.codegen.line_table import StepLocation, location_number
from jobrun.runtime.codegen.meter_protocol import BlockTime, Owner, Span, StepTime
from jobrun.runtime.context.cancel import PASSES
from jobrun.runtime.context.frame import Frame

# A trace draws a bar for at most this many runs of blocks. Further runs are only counted.
SPANS = 20_000

# One of this many chunks of passes, or one of this many passes, is timed step by step.
SAMPLED = 32
_CLOCK, _LAST, _NOW = "_meter_clock", "_meter_last", "_meter_now"
_SECONDS, _CALLS, _TIMERS = "_meter_seconds", "_meter_calls", "_meter_timers"
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise)


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
        # By loop: chunks so far, passes not timed by step, their seconds, and seconds of cut ones.
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
        """Start the step meter's timers for one run of a block of steps."""
        self._epoch = epoch
        self._started = time.perf_counter()

    def end(self) -> None:
        """Stop the step meter's timers after one run of a block, however it ended."""
        now = time.perf_counter()
        self.runs += 1
        self.total += now - self._started
        if self._meter.has_room():
            self.spans.append(Span(self._started, now, self._epoch, threading.get_ident()))

    def begin_chunk(self, loop: int) -> bool:
        """Count a loop's next chunk of passes; return whether the step meter times its steps."""
        number = self._turns[loop]
        self._turns[loop] = number + 1
        return number % SAMPLED == 0

    def add_plain_chunk(self, loop: int, passes: int, last: float) -> float:
        """Add to the step meter a chunk of loop passes timed as a whole; return the time now."""
        now = time.perf_counter()
        self._passes[loop] += min(passes, PASSES)
        self._spent[loop] += now - last
        return now

    def add_unfinished_chunk(self, loop: int, last: float) -> float:
        """Add to the step meter a chunk of loop passes that ended early; return the time now."""
        now = time.perf_counter()
        self._unfinished[loop] += now - last
        return now

    def add_plain_passes(self, loop: int, number: int, last: float) -> float:
        """Add to the step meter some loop passes timed as a whole; return the time now."""
        now = time.perf_counter()
        if number:
            self._passes[loop] += SAMPLED - 1
            self._spent[loop] += now - last
        return now

    def add_last_passes(self, loop: int, number: int, last: float) -> float:
        """Add to the step meter a loop's passes since its last sample; return the time now."""
        now = time.perf_counter()
        if number >= 0:
            self._passes[loop] += number % SAMPLED
            self._spent[loop] += now - last
        return now

    def is_counted(self, loop: int, head: int, step: int) -> bool:
        """Return whether a step ran once per pass of a loop that the step meter times in part."""
        half = len(self.calls) // 2
        if not (self._passes[loop] or self._unfinished[loop]):
            return True
        once = self.calls[half + step] == self.calls[half + head]
        return once and not self._unfinished[loop]

    def scale(self, loop: int, head: int, inside: frozenset[int], read_s: float) -> _Scaled:
        """Scale times that the step meter took in some passes of a loop up to all its passes."""
        half = len(self.calls) // 2
        timed_passes = self.calls[half + head]
        measured_s = {
            step: max(0.0, self.seconds[half + step] - read_s * self.calls[half + step])
            for step in (head, *inside)
        }
        known_s = sum(measured_s.values())
        passes = float(timed_passes + self._passes[loop])
        plain_s = self._spent[loop] + self._unfinished[loop]
        if self._unfinished[loop]:
            timed_s = self._spent[loop] or known_s
            timed = self._passes[loop] or timed_passes
            passes += timed * self._unfinished[loop] / timed_s if timed_s > 0 else 0
        times = passes / timed_passes if timed_passes else 0.0
        longer = (known_s + plain_s) / known_s if known_s > 0 else 0.0
        return _Scaled(times, longer, measured_s)


class _Scaled(NamedTuple):
    """The factor from sampled to all passes for calls and seconds, and the sampled seconds."""

    calls: float
    seconds: float
    measured_s: dict[int, float]


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
        self, body: list[ast.stmt], locations: Sequence[StepLocation], path: str, table: Globals
    ) -> list[ast.stmt]:
        """Insert the step meter's clock reads between the statements of a block."""
        instrumentation = Instrumentation([location.path for location in locations])
        block = _MeteredBlock(self, path, tuple(locations), instrumentation)
        self._blocks.append(block)
        begin = table.bind(block.begin, "begin")
        return instrumentation.block(body, begin, table.bind(time.perf_counter, "clock"))

    def has_room(self) -> bool:
        """Count a block's run in the step meter; return False beyond its maximum of runs."""
        self._room -= 1
        return self._room >= 0

    def times(self) -> tuple[BlockTime, ...]:
        """Return all step times from the step meter: this process's, then other processes'."""
        return (*self._own(list), *self._elsewhere.times())

    def take_times(self) -> tuple[BlockTime, ...]:
        """Return all step times that this process's step meter measured, and clear its time spans.

        Only between groups.
        """
        return self._own(_taken)

    def merge_times(self, reporter: str, times: Sequence[BlockTime]) -> None:
        """Add step times that another process's step meter measured; any thread may call this."""
        self._elsewhere.merge_times(reporter, times)

    def _own(self, spans_of: Callable[[list[Span]], list[Span]]) -> tuple[BlockTime, ...]:
        return tuple(
            block_time
            for block in self._blocks
            for block_time in block.times(self._read_s, spans_of)
        )


def _taken(spans: list[Span]) -> list[Span]:
    """Return a copy of a step meter's list of time spans, and clear that list."""
    taken = list(spans)
    spans.clear()
    return taken


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
        """Start and return the step meter's timers for one run of a block by a task on a node."""
        owner = Owner(frame.run.group, frame.node.name, frame.task, frame.instance)
        timers = self._timers.get(owner)
        if timers is None:
            new = StepTimers(
                self._meter, owner, len(self._places), len(self._instrumentation.loops)
            )
            timers = self._timers.setdefault(owner, new)
        timers.begin(frame.epoch)
        return timers

    def times(self, read_s: float, spans_of: Callable[[list[Span]], list[Span]]) -> list[BlockTime]:
        """Return the step meter's times of a block, for each copy of a task that ran it."""
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
        calls = [float(number) for number in timers.calls[:count]]
        seconds = [
            max(0.0, spent - read_s * many)
            for spent, many in zip(timers.seconds[:count], calls, strict=True)
        ]
        estimated: set[int] = set()
        for loop, (head, inside) in enumerate(self._instrumentation.loops):
            scaled = timers.scale(loop, head, inside, read_s)
            for step, spent in scaled.measured_s.items():
                seconds[step] += spent * scaled.seconds
                if step != head:
                    calls[step] += timers.calls[count + step] * scaled.calls
                    if not timers.is_counted(loop, head, step):
                        estimated.add(step)
        return self._merged(calls, seconds, estimated)

    def _merged(
        self, calls: list[float], seconds: list[float], estimated: set[int]
    ) -> tuple[StepTime, ...]:
        """Merge the step meter's times of each step whose code was generated at several places."""
        merged: dict[str, StepTime] = {}
        for number, location in enumerate(self._places):
            before = merged.get(location.path)
            merged[location.path] = StepTime(
                location.path,
                location.origin.line,
                (before.calls if before else 0) + round(calls[number]),
                (before.seconds if before else 0.0) + seconds[number],
                number in estimated or (before is not None and before.estimated),
            )
        return tuple(merged.values())


def _clock_read_cost_s() -> float:
    """Measure how many seconds one clock read takes, which the step meter subtracts from times."""
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

    def merge_times(self, reporter: str, times: Sequence[BlockTime]) -> None:
        """Replace the step times received from another process's step meter by its newest ones.

        Args:
            reporter: No two processes of an invocation have the same, nor one that is lost and the
                one in its place.
            times: All that it has measured, each with the spans that were not reported before.
        """
        with self._lock:
            self._newest[reporter] = tuple(replace(block_time, spans=()) for block_time in times)
            spans = self._spans.setdefault(reporter, defaultdict(list))
            for block_time in times:
                if block_time.spans:
                    spans[block_time.owner, block_time.path] += block_time.spans

    def times(self) -> Iterator[BlockTime]:
        """Iterate over step times that were received from other processes' step meters."""
        with self._lock:
            newest = dict(self._newest)
            unread = {reporter: dict(spans) for reporter, spans in self._spans.items()}
        for reporter, times in newest.items():
            for block_time in times:
                # A block may be listed twice, but its spans only once.
                spans = unread[reporter].pop((block_time.owner, block_time.path), ())
                yield replace(block_time, spans=tuple(spans))


class Instrumentation(Struct):
    """Adds clock reads to the statements of one block.

    Args:
        paths: The path of each place of the block, by number.

    Attributes:
        loops: For each loop that is looked into now and then: its place, and those inside.
    """

    paths: Sequence[str]
    loops: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    # Offset of the separate slots for sampled passes.
    _apart: int = 0

    def block(self, body: list[ast.stmt], begin: ast.expr, clock: ast.expr) -> list[ast.stmt]:
        """Add the step meter's clock reads to a block's statements, and start and stop its timers.

        Args:
            body: As ``Control`` has made it, every statement with its place.
            begin: A function from the frame to the ``Laps`` of this run of the block.
            clock: A function that gives the time in seconds.
        """
        lapped = self._list(deepcopy(body)) or [ast.Pass()]
        ended = ast.Expr(call(load(f"{_TIMERS}.end")))
        return [
            assign(_TIMERS, call(begin, load("f"))),
            assign(_SECONDS, load(f"{_TIMERS}.seconds")),
            assign(_CALLS, load(f"{_TIMERS}.calls")),
            assign(_CLOCK, clock),
            assign(_LAST, call(load(_CLOCK))),
            ast.Try(lapped, [], [], [ended]),
        ]

    def _list(self, statements: list[ast.stmt], enclosing: int | None = None) -> list[ast.stmt]:
        """Add the step meter's clock reads to a list of statements and to what they contain."""
        timed: list[ast.stmt] = []
        for index, statement in enumerate(statements):
            location = location_number(statement)
            following = (
                location_number(statements[index + 1]) if index + 1 < len(statements) else None
            )
            if location is None or _is_check(statement):
                timed.append(statement)
            elif location == enclosing:
                timed += [
                    statement,
                    *(self._clock_read(location, counts=False) if location != following else []),
                ]
            elif isinstance(statement, _LEAVING):
                timed += [*self._clock_read(location), statement]
            else:
                timed += self._timed(statement, location, last=location != following)
        return timed

    def _timed(self, statement: ast.stmt, location: int, *, last: bool) -> list[ast.stmt]:
        match statement:
            case ast.While(body=[ast.For() as chunk, ast.Break()]) if _is_light(chunk):
                return [*self._chunks(statement, chunk, location), *self._clock_read(location)]
            case ast.For(target=ast.Name(id=number)) if number != "_" and _is_light(statement):
                return [*self._numbered(statement, number, location), *self._clock_read(location)]
            case ast.For() | ast.While():
                statement.body = self._inside(statement.body, location)
                return [statement, *self._clock_read(location)]
            case ast.If(test=ast.Name(id=chosen)) if chosen == QUICK:
                # Two variants of one loop.
                statement.body, statement.orelse = (
                    self._list(statement.body),
                    self._list(statement.orelse),
                )
                return [statement]
            case ast.If() if not _is_plain(statement, location):
                statement.body = [*self._clock_read(location), *self._list(statement.body)]
                again = statement.orelse and self._path(
                    location_number(statement.orelse[0])
                ) == self._path(location)
                statement.orelse = [
                    *self._clock_read(location, counts=not again),
                    *self._list(statement.orelse),
                ]
                return [statement]
            case ast.If(body=[*_, leaving]) if isinstance(leaving, _LEAVING):
                statement.body = [*statement.body[:-1], *self._clock_read(location), leaving]
            case ast.Try() if not _is_plain(statement, location):
                statement.body = self._list(statement.body)
        return [statement, *self._clock_read(location)] if last else [statement]

    def _inside(self, body: list[ast.stmt], location: int) -> list[ast.stmt]:
        """Add the step meter's clock reads to a loop's body; the loop's head counts as the loop."""
        if len(body) == 2 and isinstance(body[0], ast.For) and isinstance(body[1], ast.Break):
            chunk = body[0]
            chunk.body = [
                *self._clock_read(location, counts=False),
                *self._list(chunk.body, location),
            ]
            return body
        return [*self._clock_read(location, counts=False), *self._list(body, location)]

    def _chunks(self, whole: ast.While, chunk: ast.For, location: int) -> list[ast.stmt]:
        """Add the step meter's clock reads to a loop generated to run in chunks of passes."""
        loop = self._register(chunk.body, location)
        passes: ast.expr = ast.Constant(PASSES)
        if isinstance(chunk.iter, ast.IfExp) and isinstance(chunk.iter.test, ast.Compare):
            passes = deepcopy(chunk.iter.test.left)
        plain = deepcopy(chunk)
        plain.orelse = [*_report("add_plain_chunk", ast.Constant(loop), passes), *plain.orelse]
        chunk.body = self._sampled(chunk.body, location)
        turn = call(load(f"{_TIMERS}.begin_chunk"), ast.Constant(loop))
        unfinished = _report("add_unfinished_chunk", ast.Constant(loop))
        whole.body = [ast.If(turn, [chunk], [plain, *unfinished]), ast.Break()]
        return [whole]

    def _numbered(self, whole: ast.For, number: str, location: int) -> list[ast.stmt]:
        """Add the step meter's clock reads to a loop that counts its passes in a variable."""
        loop = ast.Constant(self._register(whole.body, location))
        plain = deepcopy(whole.body)
        between = _report("add_plain_passes", loop, load(number))
        is_plain_pass = ast.BinOp(load(number), ast.BitAnd(), ast.Constant(SAMPLED - 1))
        whole.body = [
            ast.If(is_plain_pass, plain, [*between, *self._sampled(whole.body, location)])
        ]
        first = assign(number, ast.Constant(-1))
        return [first, whole, *_report("add_last_passes", loop, load(number))]

    def _register(self, body: list[ast.stmt], location: int) -> int:
        nodes = (
            node for statement in body for node in ast.walk(statement) if isinstance(node, ast.stmt)
        )
        locations = {location_number(node) for node in nodes} - {None, location}
        self.loops.append(
            (location, frozenset(location for location in locations if location is not None))
        )
        return len(self.loops) - 1

    def _sampled(self, body: list[ast.stmt], location: int) -> list[ast.stmt]:
        self._apart = len(self.paths)
        timed = [*self._clock_read(location), *self._list(body, location)]
        self._apart = 0
        return timed

    def _clock_read(self, location: int, *, counts: bool = True) -> list[ast.stmt]:
        slot = ast.Constant(location + self._apart)
        spent = ast.BinOp(load(_NOW), ast.Sub(), load(_LAST))
        read: list[ast.stmt] = [
            assign(_NOW, call(load(_CLOCK))),
            ast.AugAssign(item(load(_SECONDS), slot, ast.Store()), ast.Add(), spent),
            assign(_LAST, load(_NOW)),
        ]
        if counts:
            calls = item(load(_CALLS), slot, ast.Store())
            read.insert(2, ast.AugAssign(calls, ast.Add(), ast.Constant(1)))
        return read

    def _path(self, location: int | None) -> str | None:
        return None if location is None else self.paths[location]


def _report(method: str, *arguments: ast.expr) -> list[ast.stmt]:
    """Build the statement after a step that reads the clock and adds the time to the step meter."""
    reported = call(load(f"{_TIMERS}.{method}"), *arguments, load(_LAST))
    return [ast.Assign([store(_LAST)], reported)]


def _is_check(statement: ast.stmt) -> bool:
    """Return whether a statement only checks for cancellation: the step meter does not time it."""
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.Attribute)
        and statement.test.attr == "cancelled"
    )


def _is_plain(statement: ast.stmt, location: int) -> bool:
    """Return whether a timed statement contains no other step that the step meter times."""
    inside = (node for node in ast.walk(statement) if isinstance(node, ast.stmt))
    return all(location_number(node) in (None, location) for node in inside)


def _is_light(loop: ast.For) -> bool:
    """Return whether a loop's passes are so cheap that the step meter times only some of them."""
    return not any(_is_heavy(node) for statement in loop.body for node in ast.walk(statement))


def _is_heavy(node: ast.AST) -> bool:
    match node:
        case ast.For() | ast.While() | ast.Try():
            return True
        case ast.Expr(value=ast.Call(args=[ast.Name(id="f")])):
            # A step outside of the code.
            return True
        case _:
            return False
