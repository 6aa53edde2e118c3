"""What an expression's value may share memory with. Static: looks at the tree, never at values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import assert_never

import numpy as np

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
from jobrun.ops.load import implementation
from jobrun.ops.table import OPERATORS

Leaf = Name | OutputRead | NodeBlob

_REDUCTIONS = frozenset(
    {"sum", "prod", "mean", "std", "var", "min", "max", "any", "all", "argmin", "argmax", "len"}
)


def leaves(expr: Expr) -> Iterator[Leaf]:  # noqa: C901, PLR0912 - one case per kind of a closed union
    """The blobs and outputs whose memory the value may be, or be a view of."""
    match expr:
        case Name() | OutputRead() | NodeBlob():
            yield expr
        case Logical():
            yield from _all(expr.operands)
        case Conditional():
            yield from _all((expr.then, expr.otherwise))
        case Call():
            # An operator that is not known here may do anything.
            known = OPERATORS.get(expr.function)
            if known is None or known.shares_memory:
                yield from _all((*expr.args, *(value for _, value in expr.kwargs)))
        case Attribute():
            if expr.name == "T":
                yield from leaves(expr.value)
        case Index():
            yield from leaves(expr.value)
        case Sequence():
            yield from _all(expr.items)
        case Binary():
            # (a, b) + (c,) holds the same arrays as its operands.
            if _may_be_sequence(expr):
                yield from _all((expr.left, expr.right))
        case (
            Const() | Dtype() | Builtin() | LoopIndex() | Unary() | Compare() | Draw() | Slice()
            | Text()
        ):  # fmt: skip
            return
        case _:
            assert_never(expr)


def is_fresh(expr: Expr) -> bool:
    """Whether the value is surely an array of its own, a scalar or text: ready to be stored."""
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
    """Whether an argument is surely numbers: of a list or of text anything may come."""
    if isinstance(argument, Const):
        return isinstance(argument.value, int | float | complex)
    return not isinstance(argument, Sequence | Text)


@cache
def _fresh_operators() -> frozenset[str]:
    """Built-in operators that give a new array or a number, whatever blobs they are given."""
    elementwise = {
        name
        for name, known in OPERATORS.items()
        if known.implementation.startswith("numpy:") and known.results == 1
        and isinstance(implementation(name), np.ufunc)
    }  # fmt: skip
    return frozenset(elementwise | _REDUCTIONS)


def is_plain_view(expr: Expr) -> bool:
    """Whether the value is a blob, or a part or the transpose of one, and nothing else."""
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
        yield from leaves(expr)


def _may_be_sequence(expr: Expr) -> bool:
    """Whether the value may be a tuple or list. Blobs never are; outputs may be lists."""
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


def permuted(op: Op) -> set[str]:
    """The names of ``a, b = b, a``, after which every array still has exactly one name.

    Empty for any other operator.
    """
    if not isinstance(op, Assign) or not isinstance(op.value, Sequence):
        return set()
    sources = [one.name for one in op.value.items if isinstance(one, Name)]
    targets = [one.name for one in op.targets if isinstance(one, NameTarget)]
    whole = len(sources) == len(op.value.items) == len(targets) == len(op.targets) > 1
    distinct = len(set(targets)) == len(targets)
    return set(targets) if whole and distinct and set(sources) == set(targets) else set()
