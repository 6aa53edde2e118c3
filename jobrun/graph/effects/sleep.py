"""The step ``sleep``: a pause."""

from __future__ import annotations

from dataclasses import field

from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.effects.effect import (
    Action,
    DeclaredEffect,
    ExpressionCompiler,
    Surroundings,
    key,
)


@dataclass(frozen=True, slots=True)
class Sleep(DeclaredEffect):
    """Wait, while other tasks continue; a stop of the run ends the wait."""

    seconds: float = field(metadata=key("sleep", "duration", "how long, such as 250ms or 10s"))

    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function of a ``sleep`` step, which waits for some seconds."""
        del compiler
        seconds = self.seconds

        def run(at: Surroundings) -> None:
            at.wait(seconds)

        return run
