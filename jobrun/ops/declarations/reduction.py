"""Declare the operators that reduce arrays, along an axis or to one number, with their type rules.

Such as ``sum``, ``mean`` and ``argmax``.
"""

from __future__ import annotations

from collections.abc import Callable

from jobrun.ops.abstract_values import (
    INDICES,
    KINDS,
    SHAPES,
    Arguments,
    Known,
    MisfitError,
    Rule,
    Shape,
    UnclearError,
    attempt,
    axis_of,
    clash,
    items_in,
    joint_shape,
    shape_text,
    sure,
    typed,
)
from jobrun.ops.declarations.elementwise import half, same
from jobrun.ops.definition import OpDef, numpy_op, ruled
from jobrun.ops.dtype_promotion import as_mean, as_sum, kind_of

# numpy's third argument by position is the dtype or 'out': whatever differs from function to
# function is given by name.
_PLAIN = "(a, axis=None, *, keepdims=False)"
_TYPED = "(a, axis=None, dtype=None, *, keepdims=False)"
_SPREAD = "(a, axis=None, dtype=None, *, ddof=0, keepdims=False)"
_RANKED = "(a, q, axis=None, *, method='linear', keepdims=False)"
_RUNNING = "(a, axis=None, dtype=None)"


_op = numpy_op
_REDUCTION = (
    _op("sum", _TYPED, "sum", "sum([[1, 2], [3, 4]], axis=0)"),
    _op("prod", _TYPED, "product", "prod([[1, 2], [3, 4]], axis=0)"),
    _op("mean", _TYPED, "mean", "mean([[1.0, 2.0], [3.0, 4.0]], axis=0)"),
    _op("std", _SPREAD, "standard deviation, over n - ddof", "std([1.0, 2.0, 4.0], ddof=1)"),
    _op("var", _SPREAD, "variance, over n - ddof", "var([1.0, 2.0, 4.0], ddof=1)"),
    _op("min", _PLAIN, "smallest item; nan wins", "min([[3, 1], [2, 4]], axis=1)"),
    _op("max", _PLAIN, "largest item; nan wins", "max([[3, 1], [2, 4]], axis=1)"),
    _op("ptp", _PLAIN, "largest minus smallest item", "ptp([3, 1, 7])"),
    _op("argmin", _PLAIN, "index of the first smallest item", "argmin([[3, 1], [2, 4]], axis=1)"),
    _op("argmax", _PLAIN, "index of the first largest item", "argmax([[3, 1], [2, 4]], axis=1)"),
    _op("any", _PLAIN, "whether any item is true", "any([False, True])"),
    _op("all", _PLAIN, "whether all items are true", "all([False, True])"),
    _op("count_nonzero", _PLAIN, "how many items are not 0", "count_nonzero([0, 1, 2])"),
    _op("median", _PLAIN, "middle item", "median([3.0, 1.0, 2.0])"),
    _op("percentile", _RANKED, "value below which q percent lie", "percentile([1.0, 2.0], 25)"),
    _op("quantile", _RANKED, "value below which the part q lies", "quantile([1.0, 2.0], 0.25)"),
    _op("nansum", _TYPED, "sum, nan left out", "nansum([1.0, nan])"),
    _op("nanprod", _TYPED, "product, nan left out", "nanprod([2.0, nan])"),
    _op("nanmean", _TYPED, "mean, nan left out", "nanmean([1.0, nan])"),
    _op("nanstd", _SPREAD, "standard deviation, nan left out", "nanstd([1.0, nan, 2.0])"),
    _op("nanvar", _SPREAD, "variance, nan left out", "nanvar([1.0, nan, 2.0])"),
    _op("nanmin", _PLAIN, "smallest item, nan left out", "nanmin([1.0, nan])"),
    _op("nanmax", _PLAIN, "largest item, nan left out", "nanmax([1.0, nan])"),
    _op("nanargmin", _PLAIN, "index of the smallest item, nan left out", "nanargmin([nan, 1.0])"),
    _op("nanargmax", _PLAIN, "index of the largest item, nan left out", "nanargmax([nan, 1.0])"),
    _op("nanmedian", _PLAIN, "middle item, nan left out", "nanmedian([1.0, nan, 2.0])"),
    _op("nanpercentile", _RANKED, "percentile, nan left out", "nanpercentile([1.0, nan], 25)"),
    _op("nanquantile", _RANKED, "quantile, nan left out", "nanquantile([1.0, nan], 0.25)"),
    _op("cumsum", _RUNNING, "running sum", "cumsum([1, 2, 3])"),
    _op("cumprod", _RUNNING, "running product", "cumprod([1, 2, 3])"),
    _op("nancumsum", _RUNNING, "running sum, nan left out", "nancumsum([1.0, nan, 2.0])"),
    _op("nancumprod", _RUNNING, "running product, nan left out", "nancumprod([1.0, nan, 2.0])"),
    # With n=0 numpy returns the argument itself.
    OpDef("diff", "(a, n=1, axis=-1)", "numpy:diff", "each item minus the one before, n times",
          "diff([1, 4, 9])", shares_memory=True),
    _op("ediff1d", "(ary)", "each item minus the one before, of all items", "ediff1d([1, 4, 9])"),
    _op("trapezoid", "(y, x=None, dx=1.0, axis=-1)", "integral by the trapezoidal rule",
        "trapezoid([0.0, 1.0, 4.0], dx=0.5)"),
    _op("allclose", "(a, b, rtol=1e-05, atol=1e-08, equal_nan=False)",
        "whether all items are equal up to rounding", "allclose([1.0], [1.0 + 1e-12])"),
    _op("array_equal", "(a1, a2, equal_nan=False)", "whether shapes and all items are equal",
        "array_equal([1, 2], [1, 2])"),
    _op("cov", "(m, y=None, rowvar=True, bias=False, ddof=None)", "covariance of the rows",
        "cov([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])"),
    _op("corrcoef", "(x, y=None, rowvar=True)", "correlation of the rows",
        "corrcoef([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])"),
    OpDef("logsumexp", "(x, axis=None, *, keepdims=False)",
          "jobrun.ops.numpy_implementations:logsumexp",
          "log(sum(exp(x))) without overflow", "logsumexp([1000.0, 1000.0])"),
    OpDef("softmax", "(x, axis=-1)", "jobrun.ops.numpy_implementations:softmax",
          "exp(x) over its sum, without overflow", "softmax([1000.0, 1001.0])"),
    OpDef("log_softmax", "(x, axis=-1)",
          "jobrun.ops.numpy_implementations:log_softmax",
          "log(softmax(x)), exact where that is tiny", "log_softmax([0.0, 1000.0])"),
)  # fmt: skip

