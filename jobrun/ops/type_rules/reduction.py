"""Infer dtype and shape of reductions along axes, such as ``sum``, ``mean`` and ``argmax``."""

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
    axis_of,
    clash,
    items_in,
    joint_shape,
    shape_text,
    sure,
    typed,
)
from jobrun.ops.dtype_promotion import as_mean, as_sum, kind_of
from jobrun.ops.type_rules.elementwise import half

_Dtype = Callable[[str], str | None]


def reduced(given: Arguments, name: str = "a") -> Shape:
    """Infer the shape of a reduction: without the reduced axes, or with length 1 (``keepdims``)."""
    shape = given.shape(name)
    keep = given.flag("keepdims")
    if given.has("ddof") and given.shape("ddof"):
        raise UnclearError
    axes = given.axes("axis", len(shape))
    gone = range(len(shape)) if axes is None else axes
    lengths = ((1 if at in gone else length) for at, length in enumerate(shape))
    return tuple(lengths if keep else (one for at, one in enumerate(shape) if at not in gone))


def _asked(result: _Dtype, name: str = "a") -> Callable[[Arguments], str | None]:
    """Build the dtype rule of a reduction: its ``dtype`` argument, else by the array's dtype."""

    def dtype(given: Arguments) -> str | None:
        return given.asked_dtype() if given.has("dtype") else result(given.dtype(name))

    return dtype


def _reduction(result: _Dtype, name: str = "a") -> Rule:
    return typed(_asked(result, name), lambda given: reduced(given, name))


def _same(dtype: str) -> str:
    return dtype


def _spread(dtype: str) -> str | None:
    mean = as_mean(dtype)
    return None if mean is None else half(mean)


def _real_mean(dtype: str) -> str | None:
    return as_mean(dtype) if kind_of(dtype) in "biuf" else None


def _range(dtype: str) -> str | None:
    if dtype == "bool":
        raise MisfitError(KINDS, "bool has no difference", "convert it first: astype(x, int64)")
    return dtype


def _index(given: Arguments) -> Known:
    """Infer dtype and shape of reductions to an index: ``argmin``, ``argmax`` and similar."""
    return Known("int64", _attempted(reduced, given))


def _attempted(find: Callable[[Arguments], Shape], given: Arguments) -> Shape | None:
    try:
        return find(given)
    except UnclearError:
        return None


def _counted(given: Arguments) -> Known:
    shape = reduced(given)
    # Over all items it is a Python int in some versions of numpy.
    return Known("int64" if shape else None, shape)


def _ranked(given: Arguments) -> Known:
    ranks = given.array("q")
    values = given.array("a")
    dtype = values.dtype if kind_of(values.dtype) == "f" and values.weak is False else None
    inner = _attempted(reduced, given)
    # Of nothing at all some give one nan, whatever the ranks.
    known = ranks.shape is not None and bool(values.shape is not None and items_in(values.shape))
    shape = (*sure(ranks.shape), *inner) if known and inner is not None else None
    return Known(dtype if ranks.weak and ranks.dtype == "float64" else None, shape)


def _running(given: Arguments) -> Shape:
    shape = given.shape("a")
    if not given.has("axis"):
        return (items_in(shape),)
    axis_of(given.integer("axis", 0), len(shape))
    return shape


def _shortened(given: Arguments) -> Shape:
    shape = given.shape("a")
    times = given.integer("n", 1)
    if times == 0:
        return shape
    if not shape:
        message = "a single number has no differences"
        raise MisfitError(INDICES, message, "give an array with an axis")
    axis = axis_of(given.integer("axis", -1), len(shape))
    length = shape[axis]
    if times < 0:
        raise UnclearError
    short = None if length is None else max(0, length - times)
    return (*shape[:axis], short, *shape[axis + 1 :])


def _differences(given: Arguments) -> Shape:
    count = items_in(given.shape("ary"))
    return (None if count is None else max(0, count - 1),)


def _equal(given: Arguments) -> Known:
    del given
    return Known("bool", (), weak=True)


def _close(given: Arguments) -> Known:
    joint_shape(given.shape("a"), given.shape("b"))
    return Known("bool", (), weak=True)


def _weights(given: Arguments) -> Shape:
    shape = given.shape("x")
    if given.has("axis"):
        axis_of(given.integer("axis", -1), len(shape))
    return shape


def _floats_alone(dtype: str) -> str | None:
    return dtype if kind_of(dtype) == "f" else None


def _integral(given: Arguments) -> Shape:
    shape = given.shape("y")
    if not shape or (given.has("dx") and given.shape("dx")):
        raise UnclearError
    axis = axis_of(given.integer("axis", -1), len(shape))
    if given.has("x"):
        points = given.shape("x")
        long = min(points[0] or 0, shape[axis] or 0) > 2 if len(points) == 1 else False
        if long and clash(points[0], shape[axis]):
            message = f"x {shape_text(points)} and axis {axis} of y {shape_text(shape)} differ"
            raise MisfitError(SHAPES, message, "give one x for each item of that axis")
        if len(points) > 1:
            raise UnclearError
    return (*shape[:axis], *shape[axis + 1 :])


def _rows(given: Arguments) -> Shape:
    shape = given.shape("m" if "m" in given.given else "x")
    if given.has("y") or given.has("rowvar") or len(shape) != 2:
        raise UnclearError
    return () if shape[0] == 1 else (sure(shape[0]), shape[0])


REDUCTION_RULES: dict[str, Rule] = {
    **{name: _reduction(as_sum) for name in ("sum", "prod", "nansum", "nanprod")},
    **{name: _reduction(as_mean) for name in ("mean", "nanmean")},
    **{name: _reduction(_spread) for name in ("std", "var", "nanstd", "nanvar")},
    **{name: _reduction(_same) for name in ("max", "min", "nanmax", "nanmin")},
    **{name: _reduction(_real_mean) for name in ("median", "nanmedian")},
    **{name: _reduction(lambda _: "bool") for name in ("any", "all")},
    **dict.fromkeys(("argmin", "argmax", "nanargmin", "nanargmax"), _index),
    **dict.fromkeys(("percentile", "quantile", "nanpercentile", "nanquantile"), _ranked),
    **{name: typed(_asked(as_sum), _running)
       for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")},
    "ptp": _reduction(_range),
    "count_nonzero": _counted,
    "diff": typed(lambda given: given.dtype("a"), _shortened),
    "ediff1d": typed(lambda given: _range(given.dtype("ary")), _differences),
    "trapezoid": typed(lambda _: None, _integral),
    "allclose": _close,
    "array_equal": _equal,
    "cov": typed(lambda _: None, _rows),
    "corrcoef": typed(lambda _: None, _rows),
    "logsumexp": _reduction(_floats_alone, "x"),
    "softmax": typed(lambda given: _floats_alone(given.dtype("x")), _weights),
    "log_softmax": typed(lambda given: _floats_alone(given.dtype("x")), _weights),
}  # fmt: skip
