"""Add faults for expressions whose types do not fit, with their places in the text."""

from __future__ import annotations

from jobrun.compile.faults import Faults, Place
from jobrun.compile.types.expressions import Misfit
from jobrun.core.errors import Origin
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.expression_text import render_expr
from jobrun.graph.expressions import Call, Draw, Expr, Name, OutputRead
from jobrun.graph.traversal import walk_expr
from jobrun.ops.abstract_values import MisfitError

_MAX_TEXT = 60


@dataclass(slots=True)
class TypeFaults:
    """Turns misfits into errors, or into warnings where it is not certain that they are reached.

    Attributes:
        faults: Collects them.
        doubt: The number of conditions around the current step whose values are not known.
    """

    faults: Faults
    doubt: int = 0

    def add_misfit(self, misfit: Misfit, path: str, origin: Origin) -> None:
        """Add the fault that a part of an expression has a type that does not fit."""
        place = Place(path, _find_place(misfit.expr, origin))
        self.add(
            misfit.error, f"in {render_short(misfit.expr)}: ", place, perhaps=misfit.is_perhaps
        )

    def add(self, error: MisfitError, before: str, place: Place, *, perhaps: bool = False) -> None:
        """Add the fault of an expression whose type does not fit, found in a step."""
        message = f"{before}{error.message}"
        if self.doubt or perhaps:
            self.faults.warn("W138", f"{message}, if this is reached", error.mend, place)
        else:
            self.faults.error(error.code, message, error.mend, place)


def render_short(expr: Expr) -> str:
    """Render an expression for the message of a type fault, shortened if it is long."""
    text = render_expr(expr)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _find_place(expr: Expr, origin: Origin) -> Origin:
    """Return the place of a type fault: that of the first name, call or draw in the expression."""
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
