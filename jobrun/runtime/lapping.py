"""Adds to a block's statements what tells how long each of its steps takes. Makes no code itself.

Statements carry the number of their place in the spec (see ``positions``). Where one place ends
and the next begins, the clock is read once, and what has gone by since the last reading is
added to the place that ends: a lap::

    q = clock(); seconds[7] += q - z; calls[7] += 1; z = q

That takes as long as a small operation. In an innermost loop of expressions it is therefore done
in one pass of many; the passes between are only counted, and timed as a whole::

    if number & 31: body
    else: laps around the statements of body
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from jobrun.runtime.cancel import PASSES
from jobrun.runtime.positions import Place, number_of
from jobrun.runtime.syntax import Globals, assign, call, item, load, store

if TYPE_CHECKING:
    from jobrun.runtime.meter import BlockTime

# One chunk of passes in so many, or one pass in so many, is looked into.
SAMPLED = 32
_CLOCK, _LAST, _NOW = "_meter_clock", "_meter_last", "_meter_now"
_SECONDS, _CALLS, _LAP = "_meter_seconds", "_meter_calls", "_meter_lap"
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise)


class Metering(Protocol):
    """Adds to a block's code what measures its steps."""

    def measured(
        self, body: list[ast.stmt], places: Sequence[Place], path: str, table: Globals
    ) -> list[ast.stmt]:
        """The statements, with more between them."""

    def take_in(self, teller: str, times: Sequence[BlockTime]) -> None:
        """Keep what another process has told of its own steps; any thread.

        Args:
            teller: No two processes of an invocation have the same.
            times: As ``Meter.told`` gives them there.
        """


