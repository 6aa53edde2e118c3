"""Declare the operators that sort, search, select and count, with rules for dtype and shape."""

from __future__ import annotations

from jobrun.ops.abstract_values import (
    KINDS,
    SHAPES,
    Arguments,
    Known,
    MisfitError,
    Rule,
    Shape,
    UnclearError,
    axis_of,
    integer,
    items_in,
    promote,
    shape_text,
    sure,
    typed,
)
from jobrun.ops.declarations.index_functions import INDEX_RULES
from jobrun.ops.definition import MANY, numpy_op, ruled
from jobrun.ops.dtype_promotion import kind_of

_op = numpy_op
_SEARCHING = (
    _op("sort", "(a, axis=-1, *, kind=None)", "in rising order", "sort([3, 1, 2])"),
    _op("argsort", "(a, axis=-1, *, kind=None)",
        "indices that sort; kind='stable' keeps equal items in order", "argsort([3, 1, 2])"),
    _op("lexsort", "(keys, axis=-1)", "indices that sort by several keys, the last one first",
        "lexsort([[1, 2, 3], [0, 1, 0]])"),
    _op("partition", "(a, kth, axis=-1)", "with the kth smallest item in its place",
        "partition([3, 1, 2], 1)"),
    _op("argpartition", "(a, kth, axis=-1)", "indices that partition",
        "argpartition([3, 1, 2], 1)"),
    _op("searchsorted", "(a, v, side='left')", "where v belongs in a sorted row",
        "searchsorted([1, 3, 5], 4)"),
    _op("digitize", "(x, bins, right=False)", "the bin of each item",
        "digitize([0.5, 2.5], [1.0, 2.0])"),
    _op("unique",
        "(ar, return_index=False, return_inverse=False, return_counts=False, axis=None)",
        "each value once, sorted", "unique([3, 1, 3])", results=MANY),
    _op("nonzero", "(a)", "indices of items that are not 0, one row per axis",
        "nonzero([0, 2, 3])", results=MANY),
    _op("flatnonzero", "(a)", "indices of items that are not 0, in the flattened array",
        "flatnonzero([0, 2, 3])"),
    _op("argwhere", "(a)", "indices of items that are not 0, one row per item",
        "argwhere([0, 2, 3])"),
    _op("take", "(a, indices, axis=None, *, mode='raise')", "items at indices",
        "take([10, 20, 30], [2, 0])"),
    _op("take_along_axis", "(arr, indices, axis)", "items at indices, row by row",
        "take_along_axis(array([[3, 1], [2, 4]]), array([[1], [0]]), 1)"),
    _op("compress", "(condition, a, axis=None)", "items whose condition holds",
        "compress([True, False], [1, 2])"),
    _op("choose", "(a, choices, *, mode='raise')", "item by item the choice of that number",
        "choose([0, 1], [[1, 2], [3, 4]])"),
    _op("isin", "(element, test_elements, *, invert=False)", "whether each item is among others",
        "isin([1, 2, 3], [2, 5])"),
    _op("union1d", "(ar1, ar2)", "values in either", "union1d([1, 2], [2, 3])"),
    _op("intersect1d", "(ar1, ar2)", "values in both", "intersect1d([1, 2], [2, 3])"),
    _op("setdiff1d", "(ar1, ar2)", "values in the first only", "setdiff1d([1, 2], [2, 3])"),
    _op("setxor1d", "(ar1, ar2)", "values in exactly one", "setxor1d([1, 2], [2, 3])"),
    _op("bincount", "(x, /, weights=None, minlength=0)", "how often each small int occurs",
        "bincount([0, 2, 2])"),
    # numpy returns the edges that were passed as ``bins``.
    _op("histogram", "(a, bins=10, range=None, density=None, weights=None)",
        "counts per bin, and the edges of the bins", "histogram([1.0, 2.0, 4.0], 3)", results=2,
        shares=True),
    _op("histogram2d", "(x, y, bins=10, range=None, density=None, weights=None)",
        "counts per cell, and the edges along both axes", "histogram2d([1.0, 2.0], [3.0, 4.0], 2)",
        results=3, shares=True),
    _op("unravel_index", "(indices, shape)", "flat indices as one index per axis",
        "unravel_index([3, 5], (2, 3))", results=MANY),
    _op("ravel_multi_index", "(multi_index, dims)", "one index per axis as flat indices",
        "ravel_multi_index(([0, 1], [1, 2]), (2, 3))"),
    _op("tril_indices", "(n, k=0, m=None)", "rows and columns at and below a diagonal",
        "tril_indices(3)", results=2),
    _op("triu_indices", "(n, k=0, m=None)", "rows and columns at and above a diagonal",
        "triu_indices(3)", results=2),
    _op("diag_indices", "(n)", "rows and columns of the diagonal", "diag_indices(3)", results=2),
)  # fmt: skip


