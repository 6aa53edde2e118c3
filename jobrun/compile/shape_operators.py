"""What is known of ``a + b``, ``-a``, ``a < b`` and their like. No numpy, no guess."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

from jobrun.ops.arguments import (
    KINDS,
    SHAPES,
    MisfitError,
    UnclearError,
    integer,
    joint_shape,
    shape_text,
)
from jobrun.ops.known import (
    NONE,
    TEXT,
    UNKNOWN,
    Known,
    as_array,
    items_in,
    join,
    kind_of,
    same_kind,
    scalar,
)
from jobrun.ops.rules import elementwise, linear

_PAIRS: dict[str, elementwise.Pair] = {
    "+": elementwise.sum_like, "*": elementwise.sum_like, "-": elementwise.difference,
    "/": elementwise.quotient, "//": elementwise.whole_quotient, "%": elementwise.whole_quotient,
    "**": elementwise.power, "&": elementwise.bits, "|": elementwise.bits, "^": elementwise.bits,
    "<<": elementwise.shifted, ">>": elementwise.shifted,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[..., int | float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[..., bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_ORDER = "bifc"
_NAMES = {"b": "int64", "i": "int64", "f": "float64", "c": "complex128"}


def binary(left: Known, sign: str, right: Known) -> Known:
    """What is known of ``left sign right``.

    Raises:
        MisfitError: It cannot be computed, whatever the values are.
        UnclearError: Nothing can be said.
    """
    if TEXT in (left.dtype, right.dtype) or NONE in (left.dtype, right.dtype):
        return _with_text(left, sign, right)
    if left.items is not None or right.items is not None:
        left, right = _sequences(left, sign, right)
        if left.items is not None and right.items is not None:
            return Known(items=left.items + right.items)
    if sign == "@":
        return linear.matmul(left, right)
    if None in (left.weak, right.weak):
        return _either(left, sign, right)
    if left.weak and right.weak:
        return _of_scalars(left, sign, right)
    if left.shape is None or right.shape is None:
        return Known(_PAIRS[sign](left, right))
    return Known(_PAIRS[sign](left, right), joint_shape(left.shape, right.shape))


def _either(left: Known, sign: str, right: Known) -> Known:
    """Of values that may be Python scalars or numpy's: what is so in any case."""
    found: Known | None = None
    refused: MisfitError | None = None
    for one in (True, False) if left.weak is None else (left.weak,):
        for two in (True, False) if right.weak is None else (right.weak,):
            try:
                known = binary(replace(left, weak=one), sign, replace(right, weak=two))
            except MisfitError as error:
                refused = error
                continue
            found = known if found is None else join(found, known)
    if refused is not None and found is None:
        raise refused
    return UNKNOWN if found is None or refused is not None else found


def _sequences(left: Known, sign: str, right: Known) -> tuple[Known, Known]:
    """Lists beside an array are arrays; two of them are joined by ``+``."""
    if left.items is not None and right.items is not None:
        if sign == "+":
            return left, right
        raise UnclearError
    other = right if left.items is not None else left
    if other.weak is not False or other.shape is None:
        # Repeated by a number, or who knows.
        raise UnclearError
    return as_array(left), as_array(right)


def _with_text(left: Known, sign: str, right: Known) -> Known:
    if left.dtype == right.dtype == TEXT and sign == "+":
        return Known(TEXT, (), weak=True)
    if None in (left.dtype, right.dtype) and left.items is None and right.items is None:
        raise UnclearError
    what = "None" if NONE in (left.dtype, right.dtype) else "text"
    message = f"{what} is not computed with by '{sign}'"
    raise MisfitError(KINDS, message, "text is joined with +, and filled in by log and message")


def _of_scalars(left: Known, sign: str, right: Known) -> Known:
    """Of two Python scalars, by Python's rules."""
    kinds = kind_of(left.dtype), kind_of(right.dtype)
    if not all(kind in _ORDER and kind for kind in kinds):
        return Known(None, (), weak=True)
    wider = max(kinds, key=_ORDER.index)
    if sign in ("&", "|", "^", "<<", ">>"):
        if wider in "fc":
            raise elementwise.wrong_kind(_NAMES[wider], "bits", "write and, or, not; or int(x)")
        whole = wider == "i" or sign in ("<<", ">>")
        return Known("int64" if whole else "bool", (), weak=True)
    if sign in _ARITHMETIC and left.value is not None and right.value is not None:
        return scalar(_ARITHMETIC[sign](left.value, right.value))
    if sign in ("//", "%") and wider == "c":
        raise elementwise.wrong_kind("complex128", "whole quotient or remainder", "take abs(x)")
    if sign == "/":
        return Known("complex128" if wider == "c" else "float64", (), weak=True)
    if sign == "**":
        return _scalar_power(kinds, integer(right))
    return Known(_NAMES[wider], (), weak=True)


