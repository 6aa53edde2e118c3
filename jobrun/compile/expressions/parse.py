"""Parse the text of expressions and statements into frozen trees: the entry points."""

from __future__ import annotations

from typing import Any

from jobrun.compile.expressions import limits
from jobrun.compile.expressions.python_ast import (
    SourceText,
    parse_python_expression,
    parse_python_statement,
)
from jobrun.compile.expressions.translate import UNREADABLE, Params, StatementTranslator, Translator
from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.graph.expressions import Const, Expr
from jobrun.graph.expressions import Sequence as SequenceExpr
from jobrun.graph.steps import Op

_KINDS: dict[type, str] = {dict: "a mapping", set: "a set", bytes: "binary data"}


def parse_expression(value: Any, origin: Origin, path: str, params: Params) -> Expr:
    """Parse a value of a spec, usually text, to an expression, an immutable tree.

    Names are kept as written; whether such a blob, task or loop exists is checked later.

    Args:
        value: Text is read as an expression; a bool, number or None is itself; a list or
            tuple is a list of expressions.
        origin: Its place in the spec; faults point into it.
        path: Its path in the spec, for faults.
        params: The params, which are replaced by their values.

    Raises:
        SpecError: It is not valid; with all its faults, codes E100 to E118.
    """
    match value:
        case str():
            return _parse_text(value, origin, path, params)
        case list() | tuple():
            return _parse_items(value, origin, path, params)
        case int() if not limits.fits_64_bits(value):
            mend = "write a float, such as 1e30"
            raise SpecError.of(
                "E109", "this number has more than 64 bits", mend, where=origin, path=path
            )
        case None | bool() | int() | float():
            return Const(value)
        case _:
            kind = _KINDS.get(type(value), f"a {type(value).__name__}")
            mend = "write an expression, a number, or a list of them"
            raise SpecError.of(
                "E117", f"{kind} is not a valid value", mend, where=origin, path=path
            )


def parse_statement(text: str, origin: Origin, path: str, params: Params) -> Op:
    """Parse the text of a statement, such as ``x = a + 1``, to the graph's ``Op``.

    Args:
        text: The statement.
        origin: Its place in the spec, also the operator's; faults point into it.
        path: The step's path, which becomes that of the operator.
        params: The params, which are replaced by their values.

    Raises:
        SpecError: It is not valid; with all its faults, codes E100 to E118, E150 and E151.
    """
    scalar = SourceText(text, origin, path)
    return StatementTranslator(scalar, params).translate(parse_python_statement(scalar))


def _parse_text(text: str, origin: Origin, path: str, params: Params) -> Expr:
    scalar = SourceText(text, origin, path)
    node = parse_python_expression(scalar)
    translator = Translator(scalar, params)
    expr = translator.expression(node)
    translator.findings.raise_if_any()
    return expr


def _parse_items(
    values: list[Any] | tuple[Any, ...], origin: Origin, path: str, params: Params
) -> Expr:
    if len(values) > limits.MAX_ITEMS:
        message = f"this list has {len(values)} items; at most {limits.MAX_ITEMS} are allowed"
        raise SpecError.of("E108", message, "load them from a file", where=origin, path=path)
    items: list[Expr] = []
    faults: list[Fault] = []
    # The place of an item is not known here; its offsets would point to wrong columns.
    whole = Origin(origin.file, origin.line, origin.column, origin.length)
    for value in values:
        try:
            items.append(parse_expression(value, whole, path, params))
        except SpecError as error:
            faults += error.faults
            items.append(UNREADABLE)
    if faults:
        raise SpecError(*faults)
    return SequenceExpr(tuple(items), "list")
