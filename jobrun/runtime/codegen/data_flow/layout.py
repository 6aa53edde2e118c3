"""Find the names whose layout in memory a block can see.

A sum adds in the order of memory, and some loops of numpy treat items that lie side by side
otherwise than those with gaps between them. But an addition, a comparison or a square root gives
what IEEE 754 says, wherever its operands lie: where a name is used by nothing else, a view with
gaps gives the bits that its copy gives, in arrays of the same axis order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobrun.graph.expressions import (
    Attribute,
    Binary,
    Call,
    Compare,
    Conditional,
    Const,
    Expr,
    Index,
    LoopIndex,
    Name,
    Sequence,
    Slice,
    Text,
    Unary,
)
from jobrun.graph.steps import Augment, Op
from jobrun.graph.traversal import children, walk_expr
from jobrun.runtime.codegen.optimize.alias_analysis import aliased_leaves, is_fresh

# Of numbers that are real; of complex ones even a product may be computed in two ways.
_EXACT_SIGNS = frozenset("+-*/&|^")
_EXACT_CALLS = frozenset({
    "abs", "absolute", "add", "bitwise_and", "bitwise_or", "bitwise_xor", "ceil", "divide", "equal",
    "floor", "greater", "greater_equal", "invert", "isfinite", "isinf", "isnan", "len", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "multiply", "negative",
    "not_equal", "ones_like", "rint", "sign", "signbit", "sqrt", "square", "subtract",
    "true_divide", "trunc", "where", "zeros_like",
})  # fmt: skip
_FACTS = frozenset({"shape", "size", "ndim", "dtype"})


def names_with_visible_layout(op: Op | None, exprs: Iterable[Expr]) -> Iterator[str]:
    """Yield the names that an operator, or a condition, may see the layout of.

    Args:
        op: The operator; None for a condition.
        exprs: Its expressions.
    """
    for expr in exprs:
        for part in walk_expr(expr):
            if not _is_exact(part):
                for operand in children(part):
                    yield from _names(operand)
    if isinstance(op, Augment) and op.operator not in _EXACT_SIGNS:
        yield op.target.name
        yield from _names(op.value)


def has_basic_index(index: Expr) -> bool:
    """Return whether an index, of integers and slices, surely gives a view, whose layout shows."""
    match index:
        case Const(value=value, ellipsis=ellipsis):
            return ellipsis or value is None or type(value) is int
        case Slice() | LoopIndex():
            return True
        case Unary(operator="-", operand=operand):
            return has_basic_index(operand)
        case Binary(left=left, right=right):
            return _is_integer(left) and _is_integer(right)
        case Sequence(form="tuple", items=items):
            return all(map(has_basic_index, items))
        case _:
            return False


def _is_integer(expr: Expr) -> bool:
    match expr:
        case Const(value=value):
            return type(value) is int
        case LoopIndex():
            return True
        case Unary(operator="-", operand=operand):
            return _is_integer(operand)
        case Binary(left=left, right=right):
            return _is_integer(left) and _is_integer(right)
        case _:
            return False


def _is_exact(expr: Expr) -> bool:
    """Return whether an expression gives the same bits for any layout of its operands."""
    match expr:
        case Binary(operator="**", right=Const(value=int(exponent))):
            return exponent == 2
        case Binary(operator=sign):
            return sign in _EXACT_SIGNS
        case Unary() | Compare() | Conditional() | Slice() | Text():
            return True
        case Call(function=name, kwargs=kwargs):
            return name in _EXACT_CALLS and not kwargs
        case Attribute(name=name):
            return name == "T" or name in _FACTS
        case Index(index=index):
            return has_basic_index(index)
        case Sequence():
            # As a blob it is copied, and copies keep the order of axes.
            return True
        case _:
            return not children(expr)


def _names(expr: Expr) -> Iterator[str]:
    """Yield the names of blobs whose layout a value may have, as it may be a view of them."""
    if not is_fresh(expr):
        yield from (leaf.name for leaf in aliased_leaves(expr) if isinstance(leaf, Name))
