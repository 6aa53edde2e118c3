"""Render expression trees as the text of a spec, with as few brackets as possible."""

from __future__ import annotations

from typing import assert_never

from jobrun.graph.expressions import (
    Attribute,
    Binary,
    Builtin,
    Call,
    Compare,
    Conditional,
    Const,
    Draw,
    Dtype,
    Expr,
    Hole,
    Index,
    Logical,
    LoopIndex,
    Name,
    NodeBlob,
    OutputRead,
    Sequence,
    Slice,
    Text,
    Unary,
)

_Operation = Unary | Binary | Compare | Logical | Conditional
_Tight = (
    Name
    | Dtype
    | Builtin
    | LoopIndex
    | OutputRead
    | NodeBlob
    | Call
    | Draw
    | Attribute
    | Index
    | Sequence
    | Text
)

# The precedence of each form, as in Python.
_CONDITIONAL, _OR, _AND, _NOT, _COMPARE = range(5)
_BINARY = {
    "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9,
    "*": 10, "/": 10, "//": 10, "%": 10, "@": 10, "**": 12,
}  # fmt: skip
_UNARY, _POWER, _POSTFIX = 11, 12, 13


def render_expr(expr: Expr) -> str:
    """Render an expression tree as text, which would be parsed to an equal tree.

    Two things are lost: the spelling of constants, and the loop of an ``iter``.
    """
    return _render(expr)[0]


def render_text(text: Text) -> str:
    """Render a ``Text`` expression as written in a spec, with ``{holes}``, without quotes."""
    return "".join(_part(part, braces=True) for part in text.parts)


def _render(expr: Expr) -> tuple[str, int]:
    """Render an expression as text, and return the precedence of its outermost operator."""
    match expr:
        case Const():
            return _constant(expr)
        case Unary() | Binary() | Compare() | Logical() | Conditional():
            return _operation(expr)
        case Slice():
            return _slice(expr), _CONDITIONAL
        case _:
            return _tight(expr), _POSTFIX


def _tight(expr: _Tight) -> str:
    """Render as text an expression that never needs brackets, such as a name or a call."""
    match expr:
        case Name() | Dtype() | Builtin():
            return expr.name
        case LoopIndex():
            return "iter"
        case OutputRead():
            return f"{expr.task}.{expr.output}"
        case NodeBlob():
            return f"{expr.node}.{expr.name}"
        case Call():
            return f"{expr.function}{_arguments(expr)}"
        case Draw():
            return f"rng.{expr.method}{_arguments(expr)}"
        case Attribute():
            return f"{_base(expr.value)}.{expr.name}"
        case Index():
            return f"{_base(expr.value)}[{_index(expr.index)}]"
        case Sequence():
            inner = _items(expr)
            return f"({inner})" if expr.kind == "tuple" else f"[{inner}]"
        case Text():
            return repr("".join(_part(part, braces=False) for part in expr.parts))
        case _:
            assert_never(expr)


def _operation(expr: _Operation) -> tuple[str, int]:
    match expr:
        case Unary():
            level = _NOT if expr.operator == "not" else _UNARY
            space = " " if expr.operator == "not" else ""
            return f"{expr.operator}{space}{_at(expr.operand, level)}", level
        case Binary():
            return _binary(expr)
        case Compare():
            pairs = zip(expr.operators, expr.rest, strict=True)
            comparisons = "".join(
                f" {operator} {_at(value, _COMPARE + 1)}" for operator, value in pairs
            )
            return f"{_at(expr.left, _COMPARE + 1)}{comparisons}", _COMPARE
        case Logical():
            level = _AND if expr.operator == "and" else _OR
            operands = (_at(operand, level + 1) for operand in expr.operands)
            return f" {expr.operator} ".join(operands), level
        case Conditional():
            then, condition = _at(expr.then, _OR), _at(expr.condition, _OR)
            return f"{then} if {condition} else {render_expr(expr.otherwise)}", _CONDITIONAL
        case _:
            assert_never(expr)


def _at(expr: Expr, level: int) -> str:
    """Render an expression as text, in brackets if it binds less tightly than ``level``."""
    text, own_level = _render(expr)
    return text if own_level >= level else f"({text})"


def _binary(expr: Binary) -> tuple[str, int]:
    level = _BINARY[expr.operator]
    if expr.operator == "**":
        # The only right-associative operator; its exponent may have a sign.
        return f"{_at(expr.left, _POSTFIX)} ** {_at(expr.right, _UNARY)}", level
    return f"{_at(expr.left, level)} {expr.operator} {_at(expr.right, level + 1)}", level


def _constant(expr: Const) -> tuple[str, int]:
    value = expr.value
    if expr.ellipsis:
        return "...", _POSTFIX
    if isinstance(value, str):
        return repr(value.replace("$", "$$")), _POSTFIX
    only_imaginary = isinstance(value, complex) and value.real == 0
    text = repr(value).replace("(-0", "").rstrip(")") if only_imaginary else repr(value)
    return text, _UNARY if text.startswith("-") else _POSTFIX


def _base(expr: Expr) -> str:
    """Render the text of an expression before a dot or index, in brackets if needed."""
    if isinstance(expr, Const) and not isinstance(expr.value, str):
        return f"({render_expr(expr)})"
    return _at(expr, _POSTFIX)


def _arguments(call: Call | Draw) -> str:
    args = [render_expr(arg) for arg in call.args]
    args += [f"{name}={render_expr(value)}" for name, value in call.kwargs]
    return f"({', '.join(args)})"


def _slice(expr: Slice) -> str:
    start, stop, step = (
        "" if bound is None else render_expr(bound) for bound in (expr.start, expr.stop, expr.step)
    )
    return f"{start}:{stop}" + (f":{step}" if step else "")


def _index(index: Expr) -> str:
    if isinstance(index, Sequence) and index.kind == "tuple" and index.items:
        return _items(index)
    return render_expr(index)


def _items(expr: Sequence) -> str:
    inner = ", ".join(render_expr(item) for item in expr.items)
    return f"{inner}," if expr.kind == "tuple" and len(expr.items) == 1 else inner


def _part(part: str | Hole | Builtin, *, braces: bool) -> str:
    if isinstance(part, Builtin):
        return f"${{{'node' if part.name == 'node.name' else part.name}}}"
    if isinstance(part, Hole):
        return "{" + render_expr(part.value) + (f":{part.format}" if part.format else "") + "}"
    text = part.replace("$", "$$")
    return text.replace("{", "{{").replace("}", "}}") if braces else text