def index_kind(known: Known, subject: str) -> None:
    """Refuse float and complex indices in type checks of operators that search and select.

    Raises:
        MisfitError: It is of floats, or of text.
    """
    if kind_of(known.dtype) in ("f", "c"):
        message = f"{subject} must be integers, not {known.dtype}"
        raise MisfitError(KINDS, message, "convert them: astype(i, int64)")


def _sorted(args: Arguments) -> Shape:
    shape = args.shape("a")
    if args.get("axis").dtype == "none":
        return (items_in(shape),)
    if not shape:
        raise UnclearError
    axis_of(args.integer("axis", -1), len(shape))
    return shape


def _unique(args: Arguments) -> Known:
    if set(args.by_name) > {"ar"}:
        raise UnclearError
    return Known(args.dtype("ar"), (None,))


def _set(first: str, second: str) -> Rule:
    return typed(lambda args: promote(args.array(first), args.array(second)), lambda _: (None,))


def _nonzero(args: Arguments) -> tuple[Known, ...]:
    shape = args.shape("a")
    if not shape:
        raise UnclearError
    return (Known("int64", (None,)),) * len(shape)


def _take(args: Arguments) -> Shape:
    shape, chosen = args.shape("a"), args.array("indices")
    if not args.has("axis"):
        return sure(chosen.shape)
    axis = axis_of(args.integer("axis", 0), len(shape))
    return (*shape[:axis], *sure(chosen.shape), *shape[axis + 1 :])


def _taken(args: Arguments) -> Known:
    chosen = args.array("indices")
    # numpy converts the items of a list one by one and accepts some floats among them.
    is_array = args.get("indices").items is None
    if is_array and chosen.shape and items_in(chosen.shape) and args.array("a").shape:
        index_kind(chosen, "indices")
    result = typed(lambda call: call.dtype("a"), _take)(args)
    return result if isinstance(result, Known) else result[0]


def _bincount(args: Arguments) -> Known:
    counted = args.array("x")
    if counted.shape is not None and len(counted.shape) != 1:
        message = f"a row of integers is counted, not shape {shape_text(counted.shape)}"
        raise MisfitError(SHAPES, message, "write bincount(ravel(x))")
    if counted.shape != (0,) and args.get("x").items is None:
        index_kind(counted, "what is counted")
    if args.has("weights"):
        # For an empty array numpy ignores the weights.
        return Known("float64" if counted.shape and counted.shape[0] else None, (None,))
    return Known("int64", (None,))


def _histogram(args: Arguments) -> tuple[Known, ...]:
    bins = integer(args.get("bins")) if args.has("bins") else 10
    counts = "int64" if not (args.has("weights") or args.has("density")) else None
    return (Known(counts, (bins,)), Known(None, (None if bins is None else bins + 1,)))


def _indices(args: Arguments) -> Known:
    return Known("int64", (None, len(args.shape("a"))) if args.shape("a") else None)


_RULES: dict[str, Rule] = {
    "sort": typed(lambda args: args.dtype("a"), _sorted),
    "partition": typed(lambda args: args.dtype("a"), _sorted),
    "argsort": typed(lambda _: "int64", _sorted),
    "argpartition": typed(lambda _: "int64", _sorted),
    "searchsorted": typed(lambda _: "int64", lambda args: args.shape("v")),
    "digitize": typed(lambda _: "int64", lambda args: args.shape("x")),
    "unique": _unique,
    "nonzero": _nonzero,
    "flatnonzero": lambda _: Known("int64", (None,)),
    "argwhere": _indices,
    "take": _taken,
    "isin": typed(lambda _: "bool", lambda args: args.shape("element")),
    "union1d": _set("ar1", "ar2"),
    "bincount": _bincount,
    "histogram": _histogram,
}

SEARCHING = ruled(_SEARCHING, {**_RULES, **INDEX_RULES})
