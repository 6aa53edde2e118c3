"""Going through expression trees, and making changed ones. Knows no meaning, only shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar, assert_never

from jobrun.graph.expr import (
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

Change = Callable[[Expr], Expr]
_Calling = TypeVar("_Calling", Call, Draw)


def children(expr: Expr) -> tuple[Expr, ...]:  # noqa: C901, PLR0912 - one case per kind of a closed union
    """The expressions directly inside one, in the order of the text.

    Those of a ``Text`` are the values filled in; its ``Builtin`` parts are no expressions.
    """
    match expr:
        case (
            Const() | Dtype() | Name() | Builtin() | LoopIndex() | OutputRead() | NodeBlob()
        ):  # fmt: skip
            return ()
        case Unary():
            return (expr.operand,)
        case Binary():
            return (expr.left, expr.right)
        case Compare():
            return (expr.left, *expr.rest)
        case Logical():
            return expr.operands
        case Conditional():
            return (expr.then, expr.condition, expr.otherwise)
        case Call() | Draw():
            return (*expr.args, *(value for _, value in expr.kwargs))
        case Attribute():
            return (expr.value,)
        case Slice():
            bounds = (expr.start, expr.stop, expr.step)
            return tuple(bound for bound in bounds if bound is not None)
        case Index():
            return (expr.value, expr.index)
        case Sequence():
            return expr.items
        case Text():
            return tuple(part.value for part in expr.parts if isinstance(part, Hole))
        case _:
            assert_never(expr)


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """The expression and everything inside it, outer before inner, in the order of the text."""
    yield expr
    for child in children(expr):
        yield from walk_expr(child)


def map_expr(expr: Expr, change: Change) -> Expr:
    """The expression with ``change`` made to every part of it, inner before outer.

    A part in which nothing changes stays the same object.
    """
    return change(_with_changed_children(expr, change))


def _with_changed_children(expr: Expr, change: Change) -> Expr:
    match expr:
        case (
            Const() | Dtype() | Name() | Builtin() | LoopIndex() | OutputRead() | NodeBlob()
        ):  # fmt: skip
            return expr
        case Unary() | Binary() | Compare() | Logical() | Conditional():
            return _operation(expr, change)
        case Call():
            return _calling(expr, change)
        case Draw():
            return _calling(expr, change)
        case Attribute():
            value = map_expr(expr.value, change)
            return expr if value is expr.value else Attribute(value, expr.name)
        case Slice():
            return Slice(*(bound and map_expr(bound, change) for bound in _bounds(expr)))
        case Index():
            value, index = map_expr(expr.value, change), map_expr(expr.index, change)
            same = value is expr.value and index is expr.index
            return expr if same else Index(value, index)
        case Sequence():
            items = _each(expr.items, change)
            return expr if items is expr.items else Sequence(items, expr.form)
        case Text():
            return Text(tuple(_part(part, change) for part in expr.parts))
        case _:
            assert_never(expr)


def _operation(expr: Unary | Binary | Compare | Logical | Conditional, change: Change) -> Expr:
    old = children(expr)
    new = _each(old, change)
    if new is old:
        return expr
    match expr:
        case Unary():
            return Unary(expr.operator, new[0])
        case Binary():
            return Binary(new[0], expr.operator, new[1])
        case Compare():
            return Compare(new[0], expr.operators, new[1:])
        case Logical():
            return Logical(expr.operator, new)
        case Conditional():
            then, condition, otherwise = new
            return Conditional(condition, then, otherwise)
        case _:
            assert_never(expr)


def _each(exprs: tuple[Expr, ...], change: Change) -> tuple[Expr, ...]:
    changed = tuple(map_expr(expr, change) for expr in exprs)
    return exprs if all(new is old for new, old in zip(changed, exprs, strict=True)) else changed


def _calling(expr: _Calling, change: Change) -> _Calling:
    args = _each(expr.args, change)
    values = tuple(value for _, value in expr.kwargs)
    changed = _each(values, change)
    if args is expr.args and changed is values:
        return expr
    names = (name for name, _ in expr.kwargs)
    return replace(expr, args=args, kwargs=tuple(zip(names, changed, strict=True)))


def _bounds(expr: Slice) -> tuple[Expr | None, Expr | None, Expr | None]:
    return (expr.start, expr.stop, expr.step)


def _part(part: str | Hole | Builtin, change: Change) -> str | Hole | Builtin:
    if isinstance(part, Hole):
        return Hole(map_expr(part.value, change), part.format)
    return part
