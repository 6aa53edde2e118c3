"""Translate Python statements into operators of a net: assignments, effects, deletions."""

from __future__ import annotations

import ast

from jobrun.compile.expressions.names import Params
from jobrun.compile.expressions.python_syntax import SourceText
from jobrun.compile.expressions.reserved import find_name_refusal
from jobrun.compile.expressions.translate import BINARY, Translator
from jobrun.compile.expressions.unsupported_syntax import OTHER_FORM, UNSUPPORTED_FORMS
from jobrun.graph.expressions import Binary, Call, Expr, Name
from jobrun.graph.steps import (
    Assign,
    Augment,
    Delete,
    ItemTarget,
    NameTarget,
    Op,
    Perform,
    Target,
)
from jobrun.ops.plugins import find_operator

_NOT_A_TARGET = {
    ast.Attribute: ("an attribute cannot be assigned to",
                    "assign to the blob: x = reshape(x, (2, 3))"),
    ast.Starred: ("'*' is not supported here", "name each result"),
    ast.List: ("a list cannot be assigned to", "write a, b = …"),
    ast.Tuple: ("nested targets cannot be assigned to", "write a, b, c = …"),
}  # fmt: skip


class StatementTranslator:
    """Translates one Python statement; faults are collected in the translator's findings."""

    def __init__(self, scalar: SourceText, params: Params) -> None:
        self._translator = Translator(scalar, params)
        self._findings = self._translator.findings
        self._scalar = scalar
        self._params = params

    def translate(self, node: ast.stmt) -> Op:
        """Translate a Python statement into an operator: assignment, effect or deletion.

        Raises:
            SpecError: It is not valid; with all its faults.
        """
        op = self._translate(node)
        self._findings.raise_if_any()
        return op

    def _translate(self, node: ast.stmt) -> Op:
        path, origin = self._scalar.path, self._scalar.origin
        match node:
            case ast.Assign():
                return Assign(self._targets(node), self._value(node.value), path, origin)
            case ast.AugAssign():
                return self._augment(node)
            case ast.Expr():
                return Perform(self._effect(node.value), path, origin)
            case ast.Delete():
                names = tuple(name for one in node.targets for name in self._deleted_names(one))
                return Delete(names, path, origin)
            case _:
                refusal = UNSUPPORTED_FORMS.get(type(node), OTHER_FORM)
                self._findings.add("E102", *refusal, node)
                return Delete(())

    def _value(self, node: ast.expr) -> Expr:
        value = self._translator.expression(node)
        if isinstance(value, Call) and _count_results(value) == 0:
            mend = f"write {value.function}(…) as a separate step"
            self._findings.add("E110", f"{value.function} returns no value", mend, node)
        return value

    def _augment(self, node: ast.AugAssign) -> Op:
        target = self._target(node.target)
        value = self._value(node.value)
        operator = BINARY[type(node.op)]
        if not self._findings.faults:
            self._translator.check_size(Binary(Name(target.name), operator, value), node)
        return Augment(target, operator, value, self._scalar.path, self._scalar.origin)

    def _effect(self, node: ast.expr) -> Expr:
        value = self._translator.expression(node)
        if isinstance(value, Call):
            operator = find_operator(value.function)
            if operator is not None and operator.mutates:
                return value
        if not self._findings.faults:
            mend = "write name = …"
            if isinstance(node, ast.Compare):
                mend = "write = to assign; a check is {assert: condition}"
            self._findings.add("E110", "the result is not used", mend, node)
        return value

    def _targets(self, node: ast.Assign) -> tuple[Target, ...]:
        if len(node.targets) > 1:
            mend = "write two steps: b = c, then a = b"
            self._findings.add("E111", "chained assignment is not supported", mend, node.targets[1])
        first = node.targets[0]
        written = first.elts if isinstance(first, ast.Tuple) else [first]
        targets = tuple(self._target(one) for one in written)
        names = [target.name for target in targets if isinstance(target, NameTarget)]
        for name in {name for name in names if names.count(name) > 1}:
            self._findings.add(
                "E111", f"'{name}' is assigned twice", "name each target once", first
            )
        if not targets:
            self._findings.add("E111", "there is no target to assign to", "write name = …", first)
        if isinstance(node.value, ast.Tuple) and len(targets) > 1:
            self._check_length(node.value, len(targets))
        return targets

    def _check_length(self, node: ast.Tuple, wanted: int) -> None:
        if len(node.elts) != wanted:
            message = f"{len(node.elts)} values cannot be assigned to {wanted} names"
            self._findings.add("E111", message, "use one name for each value", node)

    def _target(self, node: ast.expr) -> Target:
        match node:
            case ast.Name():
                self._check_name(node)
                return NameTarget(node.id)
            case ast.Subscript(value=ast.Name() as blob):
                self._check_name(blob)
                return ItemTarget(blob.id, self._translator.index(node.slice))
            case ast.Subscript(value=ast.Subscript()):
                self._findings.add(
                    "E111", "only items of a blob can be assigned to", "write U[i, j] = …", node
                )
            case ast.Subscript():
                self._findings.add(
                    "E111", "only items of a blob can be assigned to", "write name[index] = …", node
                )
            case _:
                message, mend = _NOT_A_TARGET.get(
                    type(node), ("this cannot be assigned to", "write name = … or name[index] = …")
                )
                self._findings.add("E111", message, mend, node)
        return NameTarget("_")

    def _check_name(self, node: ast.Name) -> None:
        refused = find_name_refusal(node.id, self._params)
        if refused is not None and not node.id.startswith("__"):
            # The fault is that of the whole statement, as for names that other steps bind.
            self._findings.add(*refused, None)
        else:
            self._translator.names.check(node.id, node)

    def _deleted_names(self, node: ast.expr) -> tuple[str, ...]:
        match node:
            case ast.Name():
                self._check_name(node)
                return (node.id,)
            case ast.Tuple():
                return tuple(name for one in node.elts for name in self._deleted_names(one))
            case _:
                mend = "write del a, b; delete(x, i) returns x without item i"
                self._findings.add("E111", "only whole blobs can be deleted", mend, node)
                return ()


def _count_results(call: Call) -> int:
    operator = find_operator(call.function)
    return 1 if operator is None else operator.results