def _scalar_power(kinds: tuple[str, str], exponent: int | None) -> Known:
    # A negative exponent makes a float of an int; a broken one makes a complex of a float.
    if "c" in kinds:
        return Known("complex128", (), weak=True)
    if exponent is None or (exponent < 0 and kinds[0] != "f"):
        return Known(None, (), weak=True)
    return Known(_NAMES[kinds[0]], (), weak=True)


def unary(sign: str, operand: Known) -> Known:
    """What is known of ``sign operand``.

    Raises:
        MisfitError: It cannot be computed.
        UnclearError: Nothing can be said.
    """
    if sign == "not":
        check_truth(operand)
        value = None if operand.value is None else not operand.value
        return Known("bool", (), value, weak=True)
    if operand.items is not None or operand.dtype is None:
        return UNKNOWN if operand.items is not None else Known(None, operand.shape)
    kind = kind_of(operand.dtype)
    if not kind:
        message = f"'{sign}' cannot stand before {operand.dtype}"
        raise MisfitError(KINDS, message, "give a number or an array of numbers")
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


def compare(left: Known, sign: str, right: Known) -> Known:
    """What is known of ``left sign right``.

    Raises:
        MisfitError: Their shapes do not fit.
        UnclearError: Nothing can be said.
    """
    if left.items is not None and right.items is not None:
        return Known("bool", (), _same_items(left.items, right.items, sign), weak=True)
    if left.items is not None or right.items is not None:
        left, right = as_array(left), as_array(right)
    if left.value is not None and right.value is not None:
        return _known_comparison(left, sign, right)
    if TEXT in (left.dtype, right.dtype) or left.shape is None or right.shape is None:
        raise UnclearError
    shape = joint_shape(left.shape, right.shape)
    weak = None if None in (left.weak, right.weak) else left.weak and right.weak
    return Known("bool", shape, weak=weak)


def _same_items(left: tuple[Known, ...], right: tuple[Known, ...], sign: str) -> bool | None:
    pairs = [(integer(one), integer(two)) for one, two in zip(left, right, strict=False)]
    if sign not in ("==", "!=") or any(None in pair for pair in pairs):
        return None
    same = len(left) == len(right) and all(one == two for one, two in pairs)
    return same if sign == "==" else not same


def _known_comparison(left: Known, sign: str, right: Known) -> Known:
    try:
        return Known("bool", (), _COMPARISONS[sign](left.value, right.value), weak=True)
    except TypeError:
        message = f"{left.dtype} and {right.dtype} have no order"
        raise MisfitError(KINDS, message, "compare numbers with numbers") from None


def check_truth(known: Known) -> None:
    """Refuse an array of several items where one truth is wanted.

    Raises:
        MisfitError: It is one.
    """
    if known.items is not None or not known.shape:
        return
    count = items_in(known.shape)
    if count is not None and count > 1:
        message = f"an array of shape {shape_text(known.shape)} has no single truth"
        raise MisfitError(KINDS, message, "reduce it with any() or all(); of items write & | ~")


def check_in_place(left: Known, result: Known, sign: str) -> None:
    """Refuse what an array cannot take up where it is.

    Raises:
        MisfitError: It would become larger, or of another kind.
    """
    if left.shape is not None and result.shape is not None:
        grown = len(result.shape) > len(left.shape) or any(
            one == 1 and other not in (1, None)
            for one, other in zip(left.shape, result.shape, strict=True)
        )
        if grown:
            message = (
                f"an array of shape {shape_text(left.shape)} cannot become one of "
                f"{shape_text(result.shape)} in place"
            )
            raise MisfitError(SHAPES, message, f"write x = x {sign} y, which makes a new array")
    if left.dtype is None or result.dtype is None or not kind_of(result.dtype):
        return
    if kind_of(left.dtype) and not same_kind(result.dtype, left.dtype):
        message = f"an array of {left.dtype} cannot take up {result.dtype} in place"
        mend = f"write x = x {sign} y, or make it {result.dtype} from the start"
        raise MisfitError(KINDS, message, mend)
