"""Declare the operators that work element by element, with rules for dtype and shape."""

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
from jobrun.ops.declarations.index_functions import SELECTION_RULES
from jobrun.ops.definition import OpDef, numpy_op, ruled
from jobrun.ops.dtype_promotion import as_float, join_dtypes, kind_of


def _unary(name: str, doc: str, example: str, results: int = 1) -> OpDef:
    return numpy_op(name, "(x, /)", doc, example, results)


def _binary(name: str, doc: str, example: str, results: int = 1) -> OpDef:
    return numpy_op(name, "(x1, x2, /)", doc, example, results)


_UNARY = (
    _unary("exp", "e to the power of each item", "exp([0.0, 1.0])"),
    _unary("exp2", "2 to the power of each item", "exp2([0.0, 3.0])"),
    _unary("expm1", "exp(x) - 1, exact near 0", "expm1([1e-9, 1.0])"),
    _unary("log", "natural logarithm of each item", "log([1.0, 2.0])"),
    _unary("log2", "logarithm to base 2", "log2([1.0, 8.0])"),
    _unary("log10", "logarithm to base 10", "log10([1.0, 100.0])"),
    _unary("log1p", "log(1 + x), exact near 0", "log1p([1e-9, 1.0])"),
    _unary("sqrt", "square root of each item", "sqrt([4.0, 9.0])"),
    _unary("cbrt", "cube root of each item", "cbrt([8.0, 27.0])"),
    _unary("square", "each item times itself", "square([2.0, 3.0])"),
    _unary("reciprocal", "1 / x; of integers, whole-number division", "reciprocal([2.0, 4.0])"),
    _unary("abs", "absolute value of each item", "abs([-1.5, 2.0])"),
    _unary("absolute", "absolute value of each item; the same as abs", "absolute([-1, 2])"),
    _unary("fabs", "absolute value of each item as a float", "fabs([-1, 2])"),
    _unary("negative", "minus each item", "negative([1, -2])"),
    _unary("sign", "-1, 0 or 1 by the sign of each item", "sign([-2.0, 0.0, 3.0])"),
    _unary("signbit", "whether the sign of each item is minus", "signbit([-0.0, 1.0])"),
    _unary("floor", "largest whole number not above each item", "floor([1.5, -1.5])"),
    _unary("ceil", "smallest whole number not below each item", "ceil([1.5, -1.5])"),
    _unary("trunc", "each item without its fraction", "trunc([1.5, -1.5])"),
    _unary("rint", "nearest whole number, halves to even", "rint([0.5, 1.5])"),
    _unary("modf", "fraction and whole part of each item", "modf([1.5, -2.25])", 2),
    _unary("frexp", "mantissa and exponent of 2 of each item", "frexp([8.0, 0.3])", 2),
    _unary("sin", "sine, argument in radians", "sin([0.0, pi / 2])"),
    _unary("cos", "cosine, argument in radians", "cos([0.0, pi])"),
    _unary("tan", "tangent, argument in radians", "tan([0.0, pi / 4])"),
    _unary("arcsin", "inverse sine, in radians", "arcsin([0.0, 1.0])"),
    _unary("arccos", "inverse cosine, in radians", "arccos([0.0, 1.0])"),
    _unary("arctan", "inverse tangent, in radians", "arctan([0.0, 1.0])"),
    _unary("sinh", "hyperbolic sine", "sinh([0.0, 1.0])"),
    _unary("cosh", "hyperbolic cosine", "cosh([0.0, 1.0])"),
    _unary("tanh", "hyperbolic tangent", "tanh([0.0, 1.0])"),
    _unary("arcsinh", "inverse hyperbolic sine", "arcsinh([0.0, 1.0])"),
    _unary("arccosh", "inverse hyperbolic cosine", "arccosh([1.0, 2.0])"),
    _unary("arctanh", "inverse hyperbolic tangent", "arctanh([0.0, 0.5])"),
    _unary("deg2rad", "degrees to radians", "deg2rad([180.0])"),
    _unary("rad2deg", "radians to degrees", "rad2deg([pi])"),
    _unary("isnan", "whether each item is not a number", "isnan([nan, 1.0])"),
    _unary("isinf", "whether each item is infinite", "isinf([inf, 1.0])"),
    _unary("isfinite", "whether each item is a finite number", "isfinite([inf, nan, 1.0])"),
    _unary("logical_not", "whether each item is false or 0", "logical_not([True, False])"),
    _unary("invert", "each bool or bit turned over", "invert([True, False])"),
    _unary("conj", "complex conjugate of each item", "conj([1 + 2j])"),
    _unary("sinc", "sin(pi x) / (pi x), and 1 at 0", "sinc([0.0, 0.5])"),
)

