"""Define what generic code asks of a step without steps in it, and how such a kind is declared.

A declared kind is a frozen dataclass whose fields carry the keys that stand for them in a spec.
The model of its form, the JSON Schema, the lowering and the line in a plan follow from these;
``DeclaredEffect.action`` is what it does. So a new kind is one module and one line in ``table``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, assert_never

from jobrun.core.errors import Origin
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.expression_text import render_expr, render_text
from jobrun.graph.expressions import Expr, Text
from jobrun.graph.traversal import children

if TYPE_CHECKING:
    from jobrun.core.events import Listener

NOWHERE: Origin = Origin("<python>")
# In a spec → in the step: a text with '{expr:format}' → Text; an expression that is a bool → Expr;
# {name: expression} → ((name, Expr), …); a duration such as 90s → seconds.
KeyKind = Literal["text", "condition", "numbers", "duration"]
REQUIRED = object()
_KEY, _SOURCE = "jobrun.key", "jobrun.source"


class Effect:
    """A step that holds no other steps, and all that generic code asks of its kind.

    A kind overrides what is not empty for it. ``DeclaredEffect`` answers most of it from the
    declared fields; a kind that needs more has a form in ``spec.models.steps``, a row in the table
    of ``compile.lowering.effects``, and one in that of ``runtime.steps.dispatch``.
    """

    __slots__ = ()

    def expressions(self) -> tuple[Expr, ...]:
        """Return the expressions that an effect evaluates; for kinds of effects to override."""
        return ()

    def reads(self) -> tuple[str, ...]:
        """Return the blobs that an effect reads other than by its expressions."""
        return ()

    def binds(self) -> tuple[str, ...]:
        """Return the blobs that an effect binds; for kinds of effects to override."""
        return ()

    def lends(self) -> tuple[str, ...]:
        """Return the blobs that an effect lends to user code; for kinds of effects to override."""
        return ()

    def line(self) -> str:
        """Render the effect as one line, close to how a spec writes the step."""
        return type(self).__name__.lower()


@dataclass(frozen=True, slots=True)
class Key:
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


def key(name: str, kind: KeyKind, description: str, default: Any = REQUIRED) -> dict[str, Key]:
    """Declare that a field of an effect's class gets its value from a key of the spec."""
    return {_KEY: Key(name, kind, description, default)}


def source_of(other: str) -> dict[str, str]:
    """Declare that a field of an effect's class gets the text which the spec has for another."""
    return {_SOURCE: other}


@cache
def declared_keys(kind: type[Any]) -> dict[str, Key]:
    """Map a declared effect's field names to the spec keys that they declare, in order."""
    return {one.name: one.metadata[_KEY] for one in fields(kind) if _KEY in one.metadata}


@cache
def declared_sources(kind: type[Any]) -> dict[str, str]:
    """Map fields of a declared effect's class to the field whose written text each one receives."""
    return {one.name: one.metadata[_SOURCE] for one in fields(kind) if _SOURCE in one.metadata}


class Surroundings(Protocol):
    """What an effect sees of the block that runs it; ``runtime.frame.frame.Frame`` is one."""

    task: str
    instance: int
    epoch: int

    @property
    def node_name(self) -> str:
        """The node on which the action of an effect runs."""
        ...

    @property
    def emit(self) -> Listener:
        """The listener by which the action of an effect sends events of the run."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait some seconds in the action of an effect, or until the run is cancelled.

        Raises:
            CancelledError: The run was cancelled.
        """
        ...


Action = Callable[[Any], None]


class ExpressionCompiler(Protocol):
    """Compiles the expressions of an effect to functions of its ``Surroundings``."""

    def text(self, text: Text) -> Callable[[Any], str]:
        """Compile a text for an effect to a function that fills in the values."""
        ...

    def condition(self, expr: Expr) -> Callable[[Any], bool]:
        """Compile a condition for an effect to a function that raises E203 if it is no bool."""
        ...

    def number(self, expr: Expr, name: str) -> Callable[[Any], float | int | bool | str]:
        """Compile an expression for an effect to a function that raises E212 unless one number."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEffect(Effect):
    """An effect that is defined by its declared keys and its action, a frozen dataclass."""

    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)

    @abstractmethod
    def action(self, compiler: ExpressionCompiler) -> Action:
        """Build the function that carries out an effect of a declared kind."""

    def expressions(self) -> tuple[Expr, ...]:
        """Return the expressions in the values of the declared keys of the effect."""
        found: list[Expr] = []
        kind: Any = type(self)
        for name, one in declared_keys(kind).items():
            value = getattr(self, name)
            match one.kind:
                case "text":
                    found += children(value)
                case "condition":
                    found.append(value)
                case "numbers":
                    found += (number for _, number in value)
                case "duration":
                    pass
                case _:
                    assert_never(one.kind)
        return tuple(found)

    def line(self) -> str:
        """Render a declared kind of effect as one line: its first key, and that key's value."""
        kind: Any = type(self)
        name, first = next(iter(declared_keys(kind).items()))
        return f"{first.name} {_render(first.kind, getattr(self, name))}"


def _render(kind: KeyKind, value: Any) -> str:
    """Render the value of a key that a kind of effect declares, as it is written in a spec."""
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
