"""Compare what a rule says of one line's call with what the call gives."""

from __future__ import annotations

from typing import Any

from jobrun.ops.abstract_values import Arguments, Known
from jobrun.ops.operator_table import OPERATORS
from tests.support.expressions import run_line
from tests.support.sampling import agree, known_of


def check_rule(line: str) -> tuple[Any, list[str]]:
    """Return what the rule says of the last call of a line, and the differences from its result."""
    name = line.rpartition("; ")[2].partition("(")[0]
    result, args, kwargs = run_line(line)
    signature = OPERATORS[name].parameters
    by_name = dict(zip(signature.positional, args, strict=False)) | kwargs
    known = {key: known_of(value) for key, value in by_name.items()}
    unnamed = tuple(map(known_of, args[len(signature.positional) :]))
    predicted = OPERATORS[name].rule(Arguments(known, unnamed))
    return predicted, [
        *agree(predicted, result),
        *([] if _says(predicted) else ["nothing is said"]),
    ]


def _says(predicted: Any) -> bool:
    parts = predicted if isinstance(predicted, tuple) else (predicted,)
    return any(isinstance(part, Known) and part.shape is not None for part in parts)
