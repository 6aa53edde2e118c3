"""Translate Python's syntax trees of expressions and statements into our own, node by node.

A whitelist: a node type without a method here is refused. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

from jobrun.compile.expressions import limits
from jobrun.compile.expressions.calls import DTYPE_WORDS, CallFault, check_call, check_draw
from jobrun.compile.expressions.limits import MAX_DEPTH
from jobrun.compile.expressions.refusals import (
    LIBRARIES,
    NODE_PARTS,
    OTHER_FORM,
    UNSUPPORTED_FORMS,
    explain_library_call,
    explain_library_name,
    explain_reserved,
    explain_unknown_draw,
    explain_unknown_function,
    explain_unknown_method,
    find_name_refusal,
)
from jobrun.compile.expressions.source_text import Findings, SourceText, split_placeholders
from jobrun.core.codes import Code
from jobrun.core.errors import SpecError
from jobrun.core.text.names import BLOB_NAME, did_you_mean
from jobrun.graph.expressions import (
    ATTRIBUTES,
    BUILTINS,
    DTYPES,
    Attribute,
    Binary,
    BinaryOperator,
    Builtin,
    Call,
    Compare,
    Comparison,
    Conditional,
    Const,
    Draw,
    Dtype,
    Expr,
    Index,
    Logical,
    LoopIndex,
    Name,
    OutputRead,
    Sequence,
    Slice,
    Text,
    Unary,
    UnaryOperator,
)
from jobrun.graph.steps import Assign, Augment, Delete, ItemTarget, NameTarget, Op, Perform, Target
from jobrun.ops.operator_table import DRAWS, find_operator

BINARY: dict[type[ast.operator], BinaryOperator] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], UnaryOperator] = {
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Comparison] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip

_NOT_A_TARGET = {
    ast.Attribute: ("an attribute cannot be assigned to",
                    "assign to the blob: x = reshape(x, (2, 3))"),
    ast.Starred: ("'*' is not supported here", "name each result"),
    ast.List: ("a list cannot be assigned to", "write a, b = …"),
    ast.Tuple: ("nested targets cannot be assigned to", "write a, b, c = …"),
}  # fmt: skip

Params = Mapping[str, bool | int | float | str]

# Replaces a part with a fault, so that translation continues and finds the other faults.
UNREADABLE = Const(None)


class Translator:
    """Translates one expression. Faults are collected in ``findings``, and translation continues.

    Args:
        scalar: The text.
        params: The params, which are replaced by their values.
    """

    def __init__(self, scalar: SourceText, params: Params) -> None:
        self.findings = Findings(scalar)
        self.names = NameTranslator(self.findings, params)
        self._scalar = scalar
        self._depth = 0
        self._nodes = 0
        self._text_bytes = 0

    def expression(self, node: ast.expr) -> Expr:
        """Translate a node of Python's ``ast``, with all inside it, to an expression.

        Raises:
            SpecError: E108, the text is too large to continue; with all faults found so far.
        """
        self._nodes += 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._give_up(f"this expression has more than {MAX_DEPTH} levels of nesting", node)
        if self._nodes > limits.MAX_NODES:
            self._give_up(f"this expression has more than {limits.MAX_NODES} parts", node)
        translate = _TRANSLATIONS.get(type(node))
        translated = self._refuse(node) if translate is None else translate(self, node)
        self._depth -= 1
        return translated

    def _fault(self, code: Code, message: str, mend: str, node: ast.expr | None) -> Expr:
        """Add a fault of a part, and return what replaces the part."""
        self.findings.add(code, message, mend, node)
        return UNREADABLE

    def index(self, node: ast.expr) -> Expr:
        """Translate the index in ``value[index]`` from Python's ``ast`` to an expression."""
        if isinstance(node, ast.Tuple):
            return Sequence(tuple(self._index_item(item) for item in node.elts))
        return self._index_item(node)

    def _refuse(self, node: ast.AST) -> Expr:
        refusal = UNSUPPORTED_FORMS.get(type(node), OTHER_FORM)
        expression = node if isinstance(node, ast.expr) else None
        return self._fault("E102", *refusal, expression)

    def _give_up(self, message: str, node: ast.expr) -> None:
        self.findings.add("E108", message, "split it into several statements", node)
        raise SpecError(*self.findings.faults)

    def _add_faults(self, faults: list[CallFault], node: ast.Call) -> None:
        for fault in faults:
            culprit = _faulty_argument(node, fault.argument)
            self.findings.add(fault.code, fault.message, fault.mend, culprit)

    def _constant(self, node: ast.Constant) -> Expr:
        value = node.value
        if isinstance(value, str):
            return self._text(value, node)
        if isinstance(value, bytes):
            return self._fault("E102", "bytes are not a valid value", "write text", node)
        if value is ...:
            return self._fault("E102", "'...' is used outside an index", "write x[..., 0]", node)
        if type(value) is int and not limits.fits_64_bits(value):
            self._too_large(node)
            return UNREADABLE
        if isinstance(value, float | complex) and math.isinf(abs(value)):
            return self._fault("E109", "this number is too large", "write inf", node)
        return Const(value)

    def _text(self, value: str, node: ast.Constant) -> Expr:
        encoded = len(value.encode("utf-8", "replace"))
        self._text_bytes += encoded
        if self._text_bytes > limits.MAX_TEXT_BYTES:
            self._give_up(f"more than {limits.MAX_TEXT_BYTES} bytes of text", node)
        if any("\ud800" <= character <= "\udfff" for character in value):
            message = "this text contains characters that cannot be encoded as UTF-8"
            self.findings.add("E100", message, "write it again", node)
        if "$" not in value:
            return Const(value)
        try:
            parts = split_placeholders(value, self._scalar, self._scalar.at(node))
        except SpecError as error:
            self.findings.faults += error.faults
            return UNREADABLE
        if all(isinstance(part, str) for part in parts):
            return Const("".join(part for part in parts if isinstance(part, str)))
        return Text(tuple(parts))

    def _name(self, node: ast.Name) -> Expr:
        return self.names.translate(node)

    def _attribute(self, node: ast.Attribute) -> Expr:
        base = node.value
        written = isinstance(base, ast.Name) and base.id in {"node", *LIBRARIES}
        if node.attr in ATTRIBUTES and not written:
            return Attribute(self.expression(base), node.attr)
        if isinstance(base, ast.Name):
            return self.names.translate_dotted(node, base)
        if _root_name(node) in LIBRARIES:
            return self._fault("E103", *explain_library_name(node.attr), node)
        self.expression(base)
        message = f"values have no attribute '{node.attr}'"
        return self._fault("E103", message, f"they have {', '.join(ATTRIBUTES)}", node)

    def _call(self, node: ast.Call) -> Expr:
        function = node.func
        if isinstance(function, ast.Name):
            return self._function(node, function)
        if isinstance(function, ast.Attribute):
            if isinstance(function.value, ast.Name) and function.value.id == "rng":
                return self._draw(node, function)
            self._method(node, function)
        else:
            self.expression(function)
            message = "only functions of the spec language can be called"
            self.findings.add("E104", message, "'jobrun ops' lists them", node)
        self._arguments(node)
        return UNREADABLE

    def _function(self, node: ast.Call, function: ast.Name) -> Expr:
        if function.id in DTYPES:
            return self._cast(node, function.id)
        operator = find_operator(function.id)
        if operator is None:
            self.findings.add("E104", *explain_unknown_function(function.id), function)
            self._arguments(node)
            return UNREADABLE
        if not self.names.check(function.id, function):
            return UNREADABLE
        dtype_at = _dtype_position(operator.parameters.positional)
        args, kwargs = self._arguments(node, dtype_at)
        call = Call(operator.name, args, kwargs, self._scalar.at(node))
        checked, faults = check_call(call, operator)
        self._add_faults(faults, node)
        return checked

    def _cast(self, node: ast.Call, dtype: str) -> Expr:
        """Translate a cast from Python's syntax, ``float32(x)``, into a call of ``astype``."""
        args, kwargs = self._arguments(node)
        if len(args) != 1 or kwargs:
            message = f"{dtype} takes 1 argument"
            return self._fault("E105", message, f"write {dtype}(x)", node.func)
        return Call("astype", (args[0], Dtype(dtype)), (), self._scalar.at(node))

    def _draw(self, node: ast.Call, function: ast.Attribute) -> Expr:
        method = DRAWS.get(function.attr)
        if method is None:
            self.findings.add("E115", *explain_unknown_draw(function.attr), function)
            self._arguments(node)
            return UNREADABLE
        args, kwargs = self._arguments(node, _dtype_position(method.parameters.positional))
        draw = Draw(method.name, args, kwargs, self._scalar.at(node))
        checked, faults = check_draw(draw, method)
        self._add_faults(faults, node)
        return checked

    def _method(self, node: ast.Call, function: ast.Attribute) -> None:
        if _root_name(function) in LIBRARIES:
            module = function.value
            is_draw = isinstance(module, ast.Attribute) and module.attr == "random"
            refusal = explain_library_call(function.attr, is_draw=is_draw)
            self.findings.add("E103", *refusal, function)
            return
        if not isinstance(function.value, ast.Name):
            self.expression(function.value)
        shown = self._scalar.written(function.value)
        self.findings.add("E103", *explain_unknown_method(function.attr, shown or "x"), node)

    def _arguments(
        self, node: ast.Call, dtype_at: int | None = None
    ) -> tuple[tuple[Expr, ...], tuple[tuple[str, Expr], ...]]:
        args = tuple(
            self._dtype(arg) if position == dtype_at else self.expression(arg)
            for position, arg in enumerate(node.args)
        )
        kwargs = []
        for keyword in node.keywords:
            if keyword.arg is None:
                mend = "write the arguments out"
                self.findings.add("E102", "'**' is not supported here", mend, keyword)
                continue
            is_dtype = keyword.arg == "dtype"
            value = self._dtype(keyword.value) if is_dtype else self.expression(keyword.value)
            kwargs.append((keyword.arg, value))
        return args, tuple(kwargs)

    def _dtype(self, node: ast.expr) -> Expr:
        # 'float' is a function, except where a dtype is expected.
        if isinstance(node, ast.Name) and node.id in DTYPE_WORDS:
            return Dtype(DTYPE_WORDS[node.id])
        return self.expression(node)

    def _unary(self, node: ast.UnaryOp) -> Expr:
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            match operand:
                case Const(value=bool()):
                    pass
                case Const(value=int() | float() | complex() as number):
                    return Const(-number)
                case _:
                    pass
        return Unary(_UNARY[type(node.op)], operand)

    def _binary(self, node: ast.BinOp) -> Expr:
        operator = BINARY[type(node.op)]
        binary = Binary(self.expression(node.left), operator, self.expression(node.right))
        return self.check_size(binary, node)

    def check_size(self, binary: Binary, node: ast.expr | ast.stmt) -> Expr:
        """Check ``%`` and ``*`` while translating: no formatting of text, no huge result."""
        if binary.operator == "%" and limits.may_be_text(binary.left):
            mend = "text is formatted by log and message: log: '{x:.3f}'"
            self.findings.add("E116", "text does not support '%'", mend, node)
        elif limits.repeats_too_much(binary):
            mend = (
                "tile(x, times) repeats the items of a list; array(x) * y multiplies each of them"
            )
            if limits.may_be_text(binary):
                mend = "write the text out, or make it in a Python function: call"
            self.findings.add("E116", "text and long lists cannot be multiplied", mend, node)
        else:
            try:
                limits.fold_constant_int(binary)
            except OverflowError:
                self._too_large(node)
        return binary

    def _too_large(self, node: ast.expr | ast.stmt) -> None:
        message = "this number has more than 64 bits"
        self.findings.add("E109", message, "write a float, such as 1e30", node)

    def _compare(self, node: ast.Compare) -> Expr:
        first = self.expression(node.left)
        operators: list[Comparison] = []
        for operator in node.ops:
            known = _COMPARISONS.get(type(operator))
            if known is None:
                self.findings.add("E102", *UNSUPPORTED_FORMS[type(operator)], node)
            operators.append(known or "==")
        others = tuple(self.expression(comparator) for comparator in node.comparators)
        return Compare(first, tuple(operators), others)

    def _logical(self, node: ast.BoolOp) -> Expr:
        operands = tuple(self.expression(value) for value in node.values)
        return Logical("and" if isinstance(node.op, ast.And) else "or", operands)

    def _conditional(self, node: ast.IfExp) -> Expr:
        parts = (node.test, node.body, node.orelse)
        return Conditional(*(self.expression(part) for part in parts))

    def _subscript(self, node: ast.Subscript) -> Expr:
        value, index = self.expression(node.value), self.index(node.slice)
        broken = isinstance(index, Const) and not isinstance(index.value, bool | int)
        broken = broken or index in (Builtin("inf"), Builtin("nan"), Builtin("pi"))
        is_number = isinstance(value, Const) and not isinstance(value.value, str)
        if is_number or (isinstance(value, Builtin) and value.name != "node.name"):
            # Python's compiler would issue a SyntaxWarning for it in the middle of a run.
            self.findings.add("E292", "a number cannot be indexed", "write only the number", node)
        elif isinstance(value, Const | Sequence) and (broken or isinstance(index, Sequence)):
            mend = "make it an array first: array([…])[i, j]"
            self.findings.add("E292", "a list or text cannot be indexed like this", mend, node)
        return Index(value, index)

    def _index_item(self, node: ast.expr) -> Expr:
        if isinstance(node, ast.Slice):
            bounds = (node.lower, node.upper, node.step)
            return Slice(*(None if bound is None else self.expression(bound) for bound in bounds))
        if isinstance(node, ast.Constant) and node.value is ...:
            return Const(None, ellipsis=True)
        return self.expression(node)

    def _sequence(self, node: ast.Tuple | ast.List) -> Expr:
        if len(node.elts) > limits.MAX_ITEMS:
            message = f"this list has more than {limits.MAX_ITEMS} items"
            return self._fault("E108", message, "load them from a file", node)
        items = tuple(self.expression(item) for item in node.elts)
        return Sequence(items, "tuple" if isinstance(node, ast.Tuple) else "list")


