"""Declare the kinds of steps that hold no other steps, such as ``log``, each with its effect.

``Effect`` is what generic code asks of each such step. A declared kind (``Log``, ``Metric``,
``Assert``, ``Sleep``) declares in ``keys`` which keys of a spec set its fields. The model of its
form, the JSON Schema, the lowering and the line in a plan follow from these;
``DeclaredEffect.action`` is what it does. So a new kind is one class and one line in ``DECLARED``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol, assert_never

from msgspec import Struct

from jobrun.core.errors import Origin, TaskFailedError
from jobrun.core.events import Listener, Logged, Measured
from jobrun.core.partly_compared import PartlyCompared
from jobrun.graph.expression_text import render_expr, render_text
from jobrun.graph.expressions import Expr, Text
from jobrun.graph.traversal import children

NOWHERE: Origin = Origin("<python>")
# In a spec → in the step: a text with '{expr:format}' → Text; an expression that is a bool → Expr;
# {name: expression} → ((name, Expr), …); a duration such as 90s → seconds.
KeyKind = Literal["text", "condition", "numbers", "duration"]
REQUIRED = object()


class Effect(PartlyCompared, frozen=True):
    """A step that holds no other steps, and all that generic code asks of its kind.

    A kind overrides what is not empty for it. ``DeclaredEffect`` answers most of it from the
    declared fields; a kind that needs more has a form in ``spec.models.steps``, a row in the table
    of ``compile.lowering.steps``, and one in that of ``runtime.steps.dispatch``.
    """

    def expressions(self) -> tuple[Expr, ...]:
        """Return the expressions that an effect, a step such as ``log``, evaluates."""
        return ()

    def reads(self) -> tuple[str, ...]:
        """Return the blobs that an effect such as ``run`` reads outside its expressions."""
        return ()

    def binds(self) -> tuple[str, ...]:
        """Return the blobs that an effect, a step such as ``load``, binds."""
        return ()

    def lends(self) -> tuple[str, ...]:
        """Return the blobs that an effect, a step such as ``call``, passes to user code."""
        return ()

    def line(self) -> str:
        """Render an effect, a step such as ``log``, as one line of a spec."""
        return type(self).__name__.lower()


class Key(Struct, frozen=True):
    """A key of a step's form in a spec.

    Attributes:
        name: As it is written.
        kind: What its value is, there and in the step.
        description: For the JSON Schema and the manual.
        default: Its value where it is left out; ``REQUIRED`` for none.
    """

    name: str
    kind: KeyKind
    description: str
    default: Any = REQUIRED


class Surroundings(Protocol):
    """What an effect sees of the block that runs it; ``runtime.context.frame.Frame`` is one."""

    task: str
    instance: int
    epoch: int

    @property
    def node_name(self) -> str:
        """Return the name of the node on which an effect step, such as ``log``, runs."""
        ...

    @property
    def emit(self) -> Listener:
        """Return the function to which an effect step, such as ``metric``, passes its event."""
        ...

    def wait(self, seconds: float) -> None:
        """Sleep in an effect step; raise an error as soon as the run is cancelled.

        Raises:
            CancelledError: The run was cancelled.
        """
        ...


Action = Callable[[Any], None]


class ExpressionCompiler(Protocol):
    """Compiles the expressions of an effect to functions of its ``Surroundings``."""

    def text(self, text: Text) -> Callable[[Any], str]:
        """Compile the text of an effect such as ``log`` to a function that fills its holes."""
        ...

    def condition(self, expr: Expr) -> Callable[[Any], bool]:
        """Compile an effect's condition to a function that returns a bool, or raises."""
        ...

    def number(self, expr: Expr, name: str) -> Callable[[Any], float | int | bool | str]:
        """Compile an effect's expression to a function that returns a number, or raises."""
        ...


