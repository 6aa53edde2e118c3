"""Map generated code to steps of the spec, through the code object's own table of positions.

A variable that notes the present operator would cost each of them an instruction. The table
costs nothing until it is read: the line and column of an instruction are those of the spec,
and its end column, which nothing else needs, is the number of the place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import islice
from types import CodeType

from msgspec import Struct

from jobrun.core.errors import Origin

# Beyond the end of any line, so that a traceback underlines the whole statement.
_FIRST = 10_000
# Bytes of one instruction. The table has one entry for each instruction.
_INSTRUCTION_BYTES = 2


class StepLocation(Struct, frozen=True):
    """The location of a step or an operator in the spec.

    Attributes:
        blob: The first blob that it assigns; empty where it assigns none.
    """

    path: str
    origin: Origin
    blob: str = ""


def locate(statements: Iterable[ast.AST], origin: Origin, number: int) -> None:
    """Set a step's line and column in its generated ``ast`` nodes, to form the line table."""
    line, column = max(1, origin.line), min(max(0, origin.column - 1), _FIRST)
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt | ast.expr | ast.excepthandler | ast.keyword) and not (
                hasattr(node, "lineno")
            ):
                node.lineno = node.end_lineno = line
                node.col_offset, node.end_col_offset = column, _FIRST + number


def location_number(statement: ast.stmt) -> int | None:
    """Return the index of a statement's location in the line table; None if it has none."""
    end = getattr(statement, "end_col_offset", None)
    return end - _FIRST if end is not None and end >= _FIRST else None


def find_location(code: CodeType, offset: int, locations: tuple[StepLocation, ...]) -> StepLocation:
    """Look up in the line table which step of the spec an instruction of generated code is from.

    Args:
        code: Code whose statements were given their places by ``locate``.
        offset: Negative before the first instruction.
        locations: At least one: what the numbers index.
    """
    line, _, _, number = next(
        islice(code.co_positions(), max(0, offset) // _INSTRUCTION_BYTES, None),
        (None, None, None, None),
    )
    if number is not None:
        return locations[number - _FIRST] if number >= _FIRST else locations[0]
    # With -X no_debug_ranges Python stores no columns: search by line.
    return next((location for location in locations if location.origin.line == line), locations[0])
