"""Infer dtype and shape of arithmetic and comparisons (``a + b``, ``-a``, ``a < b``)."""

from __future__ import annotations

import operator
from collections.abc import Callable

from jobrun.core.lazy_dataclass import replace
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


def infer_binary(left: Known, sign: str, right: Known) -> Known:
    """Infer the type of the arithmetic or bitwise expression ``left sign right``.

    Raises:
        MisfitError: It cannot be computed, whatever the values are.
        UnclearError: Nothing is known of the result.
    """
    if left.sequence or right.sequence:
        return _infer_concatenation(left, sign, right)
    if TEXT in (left.dtype, right.dtype) or NONE in (left.dtype, right.dtype):
        return _infer_text_operation(left, sign, right)
    if sign == "@":
        return linear.matmul(left, right)
    if None in (left.weak, right.weak):
        return _infer_either_kind(left, sign, right)
    if left.weak and right.weak:
        return _infer_scalar_operation(left, sign, right)
    if left.shape is None or right.shape is None:
        return Known(_PAIRS[sign](left, right))
    return Known(_PAIRS[sign](left, right), joint_shape(left.shape, right.shape))


def _infer_either_kind(left: Known, sign: str, right: Known) -> Known:
    """Infer the type of arithmetic whose operands may be Python scalars or numpy values."""
    found: Known | None = None
    refused: MisfitError | None = None
    for one in (True, False) if left.weak is None else (left.weak,):
        for two in (True, False) if right.weak is None else (right.weak,):
            try:
                known = infer_binary(replace(left, weak=one), sign, replace(right, weak=two))
            except MisfitError as error:
                refused = error
                continue
            found = known if found is None else join(found, known)
    if refused is not None and found is None:
        raise refused
    return UNKNOWN if found is None or refused is not None else found


def _infer_concatenation(left: Known, sign: str, right: Known) -> Known:
    """Infer the type of ``+`` on two tuples; refuse any other arithmetic on sequences."""
    sides = (left, right)
    if sign == "+" and all(one.sequence == "tuple" or one == UNKNOWN for one in sides):
        if left.items is None or right.items is None:
            return Known(sequence="tuple")
        return Known(items=left.items + right.items, sequence="tuple")
    raise _sequence_misfit(left if left.sequence else right, sign, left, right)


# What Python does with sequences, and what numpy would do with arrays of them.
_SEQUENCE_MENDS = {
    "*": "tile(x, times) repeats the items; array(x) * y multiplies each of them",
    "+": "concatenate([x, y]) joins them; array(x) + array(y) adds their items",
    "==": "array_equal(x, y) compares the whole; array(x) == array(y) compares their items",
    "!=": "not array_equal(x, y) compares the whole; array(x) != array(y) compares their items",
}


def _sequence_misfit(known: Known, sign: str, *operands: Known) -> MisfitError:
    message = f"'{sign}' is not supported for a {known.sequence}"
    mend = "make an array of it: array([…]), or array(x) of a blob"
    sequences = sum(bool(one.sequence) for one in operands)
    repeats = sign == "*" and any(one.weak and kind_of(one.dtype) in ("b", "i") for one in operands)
    # Beside an array Python asks numpy, and anything else is an error there, too.
    if sequences == 2 or repeats:
        mend = _SEQUENCE_MENDS.get(sign, mend)
    return MisfitError(KINDS, message, mend)


def _infer_text_operation(left: Known, sign: str, right: Known) -> Known:
    if left.dtype == right.dtype == TEXT and sign == "+":
        return Known(TEXT, (), weak=True)
    if None in (left.dtype, right.dtype):
        raise UnclearError
    what = "None" if NONE in (left.dtype, right.dtype) else "text"
    message = f"'{sign}' is not supported for {what}"
    raise MisfitError(
        KINDS, message, "text is concatenated with +, and formatted by log and message"
    )


