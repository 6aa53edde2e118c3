"""Compare what a rule says of one line's call with what the call gives."""

from __future__ import annotations

from typing import Any

from jobrun.ops.abstract_values import Arguments, Known
from jobrun.ops.operator_table import OPERATORS
from tests.support.expressions import run_line
from tests.support.sampling import agree, known_of


def told(line: str) -> tuple[Any, list[str]]:
    """Return what the rule says of the last call of a line, and what is wrong with that."""
    name = line.rpartition("; ")[2].partition("(")[0]
    result, args, kwargs = run_line(line)
    signature = OPERATORS[name].parameters
    given = dict(zip(signature.positional, args, strict=False)) | kwargs
    known = {key: known_of(value) for key, value in given.items()}
    rest = tuple(map(known_of, args[len(signature.positional) :]))
    found = OPERATORS[name].rule(Arguments(known, rest))
    return found, [*agree(found, result), *([] if _says(found) else ["nothing is said"])]


def _says(found: Any) -> bool:
    parts = found if isinstance(found, tuple) else (found,)
    return any(isinstance(one, Known) and one.shape is not None for one in parts)
