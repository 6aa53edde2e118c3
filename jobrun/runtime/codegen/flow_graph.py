"""Build the control-flow graph of a block, with the names that are live after each point of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import field

from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.effects import Assert, Log, Metric
from jobrun.graph.expressions import Expr
from jobrun.graph.query import expressions, op_expressions, walk
from jobrun.graph.steps import (
    Augment,
    Guard,
    If,
    Loop,
    Net,
    Op,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.traversal import walk_expr
from jobrun.runtime.codegen.liveness import access_finder, changed_views, collect_usage

_NO_NAMES: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class Point:
    """One operator, condition or step.

    Attributes:
        op: The operator, if it is one.
        reads: Names whose values it reads.
        changes: Names whose arrays it changes in place.
        binds: Names that surely get another value, or none.
        makes: Names that may get a value which shares memory with anything that it reads.
        keeps: It may keep references to what it reads, and does what it does in an unknown order.
        live: Names whose values something may read after it.
        after: What may run next.
    """

    op: Op | None = None
    reads: frozenset[str] = _NO_NAMES
    changes: frozenset[str] = _NO_NAMES
    binds: frozenset[str] = _NO_NAMES
    makes: frozenset[str] = _NO_NAMES
    keeps: bool = False
    live: set[str] = field(default_factory=set)
    after: list[Point] = field(default_factory=list)


def build_flow(steps: tuple[Step, ...], path: str, inlined: Collection[int]) -> list[Point]:
    """Build the control-flow graph of a block, as a list of points from its entry to its end.

    Args:
        steps: The block's steps.
        path: The block's own path.
        inlined: ``id`` of each step that is part of the block's own code; any other is one point.
    """
    flow = _Flow(inlined)
    ends = flow.steps(steps, [flow.point()])
    ends += flow.left(path)
    # A stop of a block around this one leaves it, too.
    for path_ in tuple(flow.stops):
        ends += flow.left(path_)
    flow.point(ends)
    _find_live(flow.points)
    return flow.points


class _Flow:
    def __init__(self, inlined: Collection[int]) -> None:
        self.points: list[Point] = []
        # Path of a block: the points that leave it.
        self.stops: dict[str, list[Point]] = {}
        self._inlined = inlined

    def point(self, ends: Iterable[Point] = (), made: Point | None = None) -> Point:
        """Add a point to the control-flow graph as the successor of the points ``ends``."""
        made = made or Point()
        self.points.append(made)
        for one in ends:
            one.after.append(made)
        return made

    def left(self, path: str) -> list[Point]:
        """Return the control-flow graph's points whose ``stop`` leaves the block at ``path``."""
        return self.stops.pop(path, [])

    def steps(self, steps: tuple[Step, ...], ends: list[Point]) -> list[Point]:
        """Add steps to the control-flow graph; return the points after which the next one runs."""
        for step in steps:
            ends = self._step(step, ends)
        return ends

    def _step(self, step: Step, ends: list[Point]) -> list[Point]:
        if isinstance(step, UseNet):
            return self.steps(step.steps, ends)
        if id(step) not in self._inlined:
            return [self._effect(step, ends)]
        match step:
            case Net():
                for op in step.ops:
                    ends = [self.point(ends, _of_op(op))]
                return ends
            case Guard():
                ends = [*self.steps(step.steps, ends), *self.left(step.path)]
                return [self.point(ends, Point(binds=frozenset((step.flag,))))]
            case Loop() | While():
                head = self.point(ends, _of_expressions(expressions(step)))
                for one in self.steps(step.steps, [head]):
                    one.after.append(head)
                return [head, *self.left(step.path)]
            case If():
                head = self.point(ends, _of_expressions(expressions(step)))
                branches = (*(then for _, then in step.branches), step.otherwise)
                return [end for then in branches for end in self.steps(then, [head])]
            case Stop():
                head = self.point(ends, _of_expressions(expressions(step)))
                self.stops.setdefault(step.target, []).append(head)
                return [head] if step.condition is not None else []
            case _:
                return [self._effect(step, ends)]

    def _effect(self, step: Step, ends: list[Point]) -> Point:
        """Add a step that runs outside of the block's code to the control-flow graph."""
        found = collect_usage((step,))
        only_looks = isinstance(step, Log | Metric | Assert)
        made = Point(
            None,
            frozenset(found.used),
            frozenset(found.changed),
            _NO_NAMES,
            frozenset(found.bound),
            not only_looks,
        )
        self.point(ends, made)
        for one in walk((step,)):
            if isinstance(one, Stop):
                self.stops.setdefault(one.target, []).append(made)
        return made


def _of_op(op: Op) -> Point:
    access = access_finder().of_op(op)
    return Point(
        op,
        frozenset((*access.reads, *access.atomic)),
        frozenset((*access.changes, *access.atomic, *_changed(op_expressions(op)))),
        # What is changed in place is still the same array.
        _NO_NAMES if isinstance(op, Augment) else frozenset((*access.binds, *access.deletes)),
    )


def _of_expressions(exprs: tuple[Expr, ...]) -> Point:
    access = access_finder().of_expr(*exprs)
    return Point(
        None,
        frozenset((*access.reads, *access.atomic)),
        frozenset((*access.changes, *access.atomic, *_changed(exprs))),
    )


def _changed(exprs: Iterable[Expr]) -> Iterator[str]:
    for expr in exprs:
        for part in walk_expr(expr):
            yield from changed_views(part)


def _find_live(points: list[Point]) -> None:
    is_stable = False
    while not is_stable:
        is_stable = True
        for one in reversed(points):
            for after in one.after:
                more = (after.live - after.binds) | after.reads
                if not more <= one.live:
                    one.live |= more
                    is_stable = False
