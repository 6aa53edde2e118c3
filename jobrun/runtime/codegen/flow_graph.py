"""Build the control-flow graph of a block, with the names that are live after each point of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct, field

from jobrun.graph.effects import Assert, Log, Metric
from jobrun.graph.expressions import Expr
from jobrun.graph.query import expressions, op_expressions, walk
from jobrun.graph.steps import Augment, Guard, If, Loop, Net, Op, Step, Stop, UseNet, While
from jobrun.graph.traversal import walk_expr
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.runtime.codegen.liveness import changed_views, collect_usage

_NO_NAMES: frozenset[str] = frozenset()


class Point(Struct, eq=False):
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
    predecessors = flow.steps(steps, [flow.point()])
    predecessors += flow.exits_of(path)
    # A ``stop`` of an enclosing block leaves this block, too.
    for path_ in tuple(flow.stops):
        predecessors += flow.exits_of(path_)
    flow.point(predecessors)
    _find_live(flow.points)
    return flow.points


class _Flow:
    def __init__(self, inlined: Collection[int]) -> None:
        self.points: list[Point] = []
        # Maps the path of a block to the points whose ``stop`` leaves it.
        self.stops: dict[str, list[Point]] = {}
        self._inlined = inlined

    def point(self, predecessors: Iterable[Point] = (), point: Point | None = None) -> Point:
        """Add a point to the control-flow graph as the successor of the points ``predecessors``."""
        point = point or Point()
        self.points.append(point)
        for predecessor in predecessors:
            predecessor.after.append(point)
        return point

    def exits_of(self, path: str) -> list[Point]:
        """Return the control-flow graph's points whose ``stop`` leaves the block at ``path``."""
        return self.stops.pop(path, [])

    def steps(self, steps: tuple[Step, ...], predecessors: list[Point]) -> list[Point]:
        """Add steps to the control-flow graph; return the points after which the next one runs."""
        for step in steps:
            predecessors = self._step(step, predecessors)
        return predecessors

    def _step(self, step: Step, predecessors: list[Point]) -> list[Point]:
        if isinstance(step, UseNet):
            return self.steps(step.steps, predecessors)
        if id(step) not in self._inlined:
            return [self._effect(step, predecessors)]
        match step:
            case Net():
                for op in step.ops:
                    predecessors = [self.point(predecessors, _of_op(op))]
                return predecessors
            case Guard():
                predecessors = [*self.steps(step.steps, predecessors), *self.exits_of(step.path)]
                return [self.point(predecessors, Point(binds=frozenset((step.flag,))))]
            case Loop() | While():
                head = self.point(predecessors, _of_expressions(expressions(step)))
                for exit_point in self.steps(step.steps, [head]):
                    exit_point.after.append(head)
                return [head, *self.exits_of(step.path)]
            case If():
                head = self.point(predecessors, _of_expressions(expressions(step)))
                branches = (*(then for _, then in step.branches), step.otherwise)
                return [end for then in branches for end in self.steps(then, [head])]
            case Stop():
                head = self.point(predecessors, _of_expressions(expressions(step)))
                self.stops.setdefault(step.target, []).append(head)
                return [head] if step.condition is not None else []
            case _:
                return [self._effect(step, predecessors)]

    def _effect(self, step: Step, predecessors: list[Point]) -> Point:
        """Add a step that runs outside of the block's code to the control-flow graph."""
        usage = collect_usage((step,))
        only_looks = isinstance(step, Log | Metric | Assert)
        point = Point(
            None,
            frozenset(usage.used),
            frozenset(usage.changed),
            _NO_NAMES,
            frozenset(usage.rebound),
            not only_looks,
        )
        self.point(predecessors, point)
        for inner in walk((step,)):
            if isinstance(inner, Stop):
                self.stops.setdefault(inner.target, []).append(point)
        return point


def _of_op(op: Op) -> Point:
    access = ACCESS_FINDER.of_op(op)
    return Point(
        op,
        frozenset((*access.reads, *access.atomic)),
        frozenset((*access.changes, *access.atomic, *_changed(op_expressions(op)))),
        # An array changed in place is still the same array.
        _NO_NAMES if isinstance(op, Augment) else frozenset((*access.binds, *access.deletes)),
    )


def _of_expressions(exprs: tuple[Expr, ...]) -> Point:
    access = ACCESS_FINDER.of_expr(*exprs)
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
        for point in reversed(points):
            for after in point.after:
                more = (after.live - after.binds) | after.reads
                if not more <= point.live:
                    point.live |= more
                    is_stable = False
