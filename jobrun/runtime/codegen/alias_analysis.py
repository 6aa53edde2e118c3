"""Analyse statically which blobs an expression's value may share memory with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import assert_never

import numpy as np

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
from jobrun.graph.steps import Assign, NameTarget, Op
from jobrun.ops.operator_table import OPERATORS, implementation

Leaf = Name | OutputRead | NodeBlob

_REDUCTIONS = frozenset(
    {"sum", "prod", "mean", "std", "var", "min", "max", "any", "all", "argmin", "argmax", "len"}
)


def aliased_leaves(expr: Expr) -> Iterator[Leaf]:
    """Yield the blobs and outputs of which an expression's value may be an alias."""
    match expr:
        case Name() | OutputRead() | NodeBlob():
            yield expr
        case Logical():
            yield from _all(expr.operands)
        case Conditional():
            yield from _all((expr.then, expr.otherwise))
        case Call():
            # An unknown operator may return a view of any argument.
            known = OPERATORS.get(expr.function)
            if known is None or known.shares_memory:
                yield from _all((*expr.args, *(value for _, value in expr.kwargs)))
        case Attribute():
            if expr.name == "T":
                yield from aliased_leaves(expr.value)
        case Index():
            yield from aliased_leaves(expr.value)
        case Sequence():
            yield from _all(expr.items)
        case Binary():
            # (a, b) + (c,) holds the same arrays as its operands.
            if may_join_lists(expr):
                yield from _all((expr.left, expr.right))
        case (
            Const()
            | Dtype()
            | Builtin()
            | LoopIndex()
            | Unary()
            | Compare()
            | Draw()
            | Slice()
            | Text()
        ):
            return
        case _:
            assert_never(expr)


def is_fresh(expr: Expr) -> bool:
    """Return whether alias analysis proves that an expression's value is no blob's alias."""
    match expr:
        case Builtin() | LoopIndex() | Unary() | Compare() | Text():
            return True
        case Const():
            return expr.value is not None and not expr.ellipsis
        case Attribute():
            return expr.name in {"size", "ndim"}
        case Binary():
            return not _may_be_sequence(expr)
        case Logical():
            return all(map(is_fresh, expr.operands))
        case Conditional():
            return is_fresh(expr.then) and is_fresh(expr.otherwise)
        case Call():
            return expr.function in _fresh_operators() and all(map(_is_number, expr.args))
        case _:
            return False


def _is_number(argument: Expr) -> bool:
    """Return whether an operand surely is a number, of which nothing can be an alias."""
    if isinstance(argument, Const):
        return isinstance(argument.value, int | float | complex)
    return not isinstance(argument, Sequence | Text)


@cache
def _fresh_operators() -> frozenset[str]:
    """Return the operators that alias analysis knows to return no alias of an operand."""
    single = (name for name in find_ufuncs() if OPERATORS[name].results == 1)
    return _REDUCTIONS.union(single)


@cache
def find_ufuncs() -> dict[str, np.ufunc]:
    """Find the built-in operators that are ufuncs of numpy, whose results are no aliases."""
    return {
        name: function
        for name, known in OPERATORS.items()
        if known.implementation.startswith("numpy:")
        and isinstance(function := implementation(name), np.ufunc)
    }


def is_plain_view(expr: Expr) -> bool:
    """Return whether an expression surely is an alias of a blob: a name, index or ``.T``."""
    match expr:
        case Name():
            return True
        case Index():
            return is_plain_view(expr.value)
        case Attribute():
            return expr.name == "T" and is_plain_view(expr.value)
        case _:
            return False


def _all(exprs: Iterable[Expr]) -> Iterator[Leaf]:
    for expr in exprs:
        yield from aliased_leaves(expr)


def _may_be_sequence(expr: Expr) -> bool:
    """Return whether an expression's value may be a sequence, whose items may be aliases."""
    match expr:
        case Sequence() | OutputRead():
            return True
        case Attribute():
            return expr.name == "shape"
        case Index():
            return _may_be_sequence(expr.value)
        case Binary():
            return expr.operator in {"+", "*"} and (
                _may_be_sequence(expr.left) or _may_be_sequence(expr.right)
            )
        case Logical():
            return any(map(_may_be_sequence, expr.operands))
        case Conditional():
            return _may_be_sequence(expr.then) or _may_be_sequence(expr.otherwise)
        case Call():
            known = OPERATORS.get(expr.function)
            return known is None or known.results != 1 or expr.function == "shape"
        case _:
            return False


def may_join_lists(expr: Expr) -> bool:
    """Return whether an expression may join or repeat lists, which makes items aliases."""
    match expr:
        case Binary(operator="+"):
            return _may_be_list(expr.left) and _may_be_list(expr.right)
        case Binary(operator="*"):
            sides = (expr.left, expr.right)
            return any(map(_may_be_list, sides)) and all(map(_may_be_list_or_count, sides))
        case Logical():
            return any(map(may_join_lists, expr.operands))
        case Conditional():
            return may_join_lists(expr.then) or may_join_lists(expr.otherwise)
        case _:
            return False


def _may_be_list(expr: Expr) -> bool:
    match expr:
        case Const() | Builtin() | LoopIndex() | Unary() | Compare() | Draw() | Text() | Slice():
            return False
        case Binary():
            return may_join_lists(expr)
        case Attribute():
            return expr.name == "shape"
        case Call():
            return not is_fresh(expr)
        case Logical():
            return any(map(_may_be_list, expr.operands))
        case Conditional():
            return _may_be_list(expr.then) or _may_be_list(expr.otherwise)
        case _:
            return True


def _may_be_list_or_count(expr: Expr) -> bool:
    if isinstance(expr, Const):
        return type(expr.value) is int
    return _may_be_list(expr) or isinstance(expr, Builtin | LoopIndex | Unary | Binary | Call)


def permuted_names(op: Op) -> set[str]:
    """Return the names that an assignment swaps (``a, b = b, a``); none becomes another's alias.

    Empty for any other operator.
    """
    if not isinstance(op, Assign) or not isinstance(op.value, Sequence):
        return set()
    sources = [item.name for item in op.value.items if isinstance(item, Name)]
    targets = [target.name for target in op.targets if isinstance(target, NameTarget)]
    whole = len(sources) == len(op.value.items) == len(targets) == len(op.targets) > 1
    distinct = len(set(targets)) == len(targets)
    return set(targets) if whole and distinct and set(sources) == set(targets) else set()
