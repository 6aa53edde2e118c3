"""Declare the operators that work element by element."""

from __future__ import annotations

from jobrun.ops.definition import OpDef, ruled
from jobrun.ops.type_rules.elementwise import ELEMENTWISE_RULES
from jobrun.ops.type_rules.index_functions import SELECTION_RULES


def _unary(name: str, doc: str, example: str, results: int = 1) -> OpDef:
    return OpDef(name, "(x, /)", f"numpy:{name}", doc, example, results=results)


def _binary(name: str, doc: str, example: str, results: int = 1) -> OpDef:
    return OpDef(name, "(x1, x2, /)", f"numpy:{name}", doc, example, results=results)


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
    # Of integers numpy gives back the very array.
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
    OpDef("sigmoid", "(x, /)", "jobrun.ops.implementations.non_numpy_functions:sigmoid",
          "1 / (1 + exp(-x)) without overflow", "sigmoid([-800.0, 0.0, 800.0])"),
    OpDef("relu", "(x, /)", "jobrun.ops.implementations.non_numpy_functions:relu",
          "each item, and 0 where it is negative", "relu([-1.0, 2.0])"),
)  # fmt: skip

ELEMENTWISE = ruled((*_UNARY, *_BINARY, *_OTHER), {**ELEMENTWISE_RULES, **SELECTION_RULES})
