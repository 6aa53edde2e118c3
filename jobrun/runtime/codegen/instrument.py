"""Instrument the statements of a block with clock reads that time each of its steps.

Statements carry the number of their place in the spec (see ``line_table``). Where one place ends
and the next begins, the clock is read once, and what has gone by since the last reading is
added to the place that ends::

    q = clock(); seconds[7] += q - z; calls[7] += 1; z = q

That takes as long as a small operation. In an innermost loop of expressions it is therefore done
in one pass of many; the passes between are only counted, and timed as a whole::

    if number & 31: body
    else: clock reads around the statements of body
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import field

from jobrun.core.lazy_dataclass import dataclass
from jobrun.runtime.codegen.ast_nodes import assign, call, item, load, store
from jobrun.runtime.codegen.control_flow import QUICK
from jobrun.runtime.codegen.line_table import location_number
from jobrun.runtime.context.cancel import PASSES

# One chunk of passes in so many, or one pass in so many, is looked into.
SAMPLED = 32
_CLOCK, _LAST, _NOW = "_meter_clock", "_meter_last", "_meter_now"
_SECONDS, _CALLS, _TIMERS = "_meter_seconds", "_meter_calls", "_meter_timers"
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise)


@dataclass(slots=True)
class Instrumentation:
    """Adds clock reads to the statements of one block.

    Args:
        paths: The path of each place of the block, by number.

    Attributes:
        loops: For each loop that is looked into now and then: its place, and those inside.
    """

    paths: Sequence[str]
    loops: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    # Offset of the slots for sampled passes, which are kept apart.
    _apart: int = 0

    def block(self, body: list[ast.stmt], begin: ast.expr, clock: ast.expr) -> list[ast.stmt]:
        """Instrument the body of a block with clock reads.

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

    def _list(self, statements: list[ast.stmt], around: int | None = None) -> list[ast.stmt]:
        """Instrument a list of statements with clock reads."""
        made: list[ast.stmt] = []
        for index, one in enumerate(statements):
            place = location_number(one)
            following = (
                location_number(statements[index + 1]) if index + 1 < len(statements) else None
            )
            if place is None or _is_check(one):
                made.append(one)
            elif place == around:
                made += [
                    one,
                    *(self._clock_read(place, counts=False) if place != following else []),
                ]
            elif isinstance(one, _LEAVING):
                made += [*self._clock_read(place), one]
            else:
                made += self._one(one, place, last=place != following)
        return made

    def _one(self, one: ast.stmt, place: int, *, last: bool) -> list[ast.stmt]:
        match one:
            case ast.While(body=[ast.For() as chunk, ast.Break()]) if _is_light(chunk):
                return [*self._chunks(one, chunk, place), *self._clock_read(place)]
            case ast.For(target=ast.Name(id=number)) if number != "_" and _is_light(one):
                return [*self._numbered(one, number, place), *self._clock_read(place)]
            case ast.For() | ast.While():
                one.body = self._inside(one.body, place)
                return [one, *self._clock_read(place)]
            case ast.If(test=ast.Name(id=chosen)) if chosen == QUICK:
                # Two forms of one loop.
                one.body, one.orelse = self._list(one.body), self._list(one.orelse)
                return [one]
            case ast.If() if not _is_plain(one, place):
                one.body = [*self._clock_read(place), *self._list(one.body)]
                again = one.orelse and self._path(location_number(one.orelse[0])) == self._path(
                    place
                )
                one.orelse = [*self._clock_read(place, counts=not again), *self._list(one.orelse)]
                return [one]
            case ast.If(body=[*_, leaving]) if isinstance(leaving, _LEAVING):
                one.body = [*one.body[:-1], *self._clock_read(place), leaving]
            case ast.Try() if not _is_plain(one, place):
                one.body = self._list(one.body)
        return [one, *self._clock_read(place)] if last else [one]

    def _inside(self, body: list[ast.stmt], place: int) -> list[ast.stmt]:
        """Instrument the passes of a loop; the time of its head belongs to the loop."""
        if len(body) == 2 and isinstance(body[0], ast.For) and isinstance(body[1], ast.Break):
            chunk = body[0]
            chunk.body = [*self._clock_read(place, counts=False), *self._list(chunk.body, place)]
            return body
        return [*self._clock_read(place, counts=False), *self._list(body, place)]

    def _chunks(self, whole: ast.While, chunk: ast.For, place: int) -> list[ast.stmt]:
        """Instrument a loop that runs through a list of passes repeatedly."""
        loop = self._register(chunk.body, place)
        passes: ast.expr = ast.Constant(PASSES)
        if isinstance(chunk.iter, ast.IfExp) and isinstance(chunk.iter.test, ast.Compare):
            passes = deepcopy(chunk.iter.test.left)
        plain = deepcopy(chunk)
        plain.orelse = [*_report("add_plain_chunk", ast.Constant(loop), passes), *plain.orelse]
        chunk.body = self._sampled(chunk.body, place)
        turn = call(load(f"{_TIMERS}.begin_chunk"), ast.Constant(loop))
        left = _report("add_unfinished_chunk", ast.Constant(loop))
        whole.body = [ast.If(turn, [chunk], [plain, *left]), ast.Break()]
        return [whole]

    def _numbered(self, whole: ast.For, number: str, place: int) -> list[ast.stmt]:
        """Instrument a loop whose passes are numbered with clock reads."""
        loop = ast.Constant(self._register(whole.body, place))
        plain = deepcopy(whole.body)
        between = _report("add_plain_passes", loop, load(number))
        rest = ast.BinOp(load(number), ast.BitAnd(), ast.Constant(SAMPLED - 1))
        whole.body = [ast.If(rest, plain, [*between, *self._sampled(whole.body, place)])]
        first = assign(number, ast.Constant(-1))
        return [first, whole, *_report("add_last_passes", loop, load(number))]

    def _register(self, body: list[ast.stmt], place: int) -> int:
        nodes = (node for one in body for node in ast.walk(one) if isinstance(node, ast.stmt))
        places = {location_number(node) for node in nodes} - {None, place}
        self.loops.append((place, frozenset(one for one in places if one is not None)))
        return len(self.loops) - 1

    def _sampled(self, body: list[ast.stmt], place: int) -> list[ast.stmt]:
        self._apart = len(self.paths)
        made = [*self._clock_read(place), *self._list(body, place)]
        self._apart = 0
        return made

    def _clock_read(self, place: int, *, counts: bool = True) -> list[ast.stmt]:
        slot = ast.Constant(place + self._apart)
        spent = ast.BinOp(load(_NOW), ast.Sub(), load(_LAST))
        made: list[ast.stmt] = [
            assign(_NOW, call(load(_CLOCK))),
            ast.AugAssign(item(load(_SECONDS), slot, ast.Store()), ast.Add(), spent),
            assign(_LAST, load(_NOW)),
        ]
        if counts:
            calls = item(load(_CALLS), slot, ast.Store())
            made.insert(2, ast.AugAssign(calls, ast.Add(), ast.Constant(1)))
        return made

    def _path(self, place: int | None) -> str | None:
        return None if place is None else self.paths[place]


