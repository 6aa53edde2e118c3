"""One rule per operator: the dtype and shape of its result, from what is known of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobrun.compile.dtypes import (
    UNKNOWN,
    Known,
    Shape,
    as_float,
    as_mean,
    as_sum,
    broadcast,
    dtype_name,
    elementwise,
    promote,
    scalar,
)
from jobrun.graph.expr import Const, Dtype, Expr, Sequence


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call, with a way to ask what is known of them."""

    positional: tuple[Expr, ...]
    named: dict[str, Expr]
    known: Callable[[Expr], Known]

    def expr(self, position: int, name: str) -> Expr | None:
        """The expression of an argument, given by position or by name."""
        if position < len(self.positional):
            return self.positional[position]
        return self.named.get(name)

    def get(self, position: int, name: str) -> Known:
        """What is known of an argument; nothing when it is not given."""
        expr = self.expr(position, name)
        return UNKNOWN if expr is None else self.known(expr)

    def dtype(self, position: int, default: str | None) -> str | None:
        """The dtype asked for, else the default; None when it is asked for in a way unknown."""
        expr = self.expr(position, "dtype")
        if expr is None:
            return default
        if isinstance(expr, Dtype):
            return dtype_name(expr.name)
        return (
            dtype_name(expr.value)
            if isinstance(expr, Const) and isinstance(expr.value, str)
            else None
        )

    def shape(self, position: int, name: str) -> Shape | None:
        """A shape argument: a length, or a sequence of them."""
        expr = self.expr(position, name)
        if expr is None:
            return None
        if isinstance(expr, Sequence):
            return tuple(int_value(self.known(item)) for item in expr.items)
        length = self.known(expr)
        return (int_value(length),) if length.shape == () else None


Rule = Callable[[Arguments], Known]


def int_value(known: Known) -> int | None:
    """The value, if it is a known int."""
    is_int = isinstance(known.value, int) and not isinstance(known.value, bool)
    return known.value if is_int and isinstance(known.value, int) else None


def _unary_float(arguments: Arguments) -> Known:
    value = arguments.get(0, "x")
    return Known(as_float(value.dtype), value.shape)


def _same(arguments: Arguments) -> Known:
    value = arguments.get(0, "x")
    return Known(value.dtype, value.shape)


def _binary(arguments: Arguments) -> Known:
    both = elementwise(arguments.get(0, "x1"), arguments.get(1, "x2"))
    return Known(both.dtype, both.shape)


def _binary_float(arguments: Arguments) -> Known:
    both = elementwise(arguments.get(0, "x1"), arguments.get(1, "x2"))
    return Known(as_float(both.dtype), both.shape)


def _test(arguments: Arguments) -> Known:
    return Known("bool", arguments.get(0, "x").shape)


def _comparison(arguments: Arguments) -> Known:
    return Known("bool", elementwise(arguments.get(0, "x1"), arguments.get(1, "x2")).shape)


def _reduced(arguments: Arguments) -> Shape | None:
    shape = arguments.get(0, "a").shape
    axis = arguments.expr(1, "axis")
    keep = arguments.named.get("keepdims")
    if shape is None or keep not in (None, Const(value=False), Const(value=True)):
        return None
    kept = keep == Const(value=True)
    if axis is None or axis == Const(None):
        return tuple(1 for _ in shape) if kept else ()
    position = int_value(arguments.known(axis))
    if position is None or not -len(shape) <= position < len(shape):
        return None
    position %= len(shape)
    return shape[:position] + ((1,) if kept else ()) + shape[position + 1 :]


def _reduction(result: Callable[[str | None], str | None]) -> Rule:
    def rule(arguments: Arguments) -> Known:
        dtype = result(arguments.get(0, "a").dtype)
        # Positional arguments after the axis differ from function to function.
        plain = len(arguments.positional) <= 2 and "dtype" not in arguments.named
        return Known(dtype, _reduced(arguments)) if plain else UNKNOWN

    return rule


def _filled(default: str | None, shape_name: str = "shape", dtype_at: int = 1) -> Rule:
    def rule(arguments: Arguments) -> Known:
        return Known(arguments.dtype(dtype_at, default), arguments.shape(0, shape_name))

    return rule


def _full(arguments: Arguments) -> Known:
    value = arguments.get(1, "fill_value")
    return Known(arguments.dtype(2, value.dtype), arguments.shape(0, "shape"))


def _like(arguments: Arguments) -> Known:
    value = arguments.get(0, "a")
    return Known(arguments.dtype(1, value.dtype), value.shape)


def _eye(arguments: Arguments) -> Known:
    rows = int_value(arguments.get(0, "N"))
    plain = len(arguments.positional) == 1 and not arguments.named
    return Known("float64", (rows, rows)) if plain else UNKNOWN