_BINARY = (
    _binary("add", "x1 + x2", "add([1, 2], 3)"),
    _binary("subtract", "x1 - x2", "subtract([1, 2], 3)"),
    _binary("multiply", "x1 * x2", "multiply([1, 2], 3)"),
    _binary("divide", "x1 / x2", "divide([1, 2], 4)"),
    _binary("true_divide", "x1 / x2; the same as divide", "true_divide([1, 2], 4)"),
    _binary("floor_divide", "x1 // x2", "floor_divide([7, -7], 2)"),
    _binary("mod", "x1 % x2, with the sign of x2", "mod([7, -7], 3)"),
    _binary("remainder", "x1 % x2; the same as mod", "remainder([7, -7], 3)"),
    _binary("fmod", "what is left of x1 / x2, with the sign of x1", "fmod([7, -7], 3)"),
    _binary("divmod", "x1 // x2 and x1 % x2", "divmod([7, -7], 3)", 2),
    _binary("power", "x1 to the power of x2", "power([2.0, 3.0], 2)"),
    _binary("float_power", "x1 to the power of x2, in floats", "float_power([2, 3], -1)"),
    _binary("maximum", "the larger of two, item by item; nan wins", "maximum([1, 5], [3, 2])"),
    _binary("minimum", "the smaller of two, item by item; nan wins", "minimum([1, 5], [3, 2])"),
    _binary("fmax", "the larger of two, item by item; nan loses", "fmax([nan, 5.0], [3.0, 2.0])"),
    _binary("fmin", "the smaller of two, item by item; nan loses", "fmin([nan, 5.0], [3.0, 2.0])"),
    _binary("hypot", "sqrt(x1**2 + x2**2) without overflow", "hypot([3.0], [4.0])"),
    _binary("arctan2", "angle of the point (x2, x1), in radians", "arctan2([1.0], [-1.0])"),
    _binary("logaddexp", "log(exp(x1) + exp(x2)) without overflow", "logaddexp(0.0, [1000.0])"),
    _binary("logaddexp2", "log2(2**x1 + 2**x2) without overflow", "logaddexp2(0.0, [1000.0])"),
    _binary("copysign", "x1 with the sign of x2", "copysign([1.0, 2.0], -1.0)"),
    _binary("nextafter", "the float next to x1 towards x2", "nextafter([1.0], 2.0)"),
    _binary("ldexp", "x1 times 2 to the power of x2", "ldexp([0.5], 3)"),
    _binary("heaviside", "0 below 0, x2 at 0, 1 above", "heaviside([-1.0, 0.0, 1.0], 0.5)"),
    _binary("gcd", "greatest common divisor", "gcd([12, 18], 8)"),
    _binary("lcm", "least common multiple", "lcm([4, 6], 10)"),
    _binary("equal", "x1 == x2", "equal([1, 2], 2)"),
    _binary("not_equal", "x1 != x2", "not_equal([1, 2], 2)"),
    _binary("less", "x1 < x2", "less([1, 2], 2)"),
    _binary("less_equal", "x1 <= x2", "less_equal([1, 2], 2)"),
    _binary("greater", "x1 > x2", "greater([1, 2], 1)"),
    _binary("greater_equal", "x1 >= x2", "greater_equal([1, 2], 2)"),
    _binary("logical_and", "both, item by item", "logical_and([True, False], True)"),
    _binary("logical_or", "one or both, item by item", "logical_or([True, False], False)"),
    _binary("logical_xor", "exactly one, item by item", "logical_xor([True, False], True)"),
    _binary("bitwise_and", "x1 & x2", "bitwise_and([6, 5], 3)"),
    _binary("bitwise_or", "x1 | x2", "bitwise_or([6, 5], 3)"),
    _binary("bitwise_xor", "x1 ^ x2", "bitwise_xor([6, 5], 3)"),
    _binary("left_shift", "x1 << x2", "left_shift([1, 2], 3)"),
    _binary("right_shift", "x1 >> x2", "right_shift([8, 16], 3)"),
)

