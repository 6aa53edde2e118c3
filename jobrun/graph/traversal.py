"""Traverse expression trees and whole graphs, and build changed copies of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar, assert_never

from msgspec.structs import replace

from jobrun.core.errors import Origin
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

Change = Callable[[Expr], Expr]
_Calling = TypeVar("_Calling", Call, Draw)


_Graph = TypeVar("_Graph")
_Part = TypeVar("_Part")
# Most parts of an expression are one of these, so they are checked first.
_LEAVES = frozenset((Const, Dtype, Name, Builtin, LoopIndex, OutputRead, NodeBlob))
# Fields of these types are skipped: a pull on each of n nodes names all n nodes.
_PLAIN = frozenset(
    ("str", "int", "float", "bool", "Origin", "int | None", "tuple[str, ...]",
     "tuple[tuple[str, str], ...]")
)  # fmt: skip


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside an expression, in order: one level of a traversal.

    Those of a ``Text`` are the values filled in; its ``Builtin`` parts are not expressions.
    """
    if type(expr) in _LEAVES:
        return ()
    match expr:
        case Binary():
            return (expr.left, expr.right)
        case Const() | Dtype() | Name() | Builtin() | LoopIndex() | OutputRead() | NodeBlob():
            return ()
        case Unary():
            return (expr.operand,)
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
    """Traverse an expression tree: yield the expression, then all inside it, outer first."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        yield part
        if type(part) not in _LEAVES:
            waiting += children(part)[::-1]


def map_expr(expr: Expr, change: Change) -> Expr:
    """Traverse an expression tree, inner parts first, and return a copy changed by ``change``.

    An unchanged part remains the same object.
    """
    return change(_map_children(expr, change))


def _map_children(expr: Expr, change: Change) -> Expr:
    match expr:
        case Const() | Dtype() | Name() | Builtin() | LoopIndex() | OutputRead() | NodeBlob():
            return expr
        case Unary() | Binary() | Compare() | Logical() | Conditional():
            return _map_operation(expr, change)
        case Call():
            return _map_call(expr, change)
        case Draw():
            return _map_call(expr, change)
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
            items = _map_each(expr.items, change)
            return expr if items is expr.items else Sequence(items, expr.kind)
        case Text():
            return Text(tuple(_map_part(part, change) for part in expr.parts))
        case _:
            assert_never(expr)


def _map_operation(expr: Unary | Binary | Compare | Logical | Conditional, change: Change) -> Expr:
    old = children(expr)
    new = _map_each(old, change)
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


def _map_each(exprs: tuple[Expr, ...], change: Change) -> tuple[Expr, ...]:
    changed = tuple(map_expr(expr, change) for expr in exprs)
    return exprs if all(new is old for new, old in zip(changed, exprs, strict=True)) else changed


def _map_call(expr: _Calling, change: Change) -> _Calling:
    args = _map_each(expr.args, change)
    values = tuple(value for _, value in expr.kwargs)
    changed = _map_each(values, change)
    if args is expr.args and changed is values:
        return expr
    names = (name for name, _ in expr.kwargs)
    return replace(expr, args=args, kwargs=tuple(zip(names, changed, strict=True)))


def _bounds(expr: Slice) -> tuple[Expr | None, Expr | None, Expr | None]:
    return (expr.start, expr.stop, expr.step)


def _map_part(part: str | Hole | Builtin, change: Change) -> str | Hole | Builtin:
    if isinstance(part, Hole):
        return Hole(map_expr(part.value, change), part.format)
    return part


def rewrite_parts(graph: _Graph, kind: type[_Part], change: Callable[[_Part], Any]) -> _Graph:
    """Traverse a graph; return a copy with each value of one type replaced.

    A value of the type is not searched for others inside it.
    """
    copy: _Graph = _rewrite(graph, kind, change)
    return copy


def find_parts(graph: Any, kind: type[_Part]) -> Iterator[_Part]:
    """Traverse a graph and yield every value of one type, outer before inner."""
    if isinstance(graph, kind):
        yield graph
    if isinstance(graph, tuple):
        for item in graph:
            yield from find_parts(item, kind)
    else:
        for name in _graph_fields(graph.__class__):
            yield from find_parts(getattr(graph, name), kind)


def _rewrite(value: Any, kind: type[Any], change: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        parts = tuple(_rewrite(part, kind, change) for part in value)
        return parts if any(a is not b for a, b in zip(parts, value, strict=True)) else value
    changed = {}
    for name in _graph_fields(value.__class__):
        old = getattr(value, name)
        new = _rewrite(old, kind, change)
        if new is not old:
            changed[name] = new
    return replace(value, **changed) if changed else value


@cache
def _graph_fields(kind: Any) -> tuple[str, ...]:
    """Return the fields of a graph class that a traversal visits: all but plain values.

    Types are compared as they are written. An ``Origin``, or a plain value, has none.
    """
    if issubclass(kind, Origin):
        return ()
    written: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        written |= vars(base).get("__annotations__", {})
    return tuple(
        name for name in getattr(kind, "__struct_fields__", ()) if written[name] not in _PLAIN
    )
