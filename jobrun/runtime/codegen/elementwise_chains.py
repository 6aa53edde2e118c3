"""Find chains of elementwise operators that can be fused, or write into their operand's memory.

``exp(-(x * x) / 2) * a + b`` is a chain: operators that work on each item by itself, over
leaves that are anything else. Where the arrays are large it can be computed by one kernel
(``fused_kernel``), piece by piece, so that nothing but the result ever has their size.

``1 / (1 + exp(-(X @ w)))`` makes an array for each of its operators, and converts each number at
each of them. But the result of ``X @ w`` has no other owner: what follows can be computed in its
memory (``find_reuse_chain``). Where it is an array of float64, which only the running code knows,
every number beside it is taken as float64, and every result has the shape and dtype of its operand;
so the bits are those of the expression as written. Both analyses are static; ``expressions``
builds the code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct, field

from jobrun.graph.expressions import (
    Attribute,
    Binary,
    Builtin,
    Call,
    Compare,
    Const,
    Expr,
    Index,
    Name,
    Sequence,
    Slice,
    Unary,
)
from jobrun.runtime.codegen.alias_analysis import find_ufuncs, is_fresh

# Fusing fewer operators than this saves almost nothing.
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

FLOAT64 = np.dtype(np.float64)
# Operators whose result for float64 operands is float64.
_ARITHMETIC = frozenset("+-*/")
# Ufuncs that accept the output array only by keyword.
MORE_OPERANDS = frozenset({np.maximum, np.minimum})
_NUMBERS = {"inf": np.inf, "nan": np.nan, "pi": np.pi}
# Integers up to this are exact in float64.
_EXACT = 1 << 53


class Instruction(Struct, frozen=True):
    """One operator of a fused chain.

    Attributes:
        ufunc: What computes it for arrays, into an array.
        plain: What computes it as it is written.
        operands: Indices of values: leaves first, then the results of earlier instructions.
    """

    ufunc: np.ufunc
    plain: Callable[..., Any]
    operands: tuple[int, ...]


class Chain(Struct):
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
    """Return whether an expression ends in a chain of elementwise operators worth fusing."""
    return _count(expr) >= _SHORTEST and not all(isinstance(leaf, Const) for leaf in _leaves(expr))


def build_chain(expr: Expr) -> Chain:
    """Build the ``Chain`` of elementwise operations that ends an expression, to be fused."""
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
        return ufunc, plain, tuple(_tree(operand, chain) for operand in operands)
    # A name has one value throughout the expression, but two draws have two values.
    if isinstance(expr, Name) and expr in leaves:
        return leaves.index(expr)
    leaves.append(expr)
    return len(leaves) - 1


def _value(tree: _Tree, chain: Chain, known: dict[tuple[Any, ...], int]) -> int:
    """Add instructions that compute a value to an elementwise ``Chain``; return its index."""
    if isinstance(tree, int):
        return tree
    ufunc, plain, operands = tree
    values = tuple(_value(operand, chain, known) for operand in operands)
    index = known.get((plain, values))
    if index is None:
        index = known[plain, values] = len(chain.leaves) + len(chain.instructions)
        chain.instructions.append(Instruction(ufunc, plain, values))
    return index


def _operator(expr: Expr) -> tuple[np.ufunc, Callable[..., Any], tuple[Expr, ...]] | None:
    """Return the ufunc and operands of an elementwise operator that can be fused, else None."""
    match expr:
        case Binary(operator="**", right=Const(value=int(exponent))) if exponent == 2:
            # numpy also uses ``square`` here, but only for float arrays.
            return np.square, square, (expr.left,)
        case Binary() if expr.operator in _BINARY:
            return (*_BINARY[expr.operator], (expr.left, expr.right))
        case Unary() if expr.operator in _UNARY:
            return (*_UNARY[expr.operator], (expr.operand,))
        case Compare(left=lhs, operators=(sign,), rest=(rhs,)):
            return (*_COMPARE[sign], (lhs, rhs))
        case Call() if expr.function in elementwise() and not expr.kwargs:
            ufunc = find_ufuncs()[expr.function]
            if len(expr.args) == ufunc.nin:
                return ufunc, ufunc, expr.args
    return None


@cache
def elementwise() -> frozenset[str]:
    """Return names of elementwise operators that can be fused: built in, one ufunc, one result."""
    return frozenset(
        name for name, ufunc in find_ufuncs().items() if ufunc.nout == 1 and ufunc.signature is None
    )


def square(value: Any) -> Any:
    """Compute ``value ** 2`` with Python's ``**``, for squaring in an elementwise chain."""
    return value**2


