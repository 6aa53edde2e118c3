"""Infer dtype and shape of arithmetic and comparisons (``a + b``, ``-a``, ``a < b``)."""

from __future__ import annotations

import operator
from collections.abc import Callable

from msgspec.structs import replace

from jobrun.ops.abstract_values import (
    KINDS,
    NONE,
    SHAPES,
    TEXT,
    UNKNOWN,
    Known,
    MisfitError,
    Shape,
    UnclearError,
    clash,
    integer,
    items_in,
    join,
    joint_shape,
    scalar,
    shape_text,
)
from jobrun.ops.declarations import elementwise, linear
from jobrun.ops.dtype_promotion import kind_of, same_kind

_PAIRS: dict[str, elementwise.Pair] = {
    "+": elementwise.sum_like, "*": elementwise.sum_like, "-": elementwise.difference,
    "/": elementwise.quotient, "//": elementwise.whole_quotient, "%": elementwise.whole_quotient,
    "**": elementwise.power, "&": elementwise.bits, "|": elementwise.bits, "^": elementwise.bits,
    "<<": elementwise.shifted, ">>": elementwise.shifted,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[..., int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_COMPARISONS: dict[str, Callable[..., bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_ORDER = "bifc"
_NAMES = {"b": "int64", "i": "int64", "f": "float64", "c": "complex128"}


def infer_binary(lhs: Known, sign: str, rhs: Known) -> Known:
    """Infer the type of the arithmetic or bitwise expression ``left sign right``.

    Raises:
        MisfitError: It cannot be computed, whatever the values are.
        UnclearError: Nothing is known of the result.
    """
    if lhs.sequence or rhs.sequence:
        return _infer_concatenation(lhs, sign, rhs)
    if TEXT in (lhs.dtype, rhs.dtype) or NONE in (lhs.dtype, rhs.dtype):
        return _infer_text_operation(lhs, sign, rhs)
    if sign == "@":
        return linear.matmul(lhs, rhs)
    if None in (lhs.weak, rhs.weak):
        return _infer_either_kind(lhs, sign, rhs)
    if lhs.weak and rhs.weak:
        return _infer_scalar_operation(lhs, sign, rhs)
    if lhs.shape is None or rhs.shape is None:
        return Known(_PAIRS[sign](lhs, rhs))
    return Known(_PAIRS[sign](lhs, rhs), joint_shape(lhs.shape, rhs.shape))


def _infer_either_kind(lhs: Known, sign: str, rhs: Known) -> Known:
    """Infer the type of arithmetic whose operands may be Python scalars or numpy values."""
    joined: Known | None = None
    refused: MisfitError | None = None
    for lhs_weak in (True, False) if lhs.weak is None else (lhs.weak,):
        for rhs_weak in (True, False) if rhs.weak is None else (rhs.weak,):
            try:
                known = infer_binary(replace(lhs, weak=lhs_weak), sign, replace(rhs, weak=rhs_weak))
            except MisfitError as error:
                refused = error
                continue
            joined = known if joined is None else join(joined, known)
    if refused is not None and joined is None:
        raise refused
    return UNKNOWN if joined is None or refused is not None else joined


def _infer_concatenation(lhs: Known, sign: str, rhs: Known) -> Known:
    """Infer the type of ``+`` on two tuples; refuse any other arithmetic on sequences."""
    sides = (lhs, rhs)
    if sign == "+" and all(side.sequence == "tuple" or side == UNKNOWN for side in sides):
        if lhs.items is None or rhs.items is None:
            return Known(sequence="tuple")
        return Known(items=lhs.items + rhs.items, sequence="tuple")
    raise _sequence_misfit(lhs if lhs.sequence else rhs, sign, lhs, rhs)


# Operators whose meaning differs for sequences and for arrays → how to write each.
_SEQUENCE_MENDS = {
    "*": "tile(x, times) repeats the items; array(x) * y multiplies each of them",
    "+": "concatenate([x, y]) joins them; array(x) + array(y) adds their items",
    "==": "array_equal(x, y) compares the whole; array(x) == array(y) compares their items",
    "!=": "not array_equal(x, y) compares the whole; array(x) != array(y) compares their items",
}


def _sequence_misfit(known: Known, sign: str, *operands: Known) -> MisfitError:
    message = f"'{sign}' is not supported for a {known.sequence}"
    mend = "make an array of it: array([…]), or array(x) of a blob"
    sequences = sum(bool(operand.sequence) for operand in operands)
    repeats = sign == "*" and any(
        operand.weak and kind_of(operand.dtype) in ("b", "i") for operand in operands
    )
    # With an array as the other operand numpy decides; anything else is an error in Python, too.
    if sequences == 2 or repeats:
        mend = _SEQUENCE_MENDS.get(sign, mend)
    return MisfitError(KINDS, message, mend)


def _infer_text_operation(lhs: Known, sign: str, rhs: Known) -> Known:
    if lhs.dtype == rhs.dtype == TEXT and sign == "+":
        return Known(TEXT, (), weak=True)
    if None in (lhs.dtype, rhs.dtype):
        raise UnclearError
    noun = "None" if NONE in (lhs.dtype, rhs.dtype) else "text"
    message = f"'{sign}' is not supported for {noun}"
    raise MisfitError(
        KINDS, message, "text is concatenated with +, and formatted by log and message"
    )


def _infer_scalar_operation(lhs: Known, sign: str, rhs: Known) -> Known:
    """Infer the type of arithmetic on two Python scalars, by Python's rules."""
    kinds = kind_of(lhs.dtype), kind_of(rhs.dtype)
    if not all(kind in _ORDER and kind for kind in kinds):
        return Known(None, (), weak=True)
    wider = max(kinds, key=_ORDER.index)
    if sign in ("&", "|", "^", "<<", ">>"):
        if wider in "fc":
            mend = "write x ** 2 for a power" if sign == "^" else "write and, or, not"
            raise elementwise.wrong_kind(_NAMES[wider], "bits", f"{mend}; or int(x)")
        whole = wider == "i" or sign in ("<<", ">>")
        return Known("int64" if whole else "bool", (), weak=True)
    if sign in _ARITHMETIC and lhs.value is not None and rhs.value is not None:
        return scalar(_ARITHMETIC[sign](lhs.value, rhs.value))
    if sign in ("//", "%") and wider == "c":
        raise elementwise.wrong_kind("complex128", "whole quotient or remainder", "take abs(x)")
    if sign == "/":
        return Known("complex128" if wider == "c" else "float64", (), weak=True)
    if sign == "**":
        return _infer_scalar_power(kinds, integer(rhs))
    return Known(_NAMES[wider], (), weak=True)


def _infer_scalar_power(kinds: tuple[str, str], exponent: int | None) -> Known:
    # int ** negative is a float; float ** non-integer may be complex.
    if "c" in kinds:
        return Known("complex128", (), weak=True)
    if exponent is None or (exponent < 0 and kinds[0] != "f"):
        return Known(None, (), weak=True)
    return Known(_NAMES[kinds[0]], (), weak=True)


def infer_unary(sign: str, operand: Known) -> Known:
    """Infer the type of the arithmetic expression ``sign operand``, such as ``-a``.

    Raises:
        MisfitError: It cannot be computed.
        UnclearError: Nothing is known of the result.
    """
    if sign == "not":
        require_truth_value(operand)
        value = None if operand.value is None else not operand.value
        return Known("bool", (), value, weak=True)
    if operand.sequence:
        raise _sequence_misfit(operand, sign)
    if operand.dtype is None:
        return Known(None, operand.shape)
    kind = kind_of(operand.dtype)
    if not kind:
        message = f"'{sign}' is not supported for {operand.dtype}"
        raise MisfitError(KINDS, message, "use a number or an array of numbers")
    if sign == "~" and kind in "fc":
        raise elementwise.wrong_kind(operand.dtype, "bits", "write not, or compare first")
    if operand.weak is None:
        return Known(None if kind == "b" else operand.dtype, operand.shape, weak=None)
    if operand.weak:
        if sign == "-" and operand.value is not None and not isinstance(operand.value, str):
            return scalar(-operand.value)
        return Known(_NAMES[kind], (), weak=True)
    if kind == "b" and sign != "~":
        raise elementwise.wrong_kind("bool", f"'{sign}'", "write ~x, or astype(x, int64)")
    return Known(operand.dtype, operand.shape)


def infer_comparison(lhs: Known, sign: str, rhs: Known) -> Known:
    """Infer the type of the comparison ``left sign right``, by rules as for arithmetic.

    Raises:
        MisfitError: Their shapes do not broadcast, or they have no order.
        UnclearError: Nothing is known of the result.
    """
    if lhs.sequence == rhs.sequence == "tuple":
        same = None
        if lhs.items is not None and rhs.items is not None:
            same = _compare_items(lhs.items, rhs.items, sign)
        return Known("bool", (), same, weak=True)
    if lhs.sequence or rhs.sequence:
        if UNKNOWN in (lhs, rhs) and "list" not in (lhs.sequence, rhs.sequence):
            raise UnclearError
        raise _sequence_misfit(lhs if lhs.sequence else rhs, sign, lhs, rhs)
    if lhs.value is not None and rhs.value is not None:
        return _compare_values(lhs, sign, rhs)
    if sign not in ("==", "!=") and (lhs.dtype == TEXT) != (rhs.dtype == TEXT):
        number = rhs if lhs.dtype == TEXT else lhs
        if kind_of(number.dtype) in tuple("biuf"):
            mend = "compare numbers with numbers; a param in quotes is text, so leave them out"
            raise MisfitError(KINDS, f"text and {number.dtype} have no order", mend)
    if TEXT in (lhs.dtype, rhs.dtype) or lhs.shape is None or rhs.shape is None:
        raise UnclearError
    shape = joint_shape(lhs.shape, rhs.shape)
    weak = None if None in (lhs.weak, rhs.weak) else lhs.weak and rhs.weak
    return Known("bool", shape, weak=weak)


def _compare_items(lhs: tuple[Known, ...], rhs: tuple[Known, ...], sign: str) -> bool | None:
    pairs = [(integer(first), integer(second)) for first, second in zip(lhs, rhs, strict=False)]
    if sign not in ("==", "!=") or any(None in pair for pair in pairs):
        return None
    same = len(lhs) == len(rhs) and all(first == second for first, second in pairs)
    return same if sign == "==" else not same


def _compare_values(lhs: Known, sign: str, rhs: Known) -> Known:
    try:
        return Known("bool", (), _COMPARISONS[sign](lhs.value, rhs.value), weak=True)
    except TypeError:
        message = f"{lhs.dtype} and {rhs.dtype} have no order"
        raise MisfitError(KINDS, message, "compare numbers with numbers") from None


def require_truth_value(known: Known) -> None:
    """Refuse the arithmetic ``not``, ``and``, ``or`` on an array type of several items.

    Raises:
        MisfitError: It has more than one item.
    """
    if known.sequence or not known.shape:
        return
    count = items_in(known.shape)
    if count is not None and count > 1:
        message = f"an array of shape {shape_text(known.shape)} has no single truth value"
        raise MisfitError(
            KINDS, message, "reduce it with any() or all(); for each item write & | ~"
        )


def require_in_place(lhs: Known, result: Known, sign: str) -> None:
    """Refuse ``a += b`` if this arithmetic gives a type that ``a`` cannot have.

    Raises:
        MisfitError: Its shape would change, or its dtype would change kind.
    """
    if lhs.shape is not None and result.shape is not None:
        _require_same_shape(lhs.shape, result.shape, sign)
    if lhs.dtype is None or result.dtype is None or not kind_of(result.dtype):
        return
    if kind_of(lhs.dtype) and not same_kind(result.dtype, lhs.dtype):
        message = f"a {result.dtype} result cannot be stored in place in an array of {lhs.dtype}"
        mend = f"write x = x {sign} y, or make it {result.dtype} from the start"
        raise MisfitError(KINDS, message, mend)


def _require_same_shape(lhs: Shape, result: Shape, sign: str) -> None:
    if len(lhs) != len(result) or any(
        clash(length, other) if sign == "@" else length == 1 and other not in (1, None)
        for length, other in zip(lhs, result, strict=True)
    ):
        message = (
            f"an array of shape {shape_text(lhs)} cannot become one of {shape_text(result)} "
            f"in place"
        )
        raise MisfitError(SHAPES, message, f"write x = x {sign} y, which makes a new array")