@dataclass(slots=True)
class Lapping:
    """Changes the statements of one block.

    Args:
        paths: The path of each place of the block, by number.

    Attributes:
        loops: For each loop that is looked into now and then: its place, and those inside.
    """

    paths: Sequence[str]
    loops: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    # Where the laps of a loop that is looked into now and then are kept apart.
    _apart: int = 0

    def block(self, body: list[ast.stmt], begin: ast.expr, clock: ast.expr) -> list[ast.stmt]:
        """The body with its laps.

        Args:
            body: As ``Control`` has made it, every statement with its place.
            begin: A function from the frame to the ``Laps`` of this run of the block.
            clock: A function that gives the time in seconds.
        """
        lapped = self._list(deepcopy(body)) or [ast.Pass()]
        ended = ast.Expr(call(load(f"{_LAP}.end")))
        return [
            assign(_LAP, call(begin, load("f"))),
            assign(_SECONDS, load(f"{_LAP}.seconds")),
            assign(_CALLS, load(f"{_LAP}.calls")),
            assign(_CLOCK, clock),
            assign(_LAST, call(load(_CLOCK))),
            ast.Try(lapped, [], [], [ended]),
        ]

    def _list(self, statements: list[ast.stmt], around: int | None = None) -> list[ast.stmt]:
        """Statements with laps; what belongs to the loop ``around`` them is no run of it."""
        made: list[ast.stmt] = []
        for index, one in enumerate(statements):
            place = number_of(one)
            following = number_of(statements[index + 1]) if index + 1 < len(statements) else None
            if place is None or _is_check(one):
                made.append(one)
            elif place == around:
                made += [one, *(self._lap(place, counts=False) if place != following else [])]
            elif isinstance(one, _LEAVING):
                made += [*self._lap(place), one]
            else:
                made += self._one(one, place, last=place != following)
        return made

    def _one(self, one: ast.stmt, place: int, *, last: bool) -> list[ast.stmt]:
        match one:
            case ast.While(body=[ast.For() as chunk, ast.Break()]) if _is_light(chunk):
                return [*self._chunks(one, chunk, place), *self._lap(place)]
            case ast.For(target=ast.Name(id=number)) if number != "_" and _is_light(one):
                return [*self._numbered(one, number, place), *self._lap(place)]
            case ast.For() | ast.While():
                one.body = self._inside(one.body, place)
                return [one, *self._lap(place)]
            case ast.If() if not _is_plain(one, place):
                one.body = [*self._lap(place), *self._list(one.body)]
                again = one.orelse and self._path(number_of(one.orelse[0])) == self._path(place)
                one.orelse = [*self._lap(place, counts=not again), *self._list(one.orelse)]
                return [one]
            case ast.If(body=[*_, leaving]) if isinstance(leaving, _LEAVING):
                one.body = [*one.body[:-1], *self._lap(place), leaving]
            case ast.Try() if not _is_plain(one, place):
                one.body = self._list(one.body)
        return [one, *self._lap(place)] if last else [one]

    def _inside(self, body: list[ast.stmt], place: int) -> list[ast.stmt]:
        """The passes of a loop: what its head has taken belongs to the loop."""
        if len(body) == 2 and isinstance(body[0], ast.For) and isinstance(body[1], ast.Break):
            chunk = body[0]
            chunk.body = [*self._lap(place, counts=False), *self._list(chunk.body, place)]
            return body
        return [*self._lap(place, counts=False), *self._list(body, place)]

    def _chunks(self, whole: ast.While, chunk: ast.For, place: int) -> list[ast.stmt]:
        """A loop that goes through a list of passes again and again."""
        loop = self._register(chunk.body, place)
        passes: ast.expr = ast.Constant(PASSES)
        if isinstance(chunk.iter, ast.IfExp) and isinstance(chunk.iter.test, ast.Compare):
            passes = deepcopy(chunk.iter.test.left)
        plain = deepcopy(chunk)
        plain.orelse = [*_told("plain", ast.Constant(loop), passes), *plain.orelse]
        chunk.body = self._sampled(chunk.body, place)
        turn = call(load(f"{_LAP}.turn"), ast.Constant(loop))
        left = _told("left", ast.Constant(loop))
        whole.body = [ast.If(turn, [chunk], [plain, *left]), ast.Break()]
        return [whole]

    def _numbered(self, whole: ast.For, number: str, place: int) -> list[ast.stmt]:
        """A loop whose pass has a number."""
        loop = ast.Constant(self._register(whole.body, place))
        plain = deepcopy(whole.body)
        between = _told("between", loop, load(number))
        rest = ast.BinOp(load(number), ast.BitAnd(), ast.Constant(SAMPLED - 1))
        whole.body = [ast.If(rest, plain, [*between, *self._sampled(whole.body, place)])]
        first = assign(number, ast.Constant(-1))
        return [first, whole, *_told("rest", loop, load(number))]

    def _register(self, body: list[ast.stmt], place: int) -> int:
        nodes = (node for one in body for node in ast.walk(one) if isinstance(node, ast.stmt))
        places = {number_of(node) for node in nodes} - {None, place}
        self.loops.append((place, frozenset(one for one in places if one is not None)))
        return len(self.loops) - 1

    def _sampled(self, body: list[ast.stmt], place: int) -> list[ast.stmt]:
        self._apart = len(self.paths)
        made = [*self._lap(place), *self._list(body, place)]
        self._apart = 0
        return made

    def _lap(self, place: int, *, counts: bool = True) -> list[ast.stmt]:
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


def _told(what: str, *arguments: ast.expr) -> list[ast.stmt]:
    """Tell the laps how long it was since the last reading; they give the present one."""
    told = call(load(f"{_LAP}.{what}"), *arguments, load(_LAST))
    return [ast.Assign([store(_LAST)], told)]


def _is_check(one: ast.stmt) -> bool:
    """A look at the cancel scope: it belongs to no step."""
    return (
        isinstance(one, ast.If)
        and isinstance(one.test, ast.Attribute)
        and one.test.attr == "cancelled"
    )


def _is_plain(one: ast.stmt, place: int) -> bool:
    """Whether all of it is one operator or one simple step."""
    inside = (node for node in ast.walk(one) if isinstance(node, ast.stmt))
    return all(number_of(node) in (None, place) for node in inside)


def _is_light(loop: ast.For) -> bool:
    """Whether a pass is nothing but expressions and branches, so that a lap would weigh much."""
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
