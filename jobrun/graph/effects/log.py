"""The step ``log``: a line in the log of the run."""

from __future__ import annotations

from dataclasses import field

from jobrun.core.events import Logged
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.effects.effect import (
    Action,
    DeclaredEffect,
    ExpressionCompiler,
    Surroundings,
    key,
)
from jobrun.graph.expressions import Text


@dataclass(frozen=True, slots=True)
class Log(DeclaredEffect):
    """A line for the reader of the run; '{expr:format}' is filled in."""

    text: Text = field(metadata=key("log", "text", "the line"))

    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function of a ``log`` step, which logs the step's text."""
        text, path = compiler.text(self.text), self.path

        def run(at: Surroundings) -> None:
            at.emit(Logged(text(at), at.task, at.node_name, at.instance, at.epoch, path))

        return run
