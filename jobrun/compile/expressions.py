"""Expressions and statements of a spec: from their text to frozen trees. Executes nothing."""

from __future__ import annotations

from typing import Any

from jobrun.compile import limits
from jobrun.compile.names import UNREADABLE, Params
from jobrun.compile.scalar import Scalar, read_expression, read_statement
from jobrun.compile.statements import Statement
from jobrun.compile.translate import Translator
from jobrun.core.errors import Fault, SpecError
from jobrun.core.origin import Origin
from jobrun.graph.expr import Const, Expr, Sequence
from jobrun.graph.steps import Op

_KINDS: dict[type, str] = {dict: "a mapping", set: "a set", bytes: "binary data"}


def parse_expression(value: Any, origin: Origin, path: str, params: Params) -> Expr:
    """The expression that a value of a spec stands for.

    Names stay as they are written: whether there is such a blob, task or loop is not asked.

    Args:
        value: Text is read as an expression; a bool, number or None is itself; a list or
            tuple is a list of expressions.
        origin: Where it stands; faults point into it.
        path: What it belongs to, as faults name it.
        params: Names that stand for constants.

    Raises:
        SpecError: All that is wrong with it, codes E100 to E118.
    """
    match value:
        case str():
            return _parse_text(value, origin, path, params)
        case list() | tuple():
            return _parse_items(value, origin, path, params)
        case int() if not limits.fits(value):
            mend = "write a float, such as 1e30"
            raise SpecError.of("E109", "this number has more than 64 bits", mend,
                               where=origin, path=path)  # fmt: skip
        case None | bool() | int() | float():
            return Const(value)
        case _:
            kind = _KINDS.get(type(value), f"a {type(value).__name__}")
            mend = "write an expression, a number, or a list of them"
            raise SpecError.of("E117", f"{kind} cannot be a value", mend, where=origin, path=path)


def parse_statement(text: str, origin: Origin, path: str, params: Params) -> Op:
    """The operator that a statement stands for: an assignment, an effect, or a deletion.

    Args:
        text: The statement.
        origin: Where it stands; it becomes that of the operator, and faults point into it.
        path: The step's path, which becomes that of the operator.
        params: Names that stand for constants.

    Raises:
        SpecError: All that is wrong with it, codes E100 to E118, E150 and E151.
    """
    scalar = Scalar(text, origin, path)
    return Statement(scalar, params).read(read_statement(scalar))


def _parse_text(text: str, origin: Origin, path: str, params: Params) -> Expr:
    scalar = Scalar(text, origin, path)
    node = read_expression(scalar)
    translator = Translator(scalar, params)
    expr = translator.expression(node)
    translator.findings.raise_if_any()
    return expr


def _parse_items(
    values: list[Any] | tuple[Any, ...], origin: Origin, path: str, params: Params
) -> Expr:
    if len(values) > limits.MOST_ITEMS:
        message = f"this list has {len(values)} items, and {limits.MOST_ITEMS} are allowed"
        raise SpecError.of("E108", message, "load them from a file", where=origin, path=path)
    items: list[Expr] = []
    faults: list[Fault] = []
    # Where an item stands is not known here; its offsets would point to wrong columns.
    whole = Origin(origin.file, origin.line, origin.column, origin.length)
    for value in values:
        try:
            items.append(parse_expression(value, whole, path, params))
        except SpecError as error:
            faults += error.faults
            items.append(UNREADABLE)
    if faults:
        raise SpecError(*faults)
    return Sequence(tuple(items), "list")
