"""The step ``assert``: a condition without which the task fails."""

from __future__ import annotations

from dataclasses import field

from jobrun.core.errors import TaskFailedError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.effects.effect import (
    Action,
    DeclaredEffect,
    ExpressionCompiler,
    Surroundings,
    key,
    source_of,
)
from jobrun.graph.expressions import Expr, Text


@dataclass(frozen=True, slots=True)
class Assert(DeclaredEffect):
    """Fail the task unless a condition holds."""

    condition: Expr = field(metadata=key("assert", "condition", "a bool"))
    message: Text = field(
        metadata=key("message", "text", "the message; '{expr:format}' is substituted", "")
    )
    written: str = field(default="", metadata=source_of("condition"))

    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function of an ``assert`` step, which raises E205 if the condition is false."""
        holds, message = compiler.condition(self.condition), compiler.text(self.message)

        def run(at: Surroundings) -> None:
            if holds(at):
                return
            said = message(at)
            text = "it does not hold"
            if self.written:
                text = f"the assertion '{self.written}' does not hold"
            raise TaskFailedError.of(
                "E205",
                f"{text}: {said}" if said else text,
                "mend what it guards, or the assertion; resume continues from the last saved epoch",
            )

        return run