def _count(expr: Expr) -> int:
    parts = _operator(expr)
    return 1 + sum(map(_count, parts[2])) if parts is not None else 0


def _leaves(expr: Expr) -> Iterator[Expr]:
    parts = _operator(expr)
    if parts is None:
        yield expr
    else:
        for operand in parts[2]:
            yield from _leaves(operand)


class ReuseStep(Struct, frozen=True):
    """An elementwise operator on one array, which may write into the array's memory.

    Attributes:
        expr: The operator as it is written.
        ufunc: What computes it.
        other: Its second operand: a number, or an expression that surely gives one; None where
            it has one operand.
        is_first: The number is the first operand.
    """

    expr: Expr
    ufunc: np.ufunc
    other: float | Expr | None = None
    is_first: bool = False


class ReuseChain(Struct, frozen=True):
    """Operators applied one to the other, over one array whose memory they reuse.

    Attributes:
        base: What gives the array.
        links: From the inside out.
        reuses: The base's memory takes the results; otherwise numbers only are made ready.
    """

    base: Expr
    links: tuple[ReuseStep, ...]
    reuses: bool


def find_reuse_chain(expr: Expr, *, names: bool = False) -> ReuseChain | None:
    """Find the chain of elementwise operators that can write into one array's memory, or None.

    Args:
        expr: The operator on the outside.
        names: Names count as arrays. Else the chain is over what is numpy's in any case: to
            Python's numbers a look at the class is dear.
    """
    links: list[ReuseStep] = []
    bases = [expr]
    while (link := _link(bases[-1])) is not None:
        step, operand = link
        links.append(step)
        bases.append(operand)
    # Find the innermost operand that is a fresh array.
    for depth in range(len(links), 0, -1):
        if is_fresh(bases[depth]) and _is_array(bases[depth], names=names):
            return ReuseChain(bases[depth], tuple(links[depth - 1 :: -1]), reuses=True)
    return _array_and_number(expr, names=names)


def _array_and_number(expr: Expr, *, names: bool) -> ReuseChain | None:
    """Return a chain of one elementwise operator on array and number, as ``a * 2``, or None."""
    match expr:
        case Compare(left=lhs, operators=(sign,), rest=(rhs,)):
            ufunc, operands, is_dear = _COMPARE[sign][0], (lhs, rhs), False
        case Binary(left=lhs, operator=sign, right=rhs) if sign in _ARITHMETIC:
            ufunc, operands, is_dear = _BINARY[sign][0], (lhs, rhs), False
        case Call(function=name, args=(lhs, rhs), kwargs=()) if name in elementwise():
            # The result of a ufunc is always a numpy value.
            ufunc, operands, is_dear = find_ufuncs()[name], (lhs, rhs), True
        case _:
            return None
    for at in (0, 1):
        number, array = _number(operands[at]), operands[1 - at]
        if number is None or not _is_array(array, names=names or is_dear):
            continue
        if _takes_float64(ufunc):
            return ReuseChain(array, (ReuseStep(expr, ufunc, number, at == 0),), reuses=False)
    return None