def _report(what: str, *arguments: ast.expr) -> list[ast.stmt]:
    """Build the statement that instruments a step: read the clock, add the time since the last."""
    reported = call(load(f"{_TIMERS}.{what}"), *arguments, load(_LAST))
    return [ast.Assign([store(_LAST)], reported)]


def _is_check(one: ast.stmt) -> bool:
    """Return whether a statement only checks for cancellation, and is not instrumented."""
    return (
        isinstance(one, ast.If)
        and isinstance(one.test, ast.Attribute)
        and one.test.attr == "cancelled"
    )


def _is_plain(one: ast.stmt, place: int) -> bool:
    """Return whether a statement to be instrumented is one operator or one simple step."""
    inside = (node for node in ast.walk(one) if isinstance(node, ast.stmt))
    return all(location_number(node) in (None, place) for node in inside)


def _is_light(loop: ast.For) -> bool:
    """Return whether a loop's pass is too cheap to be instrumented with clock reads."""
    return not any(_is_heavy(node) for one in loop.body for node in ast.walk(one))


def _is_heavy(node: ast.AST) -> bool:
    match node:
        case ast.For() | ast.While() | ast.Try():
            return True
        case ast.Expr(value=ast.Call(args=[ast.Name(id="f")])):
            # A step outside of the code.
            return True
        case _:
            return False
