"""Infer dtype and shape of what is sorted, searched, selected and counted."""

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
from jobrun.ops.dtype_promotion import kind_of


def index_kind(known: Known, what: str) -> None:
    """Refuse an index of floats or complex numbers in the type rules for searching and selecting.

    Raises:
        MisfitError: It is of floats, or of text.
    """
    if kind_of(known.dtype) in ("f", "c"):
        message = f"{what} must be integers, not {known.dtype}"
        raise MisfitError(KINDS, message, "convert them: astype(i, int64)")


def _sorted(given: Arguments) -> Shape:
    shape = given.shape("a")
    if given.get("axis").dtype == "none":
        return (items_in(shape),)
    if not shape:
        raise UnclearError
    axis_of(given.integer("axis", -1), len(shape))
    return shape


def _unique(given: Arguments) -> Known:
    if set(given.given) > {"ar"}:
        raise UnclearError
    return Known(given.dtype("ar"), (None,))


def _set(first: str, second: str) -> Rule:
    return typed(lambda given: promote(given.array(first), given.array(second)), lambda _: (None,))


def _nonzero(given: Arguments) -> tuple[Known, ...]:
    shape = given.shape("a")
    if not shape:
        raise UnclearError
    return (Known("int64", (None,)),) * len(shape)


def _take(given: Arguments) -> Shape:
    shape, chosen = given.shape("a"), given.array("indices")
    if not given.has("axis"):
        return sure(chosen.shape)
    axis = axis_of(given.integer("axis", 0), len(shape))
    return (*shape[:axis], *sure(chosen.shape), *shape[axis + 1 :])


def _taken(given: Arguments) -> Known:
    chosen = given.array("indices")
    # Of a list numpy takes the items one by one, some of them though they are floats.
    is_array = given.get("indices").items is None
    if is_array and chosen.shape and items_in(chosen.shape) and given.array("a").shape:
        index_kind(chosen, "indices")
    found = typed(lambda one: one.dtype("a"), _take)(given)
    return found if isinstance(found, Known) else found[0]


def _bincount(given: Arguments) -> Known:
    counted = given.array("x")
    if counted.shape is not None and len(counted.shape) != 1:
        message = f"a row of integers is counted, not shape {shape_text(counted.shape)}"
        raise MisfitError(SHAPES, message, "write bincount(ravel(x))")
    if counted.shape != (0,) and given.get("x").items is None:
        index_kind(counted, "what is counted")
    if given.has("weights"):
        # Of nothing at all the weights do not count.
        return Known("float64" if counted.shape and counted.shape[0] else None, (None,))
    return Known("int64", (None,))


def _histogram(given: Arguments) -> tuple[Known, ...]:
    bins = integer(given.get("bins")) if given.has("bins") else 10
    counts = "int64" if not (given.has("weights") or given.has("density")) else None
    return (Known(counts, (bins,)), Known(None, (None if bins is None else bins + 1,)))


def _indices(given: Arguments) -> Known:
    return Known("int64", (None, len(given.shape("a"))) if given.shape("a") else None)


SEARCHING_RULES: dict[str, Rule] = {
    "sort": typed(lambda given: given.dtype("a"), _sorted),
    "partition": typed(lambda given: given.dtype("a"), _sorted),
    "argsort": typed(lambda _: "int64", _sorted),
    "argpartition": typed(lambda _: "int64", _sorted),
    "searchsorted": typed(lambda _: "int64", lambda given: given.shape("v")),
    "digitize": typed(lambda _: "int64", lambda given: given.shape("x")),
    "unique": _unique,
    "nonzero": _nonzero,
    "flatnonzero": lambda _: Known("int64", (None,)),
    "argwhere": _indices,
    "take": _taken,
    "isin": typed(lambda _: "bool", lambda given: given.shape("element")),
    "union1d": _set("ar1", "ar2"),
    "bincount": _bincount,
    "histogram": _histogram,
}
