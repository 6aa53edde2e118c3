"""List the reserved names, which no blob can have, each with the reason."""

from __future__ import annotations

import keyword
from collections.abc import Container
from typing import NamedTuple

from jobrun.core.codes import Code
from jobrun.graph.expressions import BUILTINS, DTYPES
from jobrun.ops.table import OPERATORS

# Functions of the first version of the language; a blob hides one that was added later.
FUNCTIONS = frozenset(name for name, operator in OPERATORS.items() if operator.since == 1)
RESERVED = frozenset(
    (*DTYPES, *(name.split(".")[0] for name in BUILTINS), *FUNCTIONS, *keyword.kwlist,
     "rng", "iter", "forever", "stop")
)  # fmt: skip


class NameRefusal(NamedTuple):
    """Why a blob cannot have a name, and what to do."""

    code: Code
    message: str
    mend: str


def find_name_refusal(name: str, params: Container[str]) -> NameRefusal | None:
    """Return why a name is reserved and no blob can have it; None when it is free."""
    if name in params:
        message = f"'{name}' is a param, so a blob cannot have this name"
        return NameRefusal("E150", message, "rename the blob")
    if name in RESERVED:
        message = f"'{name}' is a reserved word of the spec language"
        return NameRefusal("E151", message, f"write for example '{name}_'")
    if name.startswith("__"):
        return NameRefusal(
            "E107", "a name must not begin with two underscores", "choose another name"
        )
    return None