def _infer_scalar_operation(left: Known, sign: str, right: Known) -> Known:
    """Infer the type of arithmetic on two Python scalars, by Python's rules."""
    kinds = kind_of(left.dtype), kind_of(right.dtype)
    if not all(kind in _ORDER and kind for kind in kinds):
        return Known(None, (), weak=True)
    wider = max(kinds, key=_ORDER.index)
    if sign in ("&", "|", "^", "<<", ">>"):
        if wider in "fc":
            mend = "write x ** 2 for a power" if sign == "^" else "write and, or, not"
            raise elementwise.wrong_kind(_NAMES[wider], "bits", f"{mend}; or int(x)")
        whole = wider == "i" or sign in ("<<", ">>")
        return Known("int64" if whole else "bool", (), weak=True)
    if sign in _ARITHMETIC and left.value is not None and right.value is not None:
        return scalar(_ARITHMETIC[sign](left.value, right.value))
    if sign in ("//", "%") and wider == "c":
        raise elementwise.wrong_kind("complex128", "whole quotient or remainder", "take abs(x)")
    if sign == "/":
        return Known("complex128" if wider == "c" else "float64", (), weak=True)
    if sign == "**":
        return _infer_scalar_power(kinds, integer(right))
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


def infer_comparison(left: Known, sign: str, right: Known) -> Known:
    """Infer the type of the comparison ``left sign right``, by rules as for arithmetic.

    Raises:
        MisfitError: Their shapes do not broadcast, or they have no order.
        UnclearError: Nothing is known of the result.
    """
    if left.sequence == right.sequence == "tuple":
        same = None
        if left.items is not None and right.items is not None:
            same = _compare_items(left.items, right.items, sign)
        return Known("bool", (), same, weak=True)
    if left.sequence or right.sequence:
        if UNKNOWN in (left, right) and "list" not in (left.sequence, right.sequence):
            raise UnclearError
        raise _sequence_misfit(left if left.sequence else right, sign, left, right)
    if left.value is not None and right.value is not None:
        return _compare_values(left, sign, right)
    if sign not in ("==", "!=") and (left.dtype == TEXT) != (right.dtype == TEXT):
        number = right if left.dtype == TEXT else left
        if kind_of(number.dtype) in tuple("biuf"):
            raise MisfitError(
                KINDS,
                f"text and {number.dtype} have no order",
                "compare numbers with numbers; a param in quotes is text, so leave them out",
            )
    if TEXT in (left.dtype, right.dtype) or left.shape is None or right.shape is None:
        raise UnclearError
    shape = joint_shape(left.shape, right.shape)
    weak = None if None in (left.weak, right.weak) else left.weak and right.weak
    return Known("bool", shape, weak=weak)


def _compare_items(left: tuple[Known, ...], right: tuple[Known, ...], sign: str) -> bool | None:
    pairs = [(integer(one), integer(two)) for one, two in zip(left, right, strict=False)]
    if sign not in ("==", "!=") or any(None in pair for pair in pairs):
        return None
    same = len(left) == len(right) and all(one == two for one, two in pairs)
    return same if sign == "==" else not same


def _compare_values(left: Known, sign: str, right: Known) -> Known:
    try:
        return Known("bool", (), _COMPARISONS[sign](left.value, right.value), weak=True)
    except TypeError:
        message = f"{left.dtype} and {right.dtype} have no order"
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


def require_in_place(left: Known, result: Known, sign: str) -> None:
    """Refuse ``a += b`` if this arithmetic gives a type that ``a`` cannot have.

    Raises:
        MisfitError: Its shape would change, or its dtype would change kind.
    """
    if left.shape is not None and result.shape is not None:
        _require_same_shape(left.shape, result.shape, sign)
    if left.dtype is None or result.dtype is None or not kind_of(result.dtype):
        return
    if kind_of(left.dtype) and not same_kind(result.dtype, left.dtype):
        message = f"a {result.dtype} result cannot be stored in place in an array of {left.dtype}"
        mend = f"write x = x {sign} y, or make it {result.dtype} from the start"
        raise MisfitError(KINDS, message, mend)


def _require_same_shape(left: Shape, result: Shape, sign: str) -> None:
    if len(left) != len(result) or any(
        clash(length, other) if sign == "@" else length == 1 and other not in (1, None)
        for length, other in zip(left, result, strict=True)
    ):
        message = (
            f"an array of shape {shape_text(left)} cannot become one of {shape_text(result)} "
            f"in place"
        )
        raise MisfitError(SHAPES, message, f"write x = x {sign} y, which makes a new array")
