"""Infer dtype and shape of elementwise operators, such as ``+``, and elementwise functions."""

from __future__ import annotations

from collections.abc import Callable

from jobrun.ops.abstract_values import (
    KINDS,
    Arguments,
    Known,
    MisfitError,
    Rule,
    joint_shape,
    promote,
    scalar,
    sure,
    typed,
)
from jobrun.ops.dtype_promotion import as_float, join_dtypes, kind_of

_Dtype = Callable[[str], str | None]
Pair = Callable[[Known, Known], str | None]


def wrong_kind(dtype: str, what: str, mend: str) -> MisfitError:
    """Build the error for an elementwise operator that does not exist for a dtype."""
    return MisfitError(KINDS, f"{dtype} has no {what}", mend)


def _only(kinds: str, result: _Dtype, mend: str) -> _Dtype:
    """Restrict an elementwise dtype rule to some kinds of dtypes; other kinds are refused."""

    def find(dtype: str) -> str | None:
        if kind_of(dtype) not in kinds:
            raise wrong_kind(dtype, "such function", mend)
        return result(dtype)

    return find


def half(dtype: str) -> str:
    """Infer the dtype of the real part, elementwise, of a complex dtype; others are unchanged."""
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def _same(dtype: str) -> str:
    return dtype


def _rounded(dtype: str) -> str | None:
    # What becomes of integers differs between versions of numpy.
    return dtype if kind_of(dtype) in "fc" else None


def _sinc(dtype: str) -> str:
    return dtype if kind_of(dtype) in "fc" else "float64"


def _rectified(dtype: str) -> str | None:
    return promote(Known(dtype, ()), scalar(0))


def _not_of_bool(result: _Dtype) -> _Dtype:
    return lambda dtype: result(dtype) if kind_of(dtype) in "iuf" else None


_NO_COMPLEX = "take abs(x), real(x) or imag(x)"
_NO_BOOL = "convert it first: astype(x, int64); a bool is turned over by ~"
_ONLY_BITS = "convert it first: astype(x, int64)"
_UNARY: dict[str, tuple[str, _Dtype]] = {
    "floats": (
        "exp exp2 expm1 log log2 log10 log1p sqrt rint sin cos tan arcsin arccos arctan sinh cosh "
        "tanh arcsinh arccosh arctanh", as_float),
    "real floats": ("cbrt fabs deg2rad rad2deg", _only("biuf", as_float, _NO_COMPLEX)),
    "same": ("nan_to_num", _same),
    "computed": ("square conj reciprocal", lambda dtype: "int8" if dtype == "bool" else dtype),
    "numbers": ("negative sign", _only("iufc", _same, _NO_BOOL)),
    "sizes": ("abs absolute", half),
    "rounded": ("floor ceil trunc", _only("biuf", _rounded, _NO_COMPLEX)),
    "round": ("round", lambda dtype: dtype if kind_of(dtype) in "iufc" else None),
    "bits": ("invert", _only("biu", _same, _ONLY_BITS)),
    "signs": ("signbit", _only("biuf", lambda _: "bool", _NO_COMPLEX)),
    "tests": ("isnan isinf isfinite logical_not", lambda _: "bool"),
    "sinc": ("sinc", _sinc),
    "angle": ("angle", lambda dtype: half(dtype) if kind_of(dtype) in "fc" else None),
    "sigmoid": ("sigmoid", _not_of_bool(as_float)),
    "relu": ("relu", _rectified),
}  # fmt: skip


def unary(result: _Dtype, name: str) -> Rule:
    """Build the type rule of an elementwise function whose only array argument has this name."""
    return typed(lambda given: result(given.dtype(name)), lambda given: given.shape(name))


def sum_like(left: Known, right: Known) -> str | None:
    """Infer the dtype of elementwise operators that only need a common one, as ``+`` and ``*``."""
    return promote(left, right)


def difference(left: Known, right: Known) -> str | None:
    """Infer the dtype of elementwise ``left - right``."""
    dtype = promote(left, right)
    if dtype == "bool" and not (left.weak and right.weak):
        raise wrong_kind("bool", "difference", "write a ^ b, or convert first: astype(a, int64)")
    return dtype


def quotient(left: Known, right: Known) -> str | None:
    """Infer the dtype of elementwise ``left / right``."""
    dtype = promote(left, right)
    return "float64" if kind_of(dtype) in ("b", "i", "u") else dtype


def whole_quotient(left: Known, right: Known) -> str | None:
    """Infer the dtype of elementwise ``left // right`` and ``left % right``."""
    dtype = promote(left, right)
    if dtype is not None and kind_of(dtype) == "c":
        raise wrong_kind(dtype, "whole quotient or remainder", "take real(x) or abs(x)")
    return "int8" if dtype == "bool" else dtype


def power(left: Known, right: Known) -> str | None:
    """Infer the dtype of elementwise ``left ** right``."""
    dtype = promote(left, right)
    return "int8" if dtype == "bool" else dtype


def bits(left: Known, right: Known) -> str | None:
    """Infer the dtype of elementwise ``left & right``, ``|`` and ``^``."""
    for one in (left, right):
        if one.dtype is not None and kind_of(one.dtype) in ("f", "c"):
            raise wrong_kind(one.dtype, "bits", "compare first, or convert: astype(x, int64)")
    dtype = promote(left, right)
    return dtype if kind_of(dtype) in ("b", "i", "u") else None


