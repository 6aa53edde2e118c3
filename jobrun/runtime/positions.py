"""Where generated code stands, kept in the code's own table of positions. Makes no code.

A variable that notes the present operator would cost each of them an instruction. The table
costs nothing until it is read: the line and column of an instruction are those of the spec,
and its end column, which nothing else needs, is the number of the place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from types import CodeType

from jobrun.core.origin import Origin

# Behind the end of any line, so that a traceback underlines the statement to its end.
_FIRST = 10_000
# Bytes of one instruction, of which the table has one entry each.
_INSTRUCTION_BYTES = 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where a step or an operator stands."""

    path: str
    origin: Origin


def locate(made: Iterable[ast.stmt], origin: Origin, number: int) -> None:
    """Give the statements the place in the spec, where they have none yet."""
    line, column = max(1, origin.line), min(max(0, origin.column - 1), _FIRST)
    for statement in made:
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt | ast.expr | ast.excepthandler | ast.keyword) and not (
                hasattr(node, "lineno")
            ):
                node.lineno = node.end_lineno = line
                node.col_offset, node.end_col_offset = column, _FIRST + number


def number_of(statement: ast.stmt) -> int | None:
    """The number of the place that ``locate`` gave it; None where it gave none."""
    end = getattr(statement, "end_col_offset", None)
    return end - _FIRST if end is not None and end >= _FIRST else None


def place_at(code: CodeType, offset: int, places: tuple[Place, ...]) -> Place:
    """The place of the instruction at a byte offset, such as a frame's ``f_lasti``.

    Args:
        code: Code whose statements were given their places by ``locate``.
        offset: Negative before the first instruction.
        places: At least one: what the numbers stand for.
    """
    line, _, _, number = next(
        islice(code.co_positions(), max(0, offset) // _INSTRUCTION_BYTES, None),
        (None, None, None, None),
    )
    if number is not None:
        return places[number - _FIRST] if number >= _FIRST else places[0]
    # Python was told to keep no columns (-X no_debug_ranges): the line has to do.
    return next((one for one in places if one.origin.line == line), places[0])
