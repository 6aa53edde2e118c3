"""Takes note of what cannot be computed, with its place in the text. Finds nothing itself."""

from __future__ import annotations

from dataclasses import dataclass

from jobrun.compile.faults import Faults, Place
from jobrun.compile.shape_eval import Misfit
from jobrun.core.origin import Origin
from jobrun.graph.expr import Call, Draw, Expr, Name, OutputRead
from jobrun.graph.unparse import render_expr
from jobrun.graph.walk import walk_expr
from jobrun.ops.arguments import MisfitError

_LONGEST_TEXT = 60


@dataclass(slots=True)
class Judge:
    """Takes note of what cannot be computed.

    Attributes:
        faults: Collects it.
        doubt: How many conditions of which nothing is known stand around the present step.
    """

    faults: Faults
    doubt: int = 0

    def note(self, misfit: Misfit, path: str, origin: Origin) -> None:
        """One part of an expression that cannot be computed."""
        place = Place(path, _place(misfit.expr, origin))
        self.tell(misfit.error, f"in {shown(misfit.expr)}: ", place, perhaps=misfit.is_perhaps)

    def tell(self, error: MisfitError, before: str, place: Place, *, perhaps: bool = False) -> None:
        """One misfit, with what stands before its message."""
        message = f"{before}{error.message}"
        if self.doubt or perhaps:
            self.faults.warn("W138", f"{message}, if this is reached", error.mend, place)
        else:
            self.faults.error(error.code, message, error.mend, place)


def shown(expr: Expr) -> str:
    """An expression as a message shows it, cut where it is long."""
    text = render_expr(expr)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _place(expr: Expr, origin: Origin) -> Origin:
    """The first word of an expression whose place in the text is known."""
    for part in walk_expr(expr):
        match part:
            case Name(name=name) if part.at:
                return origin.inside(part.at, len(name))
            case Call(function=name) | Draw(method=name) if part.at:
                return origin.inside(part.at, len(name))
            case OutputRead() if part.at:
                return origin.inside(part.at)
            case _:
                continue
    return origin