class DeclaredEffect(Effect, frozen=True, kw_only=True):
    """An effect that is defined by its declared keys and its action.

    Attributes:
        keys: By field, the key of the spec that sets it, in order.
        sources: By field, another field of which it is the text in the spec.
    """

    keys: ClassVar[dict[str, Key]] = {}
    sources: ClassVar[dict[str, str]] = {}
    path: str = ""
    origin: Origin = NOWHERE

    @abstractmethod
    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function that runs this effect step, given its ``Surroundings``."""

    def expressions(self) -> tuple[Expr, ...]:
        """Return the expressions in the values of an effect step's declared keys."""
        expressions: list[Expr] = []
        for name, key in self.keys.items():
            value = getattr(self, name)
            match key.kind:
                case "text":
                    expressions += children(value)
                case "condition":
                    expressions.append(value)
                case "numbers":
                    expressions += (number for _, number in value)
                case "duration":
                    pass
                case _:
                    assert_never(key.kind)
        return tuple(expressions)

    def line(self) -> str:
        """Render this effect step by its first key, as a spec would write it: ``sleep 2s``."""
        name, first = next(iter(self.keys.items()))
        return f"{first.name} {_render(first.kind, getattr(self, name))}"


def _render(kind: KeyKind, value: Any) -> str:
    """Render one value of an effect step, such as a condition, as a spec would write it."""
    match kind:
        case "text":
            return render_text(value)
        case "condition":
            return render_expr(value)
        case "numbers":
            return ", ".join(f"{name} = {render_expr(number)}" for name, number in value)
        case "duration":
            return f"{value:g}s"
        case _:
            assert_never(kind)


class Assert(DeclaredEffect, frozen=True):
    """Fail the task unless a condition holds."""

    keys: ClassVar[dict[str, Key]] = {
        "condition": Key("assert", "condition", "a bool"),
        "message": Key("message", "text", "the message; '{expr:format}' is substituted", ""),
    }
    sources: ClassVar[dict[str, str]] = {"written": "condition"}
    condition: Expr
    message: Text
    written: str = ""

    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function of an ``assert`` step, which raises E205 if the condition is false."""
        holds, message = compiler.condition(self.condition), compiler.text(self.message)

        def run(at: Surroundings) -> None:
            if holds(at):
                return
            explanation = message(at)
            text = "it does not hold"
            if self.written:
                text = f"the assertion '{self.written}' does not hold"
            raise TaskFailedError.of(
                "E205",
                f"{text}: {explanation}" if explanation else text,
                "mend what it guards, or the assertion; resume continues from the last saved epoch",
            )

        return run


class Log(DeclaredEffect, frozen=True):
    """A line for the reader of the run; '{expr:format}' is filled in."""

    keys: ClassVar[dict[str, Key]] = {"text": Key("log", "text", "the line")}
    text: Text

    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function of a ``log`` step, which logs the step's text."""
        text, path = compiler.text(self.text), self.path

        def run(at: Surroundings) -> None:
            at.emit(Logged(text(at), at.task, at.node_name, at.instance, at.epoch, path))

        return run


class Metric(DeclaredEffect, frozen=True):
    """Named numbers for the run's metrics."""

    keys: ClassVar[dict[str, Key]] = {"values": Key("metric", "numbers", "name: a number")}
    values: tuple[tuple[str, Expr], ...]

    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function of a ``metric`` step, which records all of its numbers or none."""
        values = [(name, compiler.number(value, name)) for name, value in self.values]

        def run(at: Surroundings) -> None:
            # Compute all values first: either the whole step is emitted, or nothing of it.
            for name, number in [(name, value(at)) for name, value in values]:
                at.emit(Measured(name, number, at.epoch, at.task, at.node_name, at.instance))

        return run


class Sleep(DeclaredEffect, frozen=True):
    """Wait, while other tasks continue; a stop of the run ends the wait."""

    keys: ClassVar[dict[str, Key]] = {
        "seconds": Key("sleep", "duration", "how long, such as 250ms or 10s")
    }
    seconds: float

    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function of a ``sleep`` step, which waits for some seconds."""
        del compiler
        seconds = self.seconds

        def run(at: Surroundings) -> None:
            at.wait(seconds)

        return run


# By the first key of each kind, in the order in which a step's keys are searched for them.
DECLARED: dict[str, type[DeclaredEffect]] = {
    "log": Log,
    "metric": Metric,
    "assert": Assert,
    "sleep": Sleep,
}
