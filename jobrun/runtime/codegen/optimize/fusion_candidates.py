"""Find candidates for fusion in expressions: chains of elementwise operators, for one kernel.

``exp(-(x * x) / 2) * a + b`` is a chain: operators that work on each item by itself, over
leaves that are anything else. Where the arrays are large it can be computed piece by piece,
so that nothing but the result ever has their size.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import cache
from typing import Any

import numpy as np

from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.expressions import Binary, Call, Compare, Const, Expr, Name, Unary
from jobrun.ops.operator_table import OPERATORS, implementation

# With fewer operators than this there is next to nothing to gain.
_SHORTEST = 3

_BINARY: dict[str, tuple[np.ufunc, Callable[..., Any]]] = {
    "+": (np.add, operator.add), "-": (np.subtract, operator.sub),
    "*": (np.multiply, operator.mul), "/": (np.true_divide, operator.truediv),
    "//": (np.floor_divide, operator.floordiv), "%": (np.remainder, operator.mod),
    "&": (np.bitwise_and, operator.and_), "|": (np.bitwise_or, operator.or_),
    "^": (np.bitwise_xor, operator.xor),
}  # fmt: skip
_COMPARE: dict[str, tuple[np.ufunc, Callable[..., Any]]] = {
    "<": (np.less, operator.lt), "<=": (np.less_equal, operator.le),
    ">": (np.greater, operator.gt), ">=": (np.greater_equal, operator.ge),
    "==": (np.equal, operator.eq), "!=": (np.not_equal, operator.ne),
}  # fmt: skip
_UNARY: dict[str, tuple[np.ufunc, Callable[..., Any]]] = {
    "-": (np.negative, operator.neg),
    "~": (np.invert, operator.invert),
}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operator of a fused chain.

    Attributes:
        ufunc: What computes it for arrays, into an array.
        plain: What computes it as it is written.
        operands: Indices of values: leaves first, then the results of earlier instructions.
    """

    ufunc: np.ufunc
    plain: Callable[..., Any]
    operands: tuple[int, ...]


@dataclass(slots=True)
class Chain:
    """A chain of elementwise operators as a program.

    Attributes:
        leaves: What is evaluated before it, in the order of the text, a name once.
        instructions: In the order of evaluation; a value that is written twice is computed once.
        operators: The expressions that are instructions here.
    """

    leaves: list[Expr] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    operators: list[Expr] = field(default_factory=list)


def is_fusible(expr: Expr) -> bool:
    """Return whether an expression is a candidate for fusion: it ends in a chain long enough."""
    return _count(expr) >= _SHORTEST and not all(isinstance(one, Const) for one in _leaves(expr))


def build_chain(expr: Expr) -> Chain:
    """Build the program of a candidate for fusion, the chain that ends an expression."""
    chain = Chain()
    _value(_tree(expr, chain), chain, {})
    return chain


# An index of a leaf, or an operator with its operands.
_Tree = int | tuple[np.ufunc, Callable[..., Any], tuple["_Tree", ...]]


def _tree(expr: Expr, chain: Chain) -> _Tree:
    parts, leaves = _operator(expr), chain.leaves
    if parts is not None:
        chain.operators.append(expr)
        ufunc, plain, operands = parts
        return ufunc, plain, tuple(_tree(one, chain) for one in operands)
    # A name has one value throughout the expression; what is drawn twice has two.
    if isinstance(expr, Name) and expr in leaves:
        return leaves.index(expr)
    leaves.append(expr)
    return len(leaves) - 1


def _value(tree: _Tree, chain: Chain, known: dict[tuple[Any, ...], int]) -> int:
    """Add one value's instructions to a fusion candidate's ``Chain``; return its index there."""
    if isinstance(tree, int):
        return tree
    ufunc, plain, operands = tree
    values = tuple(_value(one, chain, known) for one in operands)
    found = known.get((plain, values))
    if found is None:
        found = known[plain, values] = len(chain.leaves) + len(chain.instructions)
        chain.instructions.append(Instruction(ufunc, plain, values))
    return found


def _operator(expr: Expr) -> tuple[np.ufunc, Callable[..., Any], tuple[Expr, ...]] | None:
    """Return the ufunc and operands of an operator that is a candidate for fusion, or None."""
    match expr:
        case Binary(operator="**", right=Const(value=int(exponent))) if exponent == 2:
            # Numpy squares as well, but of float arrays alone.
            return np.square, square, (expr.left,)
        case Binary() if expr.operator in _BINARY:
            return (*_BINARY[expr.operator], (expr.left, expr.right))
        case Unary() if expr.operator in _UNARY:
            return (*_UNARY[expr.operator], (expr.operand,))
        case Compare(left=left, operators=(one,), rest=(right,)):
            return (*_COMPARE[one], (left, right))
        case Call() if expr.function in elementwise() and not expr.kwargs:
            function = implementation(expr.function)
            if isinstance(function, np.ufunc) and len(expr.args) == function.nin:
                return function, function, expr.args
    return None


@cache
def elementwise() -> frozenset[str]:
    """Return the operators that are candidates for fusion: built in, one ufunc, one result."""
    return frozenset(
        name
        for name, known in OPERATORS.items()
        if known.implementation.startswith("numpy:")
        and isinstance(found := implementation(name), np.ufunc)
        and found.nout == 1
        and found.signature is None
    )


def square(value: Any) -> Any:
    """Compute ``value ** 2``: the plain form of a squaring operator in a candidate for fusion."""
    return value**2


def _count(expr: Expr) -> int:
    parts = _operator(expr)
    return 1 + sum(map(_count, parts[2])) if parts is not None else 0


def _leaves(expr: Expr) -> Iterator[Expr]:
    parts = _operator(expr)
    if parts is None:
        yield expr
    else:
        for one in parts[2]:
            yield from _leaves(one)
