"""From Python's syntax tree to an expression tree, node type by node type.

A whitelist: what has no method here cannot be written. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from jobrun.compile import limits
from jobrun.compile.calls import DTYPE_WORDS, Problem, checked_call, checked_draw
from jobrun.compile.names import UNREADABLE, Names, Params
from jobrun.compile.placeholders import split_placeholders
from jobrun.compile.refusals import (
    FORMS,
    LIBRARIES,
    OTHER,
    library_name,
    unknown_draw,
    unknown_function,
    unknown_method,
)
from jobrun.compile.scalar import DEEPEST, Findings, Scalar
from jobrun.core.errors import SpecError
from jobrun.graph.expr import (
    ATTRIBUTES,
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
    Sequence,
    Slice,
    Text,
    Unary,
    UnaryOperator,
)
from jobrun.ops.plugins import find_operator
from jobrun.ops.table import DRAWS

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


class Translator:
    """Reads one text. Faults are collected in ``findings``, and reading goes on behind them.

    Args:
        scalar: The text.
        params: Names that stand for constants.
    """

    def __init__(self, scalar: Scalar, params: Params) -> None:
        self.findings = Findings(scalar)
        self.names = Names(self.findings, params)
        self._scalar = scalar
        self._depth = 0
        self._nodes = 0
        self._text_bytes = 0

    def expression(self, node: ast.expr) -> Expr:
        """Translate one node.

        Raises:
            SpecError: E108, where going on makes no sense; with all faults found so far.
        """
        self._nodes += 1
        self._depth += 1
        if self._depth > DEEPEST:
            self._give_up(f"this expression is nested deeper than {DEEPEST} levels", node)
        if self._nodes > limits.MOST_NODES:
            self._give_up(f"this expression has more than {limits.MOST_NODES} parts", node)
        translate = _TRANSLATIONS.get(type(node))
        found = self._refuse(node) if translate is None else translate(self, node)
        self._depth -= 1
        return found

    def index(self, node: ast.expr) -> Expr:
        """What stands in ``[…]`` behind a value."""
        if isinstance(node, ast.Tuple):
            return Sequence(tuple(self._index_item(item) for item in node.elts))
        return self._index_item(node)

    def _refuse(self, node: ast.AST) -> Expr:
        refusal = FORMS.get(type(node), OTHER)
        place = node if isinstance(node, ast.expr) else None
        self.findings.add("E102", *refusal, place)
        return UNREADABLE

    def _give_up(self, message: str, node: ast.expr) -> None:
        self.findings.add("E108", message, "write several statements", node)
        raise SpecError(*self.findings.faults)

    def _note(self, problems: list[Problem], node: ast.Call) -> None:
        for problem in problems:
            place = _argument(node, problem.argument)
            self.findings.add(problem.code, problem.message, problem.mend, place)

    def _constant(self, node: ast.Constant) -> Expr:
        value = node.value
        if isinstance(value, str):
            return self._text(value, node)
        if isinstance(value, bytes):
            self.findings.add("E102", "bytes cannot be a value", "write text", node)
            return UNREADABLE
        if value is ...:
            self.findings.add("E102", "'...' stands outside of an index", "write x[..., 0]", node)
            return UNREADABLE
        if type(value) is int and not limits.fits(value):
            self._too_large(node)
            return UNREADABLE
        if isinstance(value, float | complex) and math.isinf(abs(value)):
            self.findings.add("E109", "this number is too large", "write inf", node)
            return UNREADABLE
        return Const(value)

    def _text(self, value: str, node: ast.Constant) -> Expr:
        encoded = len(value.encode("utf-8", "replace"))
        self._text_bytes += encoded
        if self._text_bytes > limits.MOST_TEXT_BYTES:
            self._give_up(f"more than {limits.MOST_TEXT_BYTES} bytes of text", node)
        if any("\ud800" <= character <= "\udfff" for character in value):
            message = "this text holds characters that no file can hold"
            self.findings.add("E100", message, "write it anew", node)
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
        return self.names.read(node)

    def _attribute(self, node: ast.Attribute) -> Expr:
        base = node.value
        written = isinstance(base, ast.Name) and base.id in {"node", *LIBRARIES}
        if node.attr in ATTRIBUTES and not written:
            return Attribute(self.expression(base), node.attr)
        if isinstance(base, ast.Name):
            return self.names.read_dotted(node, base)
        if _root(node) in LIBRARIES:
            self.findings.add("E103", *library_name(node.attr), node)
            return UNREADABLE
        self.expression(base)
        message = f"values have no attribute '{node.attr}'"
        self.findings.add("E103", message, f"they have {', '.join(ATTRIBUTES)}", node)
        return UNREADABLE

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
            message = "only a function of the language can be called"
            self.findings.add("E104", message, "'jobrun ops' lists them", node)
        self._arguments(node)
        return UNREADABLE

    def _function(self, node: ast.Call, function: ast.Name) -> Expr:
        if function.id in DTYPES:
            return self._cast(node, function.id)
        operator = find_operator(function.id)
        if operator is None:
            self.findings.add("E104", *unknown_function(function.id), function)
            self._arguments(node)
            return UNREADABLE
        if not self.names.check(function.id, function):
            return UNREADABLE
        dtype_at = _dtype_arguments(operator.parameters.positional)
        args, kwargs = self._arguments(node, dtype_at)
        call = Call(operator.name, args, kwargs, self._scalar.at(node))
        checked, problems = checked_call(call, operator)
        self._note(problems, node)
        return checked

    def _cast(self, node: ast.Call, dtype: str) -> Expr:
        """``float32(x)`` is ``astype(x, float32)``."""
        args, kwargs = self._arguments(node)
        if len(args) != 1 or kwargs:
            message = f"{dtype} takes 1 argument"
            self.findings.add("E105", message, f"write {dtype}(x)", node.func)
            return UNREADABLE
        return Call("astype", (args[0], Dtype(dtype)), (), self._scalar.at(node))

    def _draw(self, node: ast.Call, function: ast.Attribute) -> Expr:
        method = DRAWS.get(function.attr)
        if method is None:
            self.findings.add("E115", *unknown_draw(function.attr), function)
            self._arguments(node)
            return UNREADABLE
        args, kwargs = self._arguments(node, _dtype_arguments(method.parameters.positional))
        draw = Draw(method.name, args, kwargs, self._scalar.at(node))
        checked, problems = checked_draw(draw, method)
        self._note(problems, node)
        return checked

    def _method(self, node: ast.Call, function: ast.Attribute) -> None:
        if _root(function) in LIBRARIES:
            is_draw = function.attr in DRAWS and isinstance(function.value, ast.Attribute)
            name = f"rng.{function.attr}" if is_draw else function.attr
            self.findings.add("E103", *library_name(name), function)
            return
        if not isinstance(function.value, ast.Name):
            self.expression(function.value)
        shown = self._scalar.written(function.value)
        self.findings.add("E103", *unknown_method(function.attr, shown or "x"), node)

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
                self.findings.add("E102", "'**' does not unpack here", mend, keyword)
                continue
            is_dtype = keyword.arg == "dtype"
            value = self._dtype(keyword.value) if is_dtype else self.expression(keyword.value)
            kwargs.append((keyword.arg, value))
        return args, tuple(kwargs)

    def _dtype(self, node: ast.expr) -> Expr:
        # 'float' is a function elsewhere, and a dtype where one is wanted.
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
        found = Binary(self.expression(node.left), operator, self.expression(node.right))
        return self.bounded(found, node)

    def bounded(self, found: Binary, node: ast.expr | ast.stmt) -> Expr:
        """The operation, unless its constants make it huge, or format text."""
        if found.operator == "%" and limits.is_text(found.left):
            mend = "text is filled in by log and message: log: '{x:.3f}'"
            self.findings.add("E116", "text has no '%'", mend, node)
        elif limits.repeats_too_much(found):
            mend = "write full(length, value) or tile(x, times)"
            self.findings.add("E116", "text and long lists are not multiplied", mend, node)
        else:
            try:
                limits.constant_int(found)
            except OverflowError:
                self._too_large(node)
        return found

    def _too_large(self, node: ast.expr | ast.stmt) -> None:
        message = "this number has more than 64 bits"
        self.findings.add("E109", message, "write a float, such as 1e30", node)

    def _compare(self, node: ast.Compare) -> Expr:
        left = self.expression(node.left)
        operators: list[Comparison] = []
        for operator in node.ops:
            known = _COMPARISONS.get(type(operator))
            if known is None:
                self.findings.add("E102", *FORMS[type(operator)], node)
            operators.append(known or "==")
        rest = tuple(self.expression(one) for one in node.comparators)
        return Compare(left, tuple(operators), rest)

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
            # Python's compiler would warn of it, in the middle of a run.
            self.findings.add("E292", "a number has no items", "write the number alone", node)
        elif isinstance(value, Const | Sequence) and (broken or isinstance(index, Sequence)):
            mend = "make it an array first: array([…])[i, j]"
            self.findings.add("E292", "a list or text has no such items", mend, node)
        return Index(value, index)

    def _index_item(self, node: ast.expr) -> Expr:
        if isinstance(node, ast.Slice):
            bounds = (node.lower, node.upper, node.step)
            return Slice(*(None if one is None else self.expression(one) for one in bounds))
        if isinstance(node, ast.Constant) and node.value is ...:
            return Const(None, ellipsis=True)
        return self.expression(node)

    def _sequence(self, node: ast.Tuple | ast.List) -> Expr:
        if len(node.elts) > limits.MOST_ITEMS:
            message = f"this list has more than {limits.MOST_ITEMS} items"
            self.findings.add("E108", message, "load them from a file", node)
            return UNREADABLE
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


def _root(node: ast.expr) -> str:
    """The first name of a dotted one; empty when it begins otherwise."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _dtype_arguments(positional: tuple[str, ...]) -> int | None:
    return positional.index("dtype") if "dtype" in positional else None


def _argument(node: ast.Call, argument: int | str | None) -> ast.expr | ast.keyword:
    if isinstance(argument, int) and argument < len(node.args):
        return node.args[argument]
    return next((one for one in node.keywords if one.arg == argument), node.func)
