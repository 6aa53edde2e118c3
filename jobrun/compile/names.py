"""What a name, or a name with a dot, means in an expression; not whether there is such a thing."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from jobrun.compile.calls import DTYPE_WORDS
from jobrun.compile.refusals import LIBRARIES, WORDS, library_name
from jobrun.compile.reserved import FUNCTIONS
from jobrun.compile.scalar import Findings
from jobrun.core.names import BLOB_NAME, did_you_mean
from jobrun.graph.expr import (
    ATTRIBUTES,
    BUILTINS,
    DTYPES,
    Builtin,
    Const,
    Dtype,
    Expr,
    LoopIndex,
    Name,
    OutputRead,
)

Params = Mapping[str, bool | int | float | str]

# Stands where something could not be read, so that reading goes on and finds the other faults.
UNREADABLE = Const(None)
_NODE_PARTS = tuple(name.removeprefix("node.") for name in BUILTINS if name.startswith("node."))


class Names:
    """Reads names of one text."""

    def __init__(self, findings: Findings, params: Params) -> None:
        self._findings = findings
        self._params = params

    def read(self, node: ast.Name) -> Expr:
        """A bare name."""
        name = node.id
        if name in self._params:
            return Const(self._params[name])
        if name in BUILTINS:
            return Builtin(name)
        if name in DTYPES:
            return Dtype(name)
        if name == "iter":
            return LoopIndex("")
        refused = self._no_value(name)
        if refused is not None:
            self._findings.add("E106", *refused, node)
            return UNREADABLE
        if not self.check(name, node):
            return UNREADABLE
        return Name(name, self._findings.scalar.at(node))

    def read_dotted(self, node: ast.Attribute, first: ast.Name) -> Expr:
        """``first.attr``, where that is no attribute of a value: a node's name, or an output."""
        name = first.id
        if name == "node" and node.attr in _NODE_PARTS:
            return Builtin(f"node.{node.attr}")
        if name == "node":
            mend = did_you_mean(node.attr, _NODE_PARTS)
            self._findings.add("E106", f"'node' has no '{node.attr}'", mend, node)
            return UNREADABLE
        if name in LIBRARIES:
            self._findings.add("E103", *library_name(node.attr), node)
            return UNREADABLE
        if name in self._params or name in BUILTINS or name in DTYPES or name in {"rng", "iter"}:
            message = f"'{name}' has no '{node.attr}'"
            self._findings.add("E103", message, f"values have {', '.join(ATTRIBUTES)}", node)
            return UNREADABLE
        if not (self.check(name, first) and self.check(node.attr, node)):
            return UNREADABLE
        return OutputRead(name, node.attr, at=self._findings.scalar.at(node))

    def check(self, name: str, node: ast.expr) -> bool:
        """Whether a name is of the shape a blob's has; notes a fault if not."""
        message = ""
        if not BLOB_NAME.fullmatch(name):
            message = "a name has at most 64 letters, digits and '_'"
        elif name.startswith("__"):
            message = "a name may not begin with two underscores"
        if message:
            self._findings.add("E107", message, "write another name", node)
        return not message

    def _no_value(self, name: str) -> tuple[str, str] | None:
        """Why a word is no value, and what to write."""
        if name == "rng":
            return "'rng' is no value", "draw from it: rng.normal(size=3)"
        if name == "node":
            return "'node' is no value", f"write {' or '.join(f'node.{p}' for p in _NODE_PARTS)}"
        if name in LIBRARIES:
            return f"'{name}' is no value", "functions are known by their name alone: sqrt(x)"
        if name in WORDS:
            return f"'{name}' is no value", WORDS[name]
        if name in FUNCTIONS:
            word = DTYPE_WORDS.get(name)
            mend = f"call it: {name}(…)" + (f"; as a dtype write {word}" if word else "")
            return f"'{name}' is a function, and no value", mend
        return None