_OTHER = (
    OpDef("clip", "(a, a_min=None, a_max=None, /)", "numpy:clip",
          "each item, brought into [a_min, a_max]; None is no limit", "clip([-1, 5], 0, 3)"),
    # For integers numpy returns the argument itself.
    OpDef("round", "(a, decimals=0)", "numpy:round",
          "each item to that many decimals, halves to even", "round([1.25, 2.5], 1)",
          shares_memory=True),
    OpDef("where", "(condition, x, y, /)", "numpy:where",
          "x where the condition holds, else y; both are computed", "where([True, False], 1, 2)"),
    OpDef("select", "(condlist, choicelist, default=0)", "numpy:select",
          "item by item the choice of the first condition that holds",
          "a = arange(4); select([a < 1, a > 2], [a, a * 10], -1)"),
    OpDef("nan_to_num", "(x, *, nan=0.0, posinf=None, neginf=None)", "numpy:nan_to_num",
          "nan and infinities replaced by numbers", "nan_to_num([nan, inf, 1.0])"),
    OpDef("isclose", "(a, b, rtol=1e-05, atol=1e-08, equal_nan=False)", "numpy:isclose",
          "whether items are equal up to rounding", "isclose([1.0], [1.0 + 1e-12])"),
    OpDef("real", "(val)", "numpy:real", "real part of each item", "real([1 + 2j])",
          shares_memory=True),
    OpDef("imag", "(val)", "numpy:imag", "imaginary part of each item", "imag([1 + 2j])",
          shares_memory=True),
    OpDef("angle", "(z, deg=False)", "numpy:angle", "angle of each complex item", "angle([1j])"),
    OpDef("sigmoid", "(x, /)", "jobrun.ops.numpy_implementations:sigmoid",
          "1 / (1 + exp(-x)) without overflow", "sigmoid([-800.0, 0.0, 800.0])"),
    OpDef("relu", "(x, /)", "jobrun.ops.numpy_implementations:relu",
          "each item, and 0 where it is negative", "relu([-1.0, 2.0])"),
)  # fmt: skip

_Dtype = Callable[[str], str | None]
Pair = Callable[[Known, Known], str | None]


def wrong_kind(dtype: str, noun: str, mend: str) -> MisfitError:
    """Build the error for a dtype that an elementwise operator does not support."""
    return MisfitError(KINDS, f"{dtype} has no {noun}", mend)


def _only(kinds: str, result: _Dtype, mend: str) -> _Dtype:
    """Restrict an elementwise operator's dtype rule to the given dtype kinds, such as ``iuf``."""

    def find(dtype: str) -> str | None:
        if kind_of(dtype) not in kinds:
            raise wrong_kind(dtype, "such function", mend)
        return result(dtype)

    return find


def half(dtype: str) -> str:
    """Infer the dtype of elementwise ``abs`` and ``real``: float of complex, else the same."""
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def same(dtype: str) -> str:
    """Infer the dtype of elementwise operators that keep the dtype of their operand."""
    return dtype