def _arange(arguments: Arguments) -> Known:
    values = [int_value(arguments.known(expr)) for expr in arguments.positional]
    if arguments.named or not values or None in values:
        return UNKNOWN
    whole = [value for value in values if value is not None]
    return UNKNOWN if whole[2:] == [0] else Known("int64", (len(range(*whole)),))


def _linspace(arguments: Arguments) -> Known:
    number = arguments.expr(2, "num")
    length = scalar(50) if number is None else arguments.known(number)
    scalars = arguments.get(0, "start").shape == () == arguments.get(1, "stop").shape
    plain = scalars and set(arguments.named) <= {"num"} and len(arguments.positional) <= 3
    return Known("float64", (int_value(length),)) if plain else UNKNOWN


def _astype(arguments: Arguments) -> Known:
    return Known(arguments.dtype(1, None), arguments.get(0, "a").shape)


def _where(arguments: Arguments) -> Known:
    if len(arguments.positional) != 3:
        return UNKNOWN
    condition, left, right = (arguments.known(expr) for expr in arguments.positional)
    both = broadcast(left.shape, right.shape)
    return Known(promote(left, right), broadcast(condition.shape, both))


def _length(arguments: Arguments) -> Known:
    shape = arguments.get(0, "a").shape
    return scalar(shape[0]) if shape and shape[0] is not None else Known("int64", (), weak=True)


def _reshape(arguments: Arguments) -> Known:
    value, shape = arguments.get(0, "a"), arguments.shape(1, "shape")
    fixed = shape is not None and all(length is not None and length >= 0 for length in shape)
    return Known(value.dtype, shape if fixed else None)


def _transpose(arguments: Arguments) -> Known:
    value = arguments.get(0, "a")
    plain = len(arguments.positional) == 1 and not arguments.named and value.shape is not None
    return Known(value.dtype, value.shape[::-1] if plain and value.shape is not None else None)


def _segment_sum(arguments: Arguments) -> Known:
    value = arguments.get(0, "values")
    number = int_value(arguments.get(2, "num_segments"))
    shape = None if value.shape is None else (number, *value.shape[1:])
    return Known(as_sum(value.dtype), shape)


def _cast(dtype: str) -> Rule:
    def rule(arguments: Arguments) -> Known:
        del arguments
        return Known(dtype, (), weak=True)

    return rule


_SAME = ("abs", "absolute", "negative", "square", "sign", "clip", "copy", "sort", "flip")
_FLOATS = (
    "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh"
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(_FLOATS.split(), _unary_float),
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), _binary),
    **dict.fromkeys(("divide", "arctan2", "hypot"), _binary_float),
    **dict.fromkeys(("isnan", "isinf", "isfinite", "logical_not"), _test),
    **dict.fromkeys(
        ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), _comparison
    ),
    **dict.fromkeys(("sum", "prod"), _reduction(as_sum)),
    **dict.fromkeys(("mean", "std", "var"), _reduction(as_mean)),
    **dict.fromkeys(("max", "min"), _reduction(lambda dtype: dtype)),
    **dict.fromkeys(("argmin", "argmax"), _reduction(lambda _: "int64")),
    **dict.fromkeys(("any", "all"), _reduction(lambda _: "bool")),
    **dict.fromkeys(("zeros", "ones"), _filled("float64")),
    **dict.fromkeys(("zeros_like", "ones_like"), _like),
    "full": _full,
    "eye": _eye,
    "arange": _arange,
    "linspace": _linspace,
    "astype": _astype,
    "where": _where,
    "len": _length,
    "reshape": _reshape,
    "transpose": _transpose,
    "segment_sum": _segment_sum,
    "int": _cast("int64"),
    "float": _cast("float64"),
    "bool": _cast("bool"),
}


def _drawn(size_at: int, dtype: str) -> Rule:
    def rule(arguments: Arguments) -> Known:
        if arguments.expr(size_at, "size") is None or "dtype" in arguments.named:
            return UNKNOWN
        return Known(dtype, arguments.shape(size_at, "size"))

    return rule


def _choice(arguments: Arguments) -> Known:
    pool = arguments.get(0, "a")
    dtype = "int64" if pool.shape == () else pool.dtype
    rest = pool.shape[1:] if pool.shape else ()
    size = arguments.shape(1, "size")
    plain = pool.shape is not None and size is not None and "axis" not in arguments.named
    return Known(dtype, (*size, *rest)) if plain and size is not None else UNKNOWN


def _permutation(arguments: Arguments) -> Known:
    value = arguments.get(0, "x")
    if value.shape == ():
        return Known("int64", (int_value(value),))
    return Known(value.dtype, value.shape)


DRAW_RULES: dict[str, Rule] = {
    "random": _drawn(0, "float64"),
    "standard_normal": _drawn(0, "float64"),
    "normal": _drawn(2, "float64"),
    "uniform": _drawn(2, "float64"),
    "integers": _drawn(2, "int64"),
    "choice": _choice,
    "permutation": _permutation,
}
