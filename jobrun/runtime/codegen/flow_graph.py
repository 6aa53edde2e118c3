"""Build the control-flow graph of a block, with the names that are live after each point of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct, field

from jobrun.graph.control_flow import FlowBuilder
from jobrun.graph.effects import Assert, Log, Metric
from jobrun.graph.expressions import Expr
from jobrun.graph.query import expressions, op_expressions, walk
from jobrun.graph.steps import Augment, Guard, Op, Step, Stop, UseNet
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
    predecessors = flow.steps(steps, [flow.add(Point(), ())])
    predecessors += flow.exits_of(path)
    # A ``stop`` of an enclosing block leaves this block, too.
    for path_ in tuple(flow.stops):
        predecessors += flow.exits_of(path_)
    flow.add(Point(), predecessors)
    _find_live(flow.points)
    return flow.points


class _Flow(FlowBuilder[Point]):
    """Builds the control-flow graph of one block; a step outside of its code is one point."""

    def __init__(self, inlined: Collection[int]) -> None:
        super().__init__()
        self._inlined = inlined

    def point_of_op(self, op: Op) -> Point:
        access = ACCESS_FINDER.of_op(op)
        return Point(
            op,
            frozenset((*access.reads, *access.atomic)),
            frozenset((*access.changes, *access.atomic, *_changed(op_expressions(op)))),
            # An array changed in place is still the same array.
            _NO_NAMES if isinstance(op, Augment) else frozenset((*access.binds, *access.deletes)),
        )

    def point_of_step(self, step: Step) -> Point:
        exprs = expressions(step)
        access = ACCESS_FINDER.of_expr(*exprs)
        return Point(
            None,
            frozenset((*access.reads, *access.atomic)),
            frozenset((*access.changes, *access.atomic, *_changed(exprs))),
            frozenset((step.flag,)) if isinstance(step, Guard) else _NO_NAMES,
        )

    def step(self, step: Step, predecessors: list[Point]) -> list[Point]:
        if isinstance(step, UseNet) or id(step) in self._inlined:
            return super().step(step, predecessors)
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
        for inner in walk((step,)):
            if isinstance(inner, Stop):
                self.stops.setdefault(inner.target, []).append(point)
        return self.add(point, predecessors)


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