def _rounded(dtype: str) -> str | None:
    # The result for integers differs between versions of numpy.
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
_UNARY_DTYPES: dict[str, tuple[str, _Dtype]] = {
    "floats": (
        "exp exp2 expm1 log log2 log10 log1p sqrt rint sin cos tan arcsin arccos arctan sinh cosh "
        "tanh arcsinh arccosh arctanh", as_float),
    "real floats": ("cbrt fabs deg2rad rad2deg", _only("biuf", as_float, _NO_COMPLEX)),
    "same": ("nan_to_num", same),
    "computed": ("square conj reciprocal", lambda dtype: "int8" if dtype == "bool" else dtype),
    "numbers": ("negative sign", _only("iufc", same, _NO_BOOL)),
    "sizes": ("abs absolute", half),
    "rounded": ("floor ceil trunc", _only("biuf", _rounded, _NO_COMPLEX)),
    "round": ("round", lambda dtype: dtype if kind_of(dtype) in "iufc" else None),
    "bits": ("invert", _only("biu", same, _ONLY_BITS)),
    "signs": ("signbit", _only("biuf", lambda _: "bool", _NO_COMPLEX)),
    "tests": ("isnan isinf isfinite logical_not", lambda _: "bool"),
    "sinc": ("sinc", _sinc),
    "angle": ("angle", lambda dtype: half(dtype) if kind_of(dtype) in "fc" else None),
    "sigmoid": ("sigmoid", _not_of_bool(as_float)),
    "relu": ("relu", _rectified),
}  # fmt: skip


def unary(result: _Dtype, name: str) -> Rule:
    """Build the type rule of an elementwise function of one array."""
    return typed(lambda args: result(args.dtype(name)), lambda args: args.shape(name))


def sum_like(lhs: Known, rhs: Known) -> str | None:
    """Infer the common dtype that elementwise operators such as ``+`` and ``*`` give."""
    return promote(lhs, rhs)


def difference(lhs: Known, rhs: Known) -> str | None:
    """Infer the dtype of elementwise ``lhs - rhs``."""
    dtype = promote(lhs, rhs)
    if dtype == "bool" and not (lhs.weak and rhs.weak):
        raise wrong_kind("bool", "difference", "write a ^ b, or convert first: astype(a, int64)")
    return dtype


def quotient(lhs: Known, rhs: Known) -> str | None:
    """Infer the dtype of elementwise ``lhs / rhs``."""
    dtype = promote(lhs, rhs)
    return "float64" if kind_of(dtype) in ("b", "i", "u") else dtype


def whole_quotient(lhs: Known, rhs: Known) -> str | None:
    """Infer the dtype of elementwise ``lhs // rhs`` and ``lhs % rhs``."""
    dtype = promote(lhs, rhs)
    if dtype is not None and kind_of(dtype) == "c":
        raise wrong_kind(dtype, "whole quotient or remainder", "take real(x) or abs(x)")
    return "int8" if dtype == "bool" else dtype


def power(lhs: Known, rhs: Known) -> str | None:
    """Infer the dtype of elementwise ``lhs ** rhs``."""
    dtype = promote(lhs, rhs)
    return "int8" if dtype == "bool" else dtype


def bits(lhs: Known, rhs: Known) -> str | None:
    """Infer the dtype of elementwise ``lhs & rhs``, ``|`` and ``^``."""
    for operand in (lhs, rhs):
        if operand.dtype is not None and kind_of(operand.dtype) in ("f", "c"):
            raise wrong_kind(operand.dtype, "bits", "compare first, or convert: astype(x, int64)")
    dtype = promote(lhs, rhs)
    return dtype if kind_of(dtype) in ("b", "i", "u") else None


def shifted(lhs: Known, rhs: Known) -> str | None:
    """Infer the dtype of elementwise ``lhs << rhs`` and ``lhs >> rhs``."""
    dtype = bits(lhs, rhs)
    return "int8" if dtype == "bool" else dtype


def _float_power(lhs: Known, rhs: Known) -> str | None:
    dtype = promote(lhs, rhs)
    if dtype is None:
        return None
    return "complex128" if kind_of(dtype) == "c" else "float64"


