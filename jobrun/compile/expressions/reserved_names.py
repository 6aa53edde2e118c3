"""List the reserved names, which no blob can have, each with the reason."""

from __future__ import annotations

import keyword
from collections.abc import Container

from jobrun.compile.expressions.calls import DTYPE_WORDS
from jobrun.compile.expressions.unsupported_syntax import FOREIGN_WORDS, LIBRARIES
from jobrun.core.codes import Code
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.expressions import BUILTINS, DTYPES
from jobrun.ops.operator_table import OPERATORS

# Functions of the first version of the language; a blob hides one that was added later.
FUNCTIONS = frozenset(name for name, operator in OPERATORS.items() if operator.since == 1)
RESERVED = frozenset(
    (*DTYPES, *(name.split(".")[0] for name in BUILTINS), *FUNCTIONS, *keyword.kwlist,
     "rng", "iter", "forever", "stop")
)  # fmt: skip
# Words that an expression may have a meaning for; any other is a name like all others.
MEANINGFUL = RESERVED.union(LIBRARIES, FOREIGN_WORDS, DTYPE_WORDS)
# What can follow ``node.``.
NODE_PARTS = tuple(name.removeprefix("node.") for name in BUILTINS if name.startswith("node."))


@dataclass(frozen=True, slots=True)
class NameRefusal:
    """Why a blob cannot have a name, and what to do."""

    code: Code
    message: str
    mend: str


def find_name_refusal(name: str, params: Container[str]) -> NameRefusal | None:
    """Return why a name is reserved, so that no blob can have it; None if the name is free."""
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


def explain_reserved(name: str) -> tuple[str, str] | None:
    """Explain why a reserved name such as ``rng`` is not a value in expressions, or None."""
    if name == "rng":
        return (
            "'rng' is not a value",
            "draw from it: rng.normal(size=3); a called function with an argument named rng "
            "gets it without 'with'",
        )
    if name == "node":
        return "'node' is not a value", f"write {' or '.join(f'node.{p}' for p in NODE_PARTS)}"
    if name in LIBRARIES:
        return f"'{name}' is not a value", "write functions without a module: sqrt(x)"
    if name in FOREIGN_WORDS:
        return f"'{name}' is not a value", FOREIGN_WORDS[name]
    if name in FUNCTIONS:
        word = DTYPE_WORDS.get(name)
        mend = f"call it: {name}(…)" + (f"; as a dtype write {word}" if word else "")
        return f"'{name}' is a function, not a value", mend
    return None