def _link(expr: Expr) -> tuple[ReuseStep, Expr] | None:
    """Split ``exp(a)`` into its elementwise operator and ``a``, whose memory it may reuse."""
    match expr:
        case Unary(operator="-", operand=operand):
            return ReuseStep(expr, np.negative), operand
        case Binary(left=lhs, operator="**", right=Const(value=int(exponent))) if exponent == 2:
            # numpy does the same.
            return ReuseStep(expr, np.square), lhs
        case Binary(left=lhs, operator=sign, right=rhs) if sign in _ARITHMETIC:
            return _with_number(expr, _BINARY[sign][0], lhs, rhs)
        case Call(function=name, args=args, kwargs=()) if name in elementwise():
            ufunc = find_ufuncs()[name]
            if len(args) != ufunc.nin or not keeps_float64(ufunc):
                return None
            if ufunc.nin == 1:
                return ReuseStep(expr, ufunc), args[0]
            return _with_number(expr, ufunc, *args) if ufunc.nin == 2 else None
    return None


def _with_number(
    expr: Expr, ufunc: np.ufunc, lhs: Expr, rhs: Expr
) -> tuple[ReuseStep, Expr] | None:
    if (number := _number(rhs)) is not None:
        return ReuseStep(expr, ufunc, number), lhs
    if (number := _number(lhs)) is not None:
        return ReuseStep(expr, ufunc, number, is_first=True), rhs
    # Only as the second operand, so that it is evaluated after the array.
    return (ReuseStep(expr, ufunc, rhs), lhs) if _is_whole(rhs) else None


def _number(expr: Expr) -> float | None:
    """Return a constant in an elementwise chain as a float; None for any other operand."""
    match expr:
        case Const(value=value) if type(value) is float:
            return value
        case Const(value=value) if type(value) is int:
            return float(value) if abs(value) <= _EXACT else None
        case Unary(operator="-", operand=Const(value=value)):
            # Negate an integer before the conversion: -0 stays +0.
            return _number(Const(-value)) if isinstance(value, int | float) else None
        case Builtin(name=name):
            return _NUMBERS.get(name)
        case _:
            return None


def _is_whole(expr: Expr) -> bool:
    """Return whether an operand in an elementwise chain surely is an integer, as ``len(a)`` is."""
    match expr:
        case Call(function="len", args=(Name(),), kwargs=()):
            return True
        case Attribute(value=Name(), name="size" | "ndim"):
            return True
        case _:
            return False


def _is_array(expr: Expr, *, names: bool) -> bool:
    """Return whether an elementwise chain's operand surely is an array, or a numpy number.

    ``names``: Whether a name does.
    """
    match expr:
        case Name():
            return names
        case Binary(operator="@"):
            return True
        case Binary(left=lhs, right=rhs):
            return _is_array(lhs, names=names) or _is_array(rhs, names=names)
        case Unary(operand=operand):
            return _is_array(operand, names=names)
        case Call():
            return expr.function in elementwise()
        case Index(index=Slice()):
            return True
        case Index(index=Sequence(items=items)):
            return any(isinstance(item, Slice) for item in items)
        case _:
            return False


@cache
def _takes_float64(ufunc: np.ufunc) -> bool:
    """Return whether an elementwise operator takes numbers beside a float64 array as float64."""
    try:
        wanted = [
            ufunc.resolve_dtypes((*kinds, None))
            for kinds in ((FLOAT64, FLOAT64), (FLOAT64, int), (int, FLOAT64), (FLOAT64, float))
        ]
    except TypeError:
        return False
    return len(set(wanted)) == 1 and wanted[0][:2] == (FLOAT64, FLOAT64)


@cache
def keeps_float64(ufunc: np.ufunc) -> bool:
    """Return whether an elementwise operator can overwrite a float64 array: it gives float64."""
    if ufunc in MORE_OPERANDS:
        return False
    try:
        dtypes = ufunc.resolve_dtypes((*(FLOAT64,) * ufunc.nin, None))
    except TypeError:
        return False
    return set(dtypes) == {FLOAT64} and (ufunc.nin == 1 or _takes_float64(ufunc))


@cache
def float64_constant(text: str) -> np.ndarray[Any, Any]:
    """Return a constant of an elementwise chain as a read-only float64 array, from hex text."""
    constant = np.array(float.fromhex(text))
    constant.flags.writeable = False
    return constant