_Dtype = Callable[[str], str | None]


def reduced(args: Arguments, name: str = "a") -> Shape:
    """Infer the shape of a reduction: without the reduced axes, or with length 1 (``keepdims``)."""
    shape = args.shape(name)
    keep = args.flag("keepdims")
    if args.has("ddof") and args.shape("ddof"):
        raise UnclearError
    axes = args.axes("axis", len(shape))
    reduced_axes = range(len(shape)) if axes is None else axes
    if keep:
        return tuple(1 if axis in reduced_axes else length for axis, length in enumerate(shape))
    return tuple(length for axis, length in enumerate(shape) if axis not in reduced_axes)


def _asked(result: _Dtype, name: str = "a") -> Callable[[Arguments], str | None]:
    """Build the dtype rule of a reduction: its ``dtype`` argument, else by the array's dtype."""

    def dtype(args: Arguments) -> str | None:
        return args.asked_dtype() if args.has("dtype") else result(args.dtype(name))

    return dtype


def _reduction(result: _Dtype, name: str = "a") -> Rule:
    return typed(_asked(result, name), lambda args: reduced(args, name))


def _spread(dtype: str) -> str | None:
    mean = as_mean(dtype)
    return None if mean is None else half(mean)


def _real_mean(dtype: str) -> str | None:
    return as_mean(dtype) if kind_of(dtype) in "biuf" else None


def _range(dtype: str) -> str | None:
    if dtype == "bool":
        raise MisfitError(KINDS, "bool has no difference", "convert it first: astype(x, int64)")
    return dtype


def _index(args: Arguments) -> Known:
    """Infer dtype and shape of reductions to an index: ``argmin``, ``argmax`` and similar."""
    return Known("int64", attempt(reduced, args))


def _counted(args: Arguments) -> Known:
    shape = reduced(args)
    # Without an axis, some versions of numpy return a Python int.
    return Known("int64" if shape else None, shape)


