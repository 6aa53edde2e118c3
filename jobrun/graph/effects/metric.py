"""The step ``metric``: named numbers in the run's metrics."""

from __future__ import annotations

from dataclasses import field

from jobrun.core.events import Measured
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.effects.effect import (
    Action,
    DeclaredEffect,
    ExpressionCompiler,
    Surroundings,
    key,
)
from jobrun.graph.expressions import Expr


@dataclass(frozen=True, slots=True)
class Metric(DeclaredEffect):
    """Named numbers for the run's metrics."""

    values: tuple[tuple[str, Expr], ...] = field(
        metadata=key("metric", "numbers", "name: a number")
    )

    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function of a ``metric`` step, which records all of its numbers or none."""
        values = [(name, compiler.number(value, name)) for name, value in self.values]

        def run(at: Surroundings) -> None:
            # All of them first: either the whole step is emitted, or nothing of it.
            for name, number in [(name, value(at)) for name, value in values]:
                at.emit(Measured(name, number, at.epoch, at.task, at.node_name, at.instance))

        return run
