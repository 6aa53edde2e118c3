"""Translate names and dotted names of an expression's text to nodes of its tree."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from jobrun.compile.expressions.python_syntax import Findings
from jobrun.compile.expressions.reserved import NODE_PARTS, explain_reserved
from jobrun.compile.expressions.unsupported_syntax import (
    LIBRARIES,
    explain_library_name,
)
from jobrun.core.text.names import BLOB_NAME, did_you_mean
from jobrun.graph.expressions import (
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

# Replaces a part with a fault, so that translation continues and finds the other faults.
UNREADABLE = Const(None)


class NameTranslator:
    """Translates the names in the text of one expression, and collects their faults."""

    def __init__(self, findings: Findings, params: Params) -> None:
        self._findings = findings
        self._params = params

    def translate(self, node: ast.Name) -> Expr:
        """Translate a name in an expression: to a blob, a builtin, a loop index, …."""
        name = node.id
        if name in self._params:
            return Const(self._params[name])
        if name in BUILTINS:
            return Builtin(name)
        if name in DTYPES:
            return Dtype(name)
        if name == "iter":
            return LoopIndex("")
        refused = explain_reserved(name)
        if refused is not None:
            self._findings.add("E106", *refused, node)
            return UNREADABLE
        if not self.check(name, node):
            return UNREADABLE
        return Name(name, self._findings.scalar.at(node))

    def translate_dotted(self, node: ast.Attribute, first: ast.Name) -> Expr:
        """Translate the name ``first.attr`` in an expression: of a node or a task's output."""
        name = first.id
        if name == "node" and node.attr in NODE_PARTS:
            return Builtin(f"node.{node.attr}")
        if name == "node":
            mend = did_you_mean(node.attr, NODE_PARTS)
            self._findings.add("E106", f"'node' has no '{node.attr}'", mend, node)
            return UNREADABLE
        if name in LIBRARIES:
            self._findings.add("E103", *explain_library_name(node.attr), node)
            return UNREADABLE
        if name in self._params or name in BUILTINS or name in DTYPES or name in {"rng", "iter"}:
            message = f"'{name}' has no '{node.attr}'"
            self._findings.add("E103", message, f"values have {', '.join(ATTRIBUTES)}", node)
            return UNREADABLE
        if not (self.check(name, first) and self.check(node.attr, node)):
            return UNREADABLE
        return OutputRead(name, node.attr, at=self._findings.scalar.at(node))

    def check(self, name: str, node: ast.expr) -> bool:
        """Check whether a blob can have the name in the expression; add fault E107 if not."""
        message = ""
        if not BLOB_NAME.fullmatch(name):
            message = "a name has at most 64 letters, digits and '_'"
        elif name.startswith("__"):
            message = "a name must not begin with two underscores"
        if message:
            self._findings.add("E107", message, "choose another name", node)
        return not message