def _real_floats(lhs: Known, rhs: Known) -> str | None:
    for operand in (lhs, rhs):
        if operand.dtype is not None and kind_of(operand.dtype) == "c":
            raise wrong_kind(operand.dtype, "such function", _NO_COMPLEX)
    if None in (lhs.weak, rhs.weak):
        return None
    if lhs.weak != rhs.weak:
        return as_float(promote(lhs, rhs))
    return join_dtypes((as_float(lhs.dtype), as_float(rhs.dtype)))


def _divisors(lhs: Known, rhs: Known) -> str | None:
    for operand in (lhs, rhs):
        if operand.dtype is not None and kind_of(operand.dtype) in ("f", "c"):
            raise wrong_kind(operand.dtype, "common divisors", _ONLY_BITS)
    dtype = promote(lhs, rhs)
    both_whole = all(kind_of(operand.dtype) in ("i", "u") for operand in (lhs, rhs))
    return dtype if both_whole and kind_of(dtype) in ("i", "u") else None


def _scaled(lhs: Known, rhs: Known) -> str | None:
    sure_of_it = kind_of(rhs.dtype) in ("b", "i") and lhs.weak is False
    return as_float(lhs.dtype) if sure_of_it else None


def _truth(lhs: Known, rhs: Known) -> str | None:
    del lhs, rhs
    return "bool"


_BINARY_DTYPES: tuple[tuple[str, Pair], ...] = (
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
        lambda args: result(args.array(first), args.array(second)),
        lambda args: joint_shape(args.shape(first), args.shape(second)),
    )


def _twice(rule: Rule) -> Rule:
    def twice(args: Arguments) -> tuple[Known, ...]:
        known = rule(args)
        return (known, known) if isinstance(known, Known) else known

    return twice


def _frexp(args: Arguments) -> tuple[Known, ...]:
    mantissa = unary(_only("biuf", as_float, _NO_COMPLEX), "x")(args)
    known = mantissa if isinstance(mantissa, Known) else mantissa[0]
    return (known, Known("int32", known.shape))


def _where(args: Arguments) -> Known:
    values = binary(sum_like, "x", "y")(args)
    dtype, shape = (values.dtype, values.shape) if isinstance(values, Known) else (None, None)
    condition = args.array("condition").shape
    if shape is None or condition is None:
        return Known(dtype)
    return Known(dtype, joint_shape(condition, shape))


def _clip(args: Arguments) -> Known:
    known = args.array("a")
    shape = sure(known.shape)
    # The join of three dtypes does not follow from pairs. It is certain only where both limits
    # promote to the array's dtype.
    is_sure = kind_of(known.dtype) in ("i", "u", "f") and known.weak is False
    for limit in ("a_min", "a_max"):
        if args.has(limit):
            is_sure = is_sure and promote(known, args.array(limit)) == known.dtype
            shape = joint_shape(shape, args.shape(limit))
    return Known(known.dtype if is_sure else None, shape)


def _part(args: Arguments) -> Known:
    known = args.array("val")
    # The part of a Python number is a Python number.
    dtype = None if known.weak is not False or not kind_of(known.dtype) else half(str(known.dtype))
    return Known(dtype, known.shape)


def _close(args: Arguments) -> Known:
    shape = joint_shape(args.shape("a"), args.shape("b"))
    plain = not any(args.has(name) and args.shape(name) for name in ("rtol", "atol"))
    return Known("bool", shape if plain else None)


def _named(name: str) -> str:
    return {"round": "a", "angle": "z"}.get(name, "x")


_RULES: dict[str, Rule] = {
    **{name: unary(result, _named(name)) for names, result in _UNARY_DTYPES.values()
       for name in names.split()},
    **{name: binary(result) for names, result in _BINARY_DTYPES for name in names.split()},
    "modf": _twice(unary(_only("biuf", as_float, _NO_COMPLEX), "x")),
    "frexp": _frexp,
    "divmod": _twice(binary(whole_quotient)),
    "where": _where,
    "clip": _clip,
    "real": _part,
    "imag": _part,
    "isclose": _close,
}  # fmt: skip

ELEMENTWISE = ruled((*_UNARY, *_BINARY, *_OTHER), {**_RULES, **SELECTION_RULES})