_TRANSLATIONS: dict[type[ast.expr], Callable[[Translator, Any], Expr]] = {
    ast.Constant: Translator._constant,
    ast.Name: Translator._name,
    ast.Attribute: Translator._attribute,
    ast.Call: Translator._call,
    ast.UnaryOp: Translator._unary,
    ast.BinOp: Translator._binary,
    ast.Compare: Translator._compare,
    ast.BoolOp: Translator._logical,
    ast.IfExp: Translator._conditional,
    ast.Subscript: Translator._subscript,
    ast.Tuple: Translator._sequence,
    ast.List: Translator._sequence,
}


def _root_name(node: ast.expr) -> str:
    """Return the first name of a dotted expression such as ``a.b.c``; "" if there is none."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _dtype_position(positional: tuple[str, ...]) -> int | None:
    return positional.index("dtype") if "dtype" in positional else None


def _faulty_argument(node: ast.Call, argument: int | str | None) -> ast.expr | ast.keyword:
    if isinstance(argument, int) and argument < len(node.args):
        return node.args[argument]
    return next((keyword for keyword in node.keywords if keyword.arg == argument), node.func)


class StatementTranslator:
    """Translates one Python statement; faults are collected in the translator's findings."""

    def __init__(self, scalar: SourceText, params: Params) -> None:
        self._translator = Translator(scalar, params)
        self._findings = self._translator.findings
        self._scalar = scalar
        self._params = params

    def translate(self, node: ast.stmt) -> Op:
        """Translate the Python syntax tree of a spec's statement into an ``Op`` of the graph.

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
                names = tuple(
                    name for target in node.targets for name in self._deleted_names(target)
                )
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
        targets = tuple(self._target(element) for element in written)
        names = [target.name for target in targets if isinstance(target, NameTarget)]
        for name in {name for name in names if names.count(name) > 1}:
            self._findings.add(
                "E111", f"'{name}' is assigned twice", "name each target once", first
            )
        if not targets:
            self._findings.add("E111", "there is no target to assign to", "write name = …", first)
        if isinstance(first, ast.Tuple) and len(targets) == 1:
            # Python would take the value's only part, and refuse a value with more parts.
            mend = "write name = value[0] for its first part, name = value for all of it"
            self._findings.add("E111", "unpacking to one name is not supported", mend, first)
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
            # Report the whole statement, as for the names that other steps bind.
            self._findings.add(*refused, None)
        else:
            self._translator.names.check(node.id, node)

    def _deleted_names(self, node: ast.expr) -> tuple[str, ...]:
        match node:
            case ast.Name():
                self._check_name(node)
                return (node.id,)
            case ast.Tuple():
                return tuple(name for element in node.elts for name in self._deleted_names(element))
            case _:
                mend = "write del a, b; delete(x, i) returns x without item i"
                self._findings.add("E111", "only whole blobs can be deleted", mend, node)
                return ()


def _count_results(call: Call) -> int:
    operator = find_operator(call.function)
    return 1 if operator is None else operator.results


class NameTranslator:
    """Translates the names in the text of one expression, and collects their faults."""

    def __init__(self, findings: Findings, params: Params) -> None:
        self._findings = findings
        self._params = params

    def translate(self, node: ast.Name) -> Expr:
        """Translate a name in an expression to a blob, a builtin or a loop index."""
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
        """Translate ``first.attr`` in an expression to a node's blob or a task's output."""
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
        """Check a name while translating a Python ``ast``; add fault E107 if it is invalid."""
        message = ""
        if not BLOB_NAME.fullmatch(name):
            message = "a name has at most 64 letters, digits and '_'"
        elif name.startswith("__"):
            message = "a name must not begin with two underscores"
        if message:
            self._findings.add("E107", message, "choose another name", node)
        return not message