def shifted(left: Known, right: Known) -> str | None:
    """Infer the dtype of elementwise ``left << right`` and ``left >> right``."""
    dtype = bits(left, right)
    return "int8" if dtype == "bool" else dtype


def _float_power(left: Known, right: Known) -> str | None:
    dtype = promote(left, right)
    if dtype is None:
        return None
    return "complex128" if kind_of(dtype) == "c" else "float64"


def _real_floats(left: Known, right: Known) -> str | None:
    for one in (left, right):
        if one.dtype is not None and kind_of(one.dtype) == "c":
            raise wrong_kind(one.dtype, "such function", _NO_COMPLEX)
    if None in (left.weak, right.weak):
        return None
    if left.weak != right.weak:
        return as_float(promote(left, right))
    return join_dtypes((as_float(left.dtype), as_float(right.dtype)))


def _divisors(left: Known, right: Known) -> str | None:
    for one in (left, right):
        if one.dtype is not None and kind_of(one.dtype) in ("f", "c"):
            raise wrong_kind(one.dtype, "common divisors", _ONLY_BITS)
    dtype = promote(left, right)
    both_whole = all(kind_of(one.dtype) in ("i", "u") for one in (left, right))
    return dtype if both_whole and kind_of(dtype) in ("i", "u") else None


def _scaled(left: Known, right: Known) -> str | None:
    sure_of_it = kind_of(right.dtype) in ("b", "i") and left.weak is False
    return as_float(left.dtype) if sure_of_it else None


def _truth(left: Known, right: Known) -> str | None:
    del left, right
    return "bool"


_BINARY: tuple[tuple[str, Pair], ...] = (
    ("add multiply maximum minimum fmax fmin", sum_like),
    ("subtract", difference),
    ("divide true_divide", quotient),
    ("floor_divide mod remainder fmod", whole_quotient),
    ("power", power),
    ("float_power", _float_power),
    ("hypot arctan2 logaddexp logaddexp2 copysign nextafter heaviside", _real_floats),
    ("ldexp", _scaled),
    ("gcd lcm", _divisors),
    ("bitwise_and bitwise_or bitwise_xor", bits),
    ("left_shift right_shift", shifted),
    ("equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor",
     _truth),
)  # fmt: skip


def binary(result: Pair, first: str = "x1", second: str = "x2") -> Rule:
    """Build the type rule of an elementwise function of two arrays."""
    return typed(
        lambda given: result(given.array(first), given.array(second)),
        lambda given: joint_shape(given.shape(first), given.shape(second)),
    )


def _twice(rule: Rule) -> Rule:
    def twice(given: Arguments) -> tuple[Known, ...]:
        one = rule(given)
        return (one, one) if isinstance(one, Known) else one

    return twice


def _frexp(given: Arguments) -> tuple[Known, ...]:
    mantissa = unary(_only("biuf", as_float, _NO_COMPLEX), "x")(given)
    known = mantissa if isinstance(mantissa, Known) else mantissa[0]
    return (known, Known("int32", known.shape))


def _where(given: Arguments) -> Known:
    values = binary(sum_like, "x", "y")(given)
    dtype, shape = (values.dtype, values.shape) if isinstance(values, Known) else (None, None)
    condition = given.array("condition").shape
    if shape is None or condition is None:
        return Known(dtype)
    return Known(dtype, joint_shape(condition, shape))


def _clip(given: Arguments) -> Known:
    known = given.array("a")
    shape = sure(known.shape)
    # Of three dtypes the pairs do not decide: only where the limits give way is it sure.
    is_sure = kind_of(known.dtype) in ("i", "u", "f") and known.weak is False
    for limit in ("a_min", "a_max"):
        if given.has(limit):
            is_sure = is_sure and promote(known, given.array(limit)) == known.dtype
            shape = joint_shape(shape, given.shape(limit))
    return Known(known.dtype if is_sure else None, shape)


def _part(given: Arguments) -> Known:
    known = given.array("val")
    # Of a Python number it is one.
    dtype = None if known.weak is not False or not kind_of(known.dtype) else half(str(known.dtype))
    return Known(dtype, known.shape)


def _close(given: Arguments) -> Known:
    shape = joint_shape(given.shape("a"), given.shape("b"))
    plain = not any(given.has(name) and given.shape(name) for name in ("rtol", "atol"))
    return Known("bool", shape if plain else None)


def _named(name: str) -> str:
    return {"round": "a", "angle": "z"}.get(name, "x")


ELEMENTWISE_RULES: dict[str, Rule] = {
    **{name: unary(result, _named(name)) for names, result in _UNARY.values()
       for name in names.split()},
    **{name: binary(result) for names, result in _BINARY for name in names.split()},
    "modf": _twice(unary(_only("biuf", as_float, _NO_COMPLEX), "x")),
    "frexp": _frexp,
    "divmod": _twice(binary(whole_quotient)),
    "where": _where,
    "clip": _clip,
    "real": _part,
    "imag": _part,
    "isclose": _close,
}  # fmt: skip
