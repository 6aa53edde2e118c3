"""Infer dtype and shape of index grids, and of what is selected, split or deleted by indices."""

from __future__ import annotations

from jobrun.ops.abstract_values import (
    SHAPES,
    Arguments,
    Known,
    MisfitError,
    Rule,
    Shape,
    UnclearError,
    as_array,
    axis_of,
    integer,
    items_in,
    joint_shape,
    sure,
    typed,
)
from jobrun.ops.dtype_promotion import join_dtypes, kind_of

# More parts than this are not bound to names one by one.
_MOST_PARTS = 64
_INDEX_ROW = Known("int64", (None,))


def _items(given: Arguments, name: str) -> list[Known]:
    """List the abstract values of the arrays passed to an index function such as ``select``."""
    return [as_array(one) for one in sure(given.get(name).items)]


def _joint(parts: list[Known]) -> Shape:
    shape: Shape = ()
    for one in parts:
        shape = joint_shape(shape, sure(one.shape))
    return shape


def _one_dtype(parts: list[Known]) -> str:
    """Infer the dtype that all choices of the index function ``select`` have in common."""
    dtypes = {one.dtype for one in parts}
    if len(dtypes) != 1 or any(one.weak is not False for one in parts):
        raise UnclearError
    dtype = sure(dtypes.pop())
    if kind_of(dtype) not in tuple("iufc"):
        raise UnclearError
    return dtype


def _selected(given: Arguments) -> Shape:
    parts = _items(given, "condlist") + _items(given, "choicelist")
    if given.has("default"):
        parts.append(given.array("default"))
    return _joint(parts)


def _selected_dtype(given: Arguments) -> str:
    if "default" in given.given:
        raise UnclearError
    return _one_dtype(_items(given, "choicelist"))


def _chosen(given: Arguments) -> Shape:
    return _joint([given.array("a"), *_items(given, "choices")])


def _grids(given: Arguments) -> tuple[Known, ...]:
    lengths = [items_in(sure(as_array(one).shape)) for one in given.rest]
    if given.flag("sparse"):
        raise UnclearError
    if given.word("indexing", "xy") == "xy" and len(lengths) > 1:
        lengths[:2] = lengths[1::-1]
    return tuple(Known(as_array(one).dtype, tuple(lengths)) for one in given.rest)


def _nearly_equal_parts(given: Arguments) -> tuple[Known, ...]:
    shape, dtype = given.shape("ary"), given.array("ary").dtype
    count = sure(integer(given.get("indices_or_sections")))
    if not shape or not 0 < count <= _MOST_PARTS:
        raise UnclearError
    axis = axis_of(given.integer("axis", 0), len(shape))
    length = shape[axis]
    parts: list[int | None] = [None] * count
    if length is not None:
        parts = [length // count + (at < length % count) for at in range(count)]
    return tuple(Known(dtype, (*shape[:axis], one, *shape[axis + 1 :])) for one in parts)


def _one_axis_open(given: Arguments, name: str) -> Shape:
    """Infer the shape after indices delete or select an unknown number of items of one axis."""
    shape = given.shape(name)
    if not given.has("axis"):
        return (None,)
    if not shape:
        raise UnclearError
    axis = axis_of(given.integer("axis", 0), len(shape))
    return (*shape[:axis], None, *shape[axis + 1 :])


def _order(given: Arguments) -> Shape:
    keys = given.get("keys")
    if keys.items == ():
        raise MisfitError(SHAPES, "'keys' is empty", "give one array or more")
    shape = sure(keys.shape)[1:] if keys.items is None else _items(given, "keys")[0].shape
    if not shape:
        raise UnclearError
    return shape


def _along(given: Arguments) -> Shape:
    chosen = given.shape("indices")
    if not given.has("axis"):
        return chosen
    shape = given.shape("arr")
    if not shape or len(shape) != len(chosen):
        raise UnclearError
    axis = axis_of(given.integer("axis", -1), len(shape))
    return joint_shape((*shape[:axis], 1, *shape[axis + 1 :]), chosen)


def _joined(given: Arguments) -> str | None:
    return join_dtypes((given.array("ar1").dtype, given.array("ar2").dtype))


def _per_axis(given: Arguments) -> tuple[Known, ...]:
    return (Known("int64", given.shape("indices")),) * len(given.lengths("shape"))


def _flat_index(given: Arguments) -> Shape:
    several = given.get("multi_index")
    if several.items is not None:
        return _joint(_items(given, "multi_index"))
    shape = sure(several.shape)
    # An array without any index in it means no index, or one over no axis.
    if not shape or shape[0] in {None, 0}:
        raise UnclearError
    return shape[1:]


def _grid_of_counts(given: Arguments) -> tuple[Known, ...]:
    bins = sure(integer(given.get("bins"))) if given.has("bins") else 10
    plain = not (given.has("weights") or given.has("density"))
    counts = Known("float64" if plain else None, (bins, bins))
    return counts, Known(None, (bins + 1,)), Known(None, (bins + 1,))


def _diagonal_indices(given: Arguments) -> tuple[Known, ...]:
    length = integer(given.get("n"))
    return (
        Known(
            "int64" if length is not None else None, (None if length is None else max(0, length),)
        ),
    ) * 2


SELECTION_RULES: dict[str, Rule] = {"select": typed(_selected_dtype, _selected)}
MESH_RULES: dict[str, Rule] = {"meshgrid": _grids}
PART_RULES: dict[str, Rule] = {
    "array_split": _nearly_equal_parts,
    "delete": typed(lambda given: given.dtype("arr"), lambda given: _one_axis_open(given, "arr")),
}
INDEX_RULES: dict[str, Rule] = {
    "tril_indices": lambda _: (_INDEX_ROW, _INDEX_ROW),
    "triu_indices": lambda _: (_INDEX_ROW, _INDEX_ROW),
    "diag_indices": _diagonal_indices,
    "lexsort": typed(lambda _: "int64", _order),
    "take_along_axis": typed(lambda given: given.dtype("arr"), _along),
    "compress": typed(lambda given: given.dtype("a"), lambda given: _one_axis_open(given, "a")),
    "choose": typed(lambda given: _one_dtype(_items(given, "choices")), _chosen),
    "intersect1d": typed(_joined, lambda _: (None,)),
    "setxor1d": typed(_joined, lambda _: (None,)),
    "setdiff1d": typed(lambda given: given.dtype("ar1"), lambda _: (None,)),
    "unravel_index": _per_axis,
    "ravel_multi_index": typed(lambda _: "int64", _flat_index),
    "histogram2d": _grid_of_counts,
}
