"""Build control-flow graphs: a point for each operator or step, and what may follow it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from jobrun.graph.steps import Guard, If, Loop, Net, Op, Parallel, Step, Stop, UseNet, While


class LinkedPoint(Protocol):
    """A point of a control-flow graph: it knows the points that may follow it."""

    after: list[Any]


_Point = TypeVar("_Point", bound=LinkedPoint)


class FlowBuilder(ABC, Generic[_Point]):
    """Adds steps to a control-flow graph; a subclass decides what its points know.

    Attributes:
        points: All points of the graph, in the order in which they were added.
        stops: By the path of a block, the points whose ``stop`` leaves it.
    """

    def __init__(self) -> None:
        self.points: list[_Point] = []
        self.stops: dict[str, list[_Point]] = {}

    @abstractmethod
    def point_of_op(self, op: Op) -> _Point:
        """Build the point of an operator for the control-flow graph."""

    @abstractmethod
    def point_of_step(self, step: Step) -> _Point:
        """Build the point of a step itself, without the steps inside it."""

    def add(self, point: _Point, predecessors: Iterable[_Point]) -> _Point:
        """Add a point to the control-flow graph as the successor of the points ``predecessors``."""
        self.points.append(point)
        link(predecessors, point)
        return point

    def exits_of(self, path: str) -> list[_Point]:
        """Remove and return the points whose ``stop`` leaves the block at ``path``."""
        return self.stops.pop(path, [])

    def steps(self, steps: tuple[Step, ...], predecessors: list[_Point]) -> list[_Point]:
        """Add steps to the control-flow graph; return the points after which the next one runs."""
        for step in steps:
            predecessors = self.step(step, predecessors)
        return predecessors

    def step(self, step: Step, predecessors: list[_Point]) -> list[_Point]:
        """Add one step to the control-flow graph, with the steps inside it."""
        if isinstance(step, Net):
            for op in step.ops:
                predecessors = [self.add(self.point_of_op(op), predecessors)]
            return predecessors
        if isinstance(step, UseNet):
            return self.steps(step.steps, predecessors)
        if isinstance(step, Guard):
            predecessors = [*self.steps(step.steps, predecessors), *self.exits_of(step.path)]
        head = self.add(self.point_of_step(step), predecessors)
        match step:
            case Loop() | While():
                link(self.steps(step.steps, [head]), head)
                return [head, *self.exits_of(step.path)]
            case If():
                branches = (*(then for _, then in step.branches), step.otherwise)
                return [end for then in branches for end in self.steps(then, [head])]
            case Parallel():
                # The order of branches is free: a race between two of them is a fault elsewhere.
                for number, branch in enumerate(step.branches):
                    link(self.steps(branch, [head]), head)
                    link(self.exits_of(f"{step.path}[{number}]"), head)
            case Stop():
                self.stops.setdefault(step.target, []).append(head)
                return [head] if step.condition is not None else []
            case _:
                pass
        return [head]


def link(points: Iterable[LinkedPoint], after: LinkedPoint) -> None:
    """Make a point of a control-flow graph the successor of others."""
    for point in points:
        point.after.append(after)