def _ranked(args: Arguments) -> Known:
    ranks = args.array("q")
    values = args.array("a")
    dtype = values.dtype if kind_of(values.dtype) == "f" and values.weak is False else None
    inner = attempt(reduced, args)
    # For an empty array some of these functions return a single nan, whatever the ranks.
    known = ranks.shape is not None and bool(values.shape is not None and items_in(values.shape))
    shape = (*sure(ranks.shape), *inner) if known and inner is not None else None
    return Known(dtype if ranks.weak and ranks.dtype == "float64" else None, shape)


def _running(args: Arguments) -> Shape:
    shape = args.shape("a")
    if not args.has("axis"):
        return (items_in(shape),)
    axis_of(args.integer("axis", 0), len(shape))
    return shape


def _shortened(args: Arguments) -> Shape:
    shape = args.shape("a")
    times = args.integer("n", 1)
    if times == 0:
        return shape
    if not shape:
        message = "a single number has no differences"
        raise MisfitError(INDICES, message, "give an array with an axis")
    axis = axis_of(args.integer("axis", -1), len(shape))
    length = shape[axis]
    if times < 0:
        raise UnclearError
    short = None if length is None else max(0, length - times)
    return (*shape[:axis], short, *shape[axis + 1 :])


def _differences(args: Arguments) -> Shape:
    count = items_in(args.shape("ary"))
    return (None if count is None else max(0, count - 1),)


def _close(args: Arguments) -> Known:
    joint_shape(args.shape("a"), args.shape("b"))
    return Known("bool", (), weak=True)


def _weights(args: Arguments) -> Shape:
    shape = args.shape("x")
    if args.has("axis"):
        axis_of(args.integer("axis", -1), len(shape))
    return shape


def _floats_alone(dtype: str) -> str | None:
    return dtype if kind_of(dtype) == "f" else None


def _integral(args: Arguments) -> Shape:
    shape = args.shape("y")
    if not shape or (args.has("dx") and args.shape("dx")):
        raise UnclearError
    axis = axis_of(args.integer("axis", -1), len(shape))
    if args.has("x"):
        points = args.shape("x")
        long = min(points[0] or 0, shape[axis] or 0) > 2 if len(points) == 1 else False
        if long and clash(points[0], shape[axis]):
            message = f"x {shape_text(points)} and axis {axis} of y {shape_text(shape)} differ"
            raise MisfitError(SHAPES, message, "give one x for each item of that axis")
        if len(points) > 1:
            raise UnclearError
    return (*shape[:axis], *shape[axis + 1 :])


def _rows(args: Arguments) -> Shape:
    shape = args.shape("m" if "m" in args.by_name else "x")
    if args.has("y") or args.has("rowvar") or len(shape) != 2:
        raise UnclearError
    return () if shape[0] == 1 else (sure(shape[0]), shape[0])


_RULES: dict[str, Rule] = {
    **{name: _reduction(as_sum) for name in ("sum", "prod", "nansum", "nanprod")},
    **{name: _reduction(as_mean) for name in ("mean", "nanmean")},
    **{name: _reduction(_spread) for name in ("std", "var", "nanstd", "nanvar")},
    **{name: _reduction(same) for name in ("max", "min", "nanmax", "nanmin")},
    **{name: _reduction(_real_mean) for name in ("median", "nanmedian")},
    **{name: _reduction(lambda _: "bool") for name in ("any", "all")},
    **dict.fromkeys(("argmin", "argmax", "nanargmin", "nanargmax"), _index),
    **dict.fromkeys(("percentile", "quantile", "nanpercentile", "nanquantile"), _ranked),
    **{name: typed(_asked(as_sum), _running)
       for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")},
    "ptp": _reduction(_range),
    "count_nonzero": _counted,
    "diff": typed(lambda args: args.dtype("a"), _shortened),
    "ediff1d": typed(lambda args: _range(args.dtype("ary")), _differences),
    "trapezoid": typed(lambda _: None, _integral),
    "allclose": _close,
    "array_equal": lambda _: Known("bool", (), weak=True),
    "cov": typed(lambda _: None, _rows),
    "corrcoef": typed(lambda _: None, _rows),
    "logsumexp": _reduction(_floats_alone, "x"),
    "softmax": typed(lambda args: _floats_alone(args.dtype("x")), _weights),
    "log_softmax": typed(lambda args: _floats_alone(args.dtype("x")), _weights),
}  # fmt: skip

REDUCTION = ruled(_REDUCTION, _RULES)
