"""Names that no blob can have, and why. Shape of names is the spec's and the parser's."""

from __future__ import annotations

import keyword
from collections.abc import Container
from typing import NamedTuple

from jobrun.graph.expr import BUILTINS, DTYPES
from jobrun.ops.table import OPERATORS

# Functions of the first version of the language; one that came later is hidden by a blob.
FUNCTIONS = frozenset(name for name, operator in OPERATORS.items() if operator.since == 1)
RESERVED = frozenset(
    (*DTYPES, *(name.split(".")[0] for name in BUILTINS), *FUNCTIONS, *keyword.kwlist,
     "rng", "iter", "forever", "stop")
)  # fmt: skip


class Refused(NamedTuple):
    """Why a blob cannot have a name."""

    code: str
    message: str
    mend: str


def refused_name(name: str, params: Container[str]) -> Refused | None:
    """Why a blob cannot have this name; None when it can."""
    if name in params:
        message = f"'{name}' is a param, and a blob cannot have its name"
        return Refused("E150", message, "give the blob another name")
    if name in RESERVED:
        message = f"'{name}' is a word of the spec language, and not a name for a blob"
        return Refused("E151", message, f"write for example '{name}_'")
    if name.startswith("__"):
        return Refused("E107", "a name may not begin with two underscores", "write another name")
    return None
