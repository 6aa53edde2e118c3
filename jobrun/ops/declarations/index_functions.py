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


def _items(args: Arguments, name: str) -> list[Known]:
    """List the abstract values of the arrays passed to an index function such as ``select``."""
    return [as_array(item) for item in sure(args.get(name).items)]


def _joint(parts: list[Known]) -> Shape:
    shape: Shape = ()
    for part in parts:
        shape = joint_shape(shape, sure(part.shape))
    return shape


def _one_dtype(parts: list[Known]) -> str:
    """Infer the dtype that all choices of the index function ``select`` have in common."""
    dtypes = {part.dtype for part in parts}
    if len(dtypes) != 1 or any(part.weak is not False for part in parts):
        raise UnclearError
    dtype = sure(dtypes.pop())
    if kind_of(dtype) not in tuple("iufc"):
        raise UnclearError
    return dtype


def _selected(args: Arguments) -> Shape:
    parts = _items(args, "condlist") + _items(args, "choicelist")
    if args.has("default"):
        parts.append(args.array("default"))
    return _joint(parts)


def _selected_dtype(args: Arguments) -> str:
    if "default" in args.by_name:
        raise UnclearError
    return _one_dtype(_items(args, "choicelist"))


def _chosen(args: Arguments) -> Shape:
    return _joint([args.array("a"), *_items(args, "choices")])


def _grids(args: Arguments) -> tuple[Known, ...]:
    lengths = [items_in(sure(as_array(array).shape)) for array in args.variadic]
    if args.flag("sparse"):
        raise UnclearError
    if args.word("indexing", "xy") == "xy" and len(lengths) > 1:
        lengths[:2] = lengths[1::-1]
    return tuple(Known(as_array(array).dtype, tuple(lengths)) for array in args.variadic)


def _nearly_equal_parts(args: Arguments) -> tuple[Known, ...]:
    shape, dtype = args.shape("ary"), args.array("ary").dtype
    count = sure(integer(args.get("indices_or_sections")))
    if not shape or not 0 < count <= _MOST_PARTS:
        raise UnclearError
    axis = axis_of(args.integer("axis", 0), len(shape))
    length = shape[axis]
    parts: list[int | None] = [None] * count
    if length is not None:
        parts = [length // count + (at < length % count) for at in range(count)]
    return tuple(
        Known(dtype, (*shape[:axis], part_length, *shape[axis + 1 :])) for part_length in parts
    )


def _one_axis_open(args: Arguments, name: str) -> Shape:
    """Infer the shape after indices delete or select an unknown number of items of one axis."""
    shape = args.shape(name)
    if not args.has("axis"):
        return (None,)
    if not shape:
        raise UnclearError
    axis = axis_of(args.integer("axis", 0), len(shape))
    return (*shape[:axis], None, *shape[axis + 1 :])


def _order(args: Arguments) -> Shape:
    keys = args.get("keys")
    if keys.items == ():
        raise MisfitError(SHAPES, "'keys' is empty", "give one array or more")
    shape = sure(keys.shape)[1:] if keys.items is None else _items(args, "keys")[0].shape
    if not shape:
        raise UnclearError
    return shape


def _along(args: Arguments) -> Shape:
    chosen = args.shape("indices")
    if not args.has("axis"):
        return chosen
    shape = args.shape("arr")
    if not shape or len(shape) != len(chosen):
        raise UnclearError
    axis = axis_of(args.integer("axis", -1), len(shape))
    return joint_shape((*shape[:axis], 1, *shape[axis + 1 :]), chosen)


def _joined(args: Arguments) -> str | None:
    return join_dtypes((args.array("ar1").dtype, args.array("ar2").dtype))


def _per_axis(args: Arguments) -> tuple[Known, ...]:
    return (Known("int64", args.shape("indices")),) * len(args.lengths("shape"))


def _flat_index(args: Arguments) -> Shape:
    several = args.get("multi_index")
    if several.items is not None:
        return _joint(_items(args, "multi_index"))
    shape = sure(several.shape)
    # An empty array is either no index or an index over no axis.
    if not shape or shape[0] in {None, 0}:
        raise UnclearError
    return shape[1:]


def _grid_of_counts(args: Arguments) -> tuple[Known, ...]:
    bins = sure(integer(args.get("bins"))) if args.has("bins") else 10
    plain = not (args.has("weights") or args.has("density"))
    counts = Known("float64" if plain else None, (bins, bins))
    return counts, Known(None, (bins + 1,)), Known(None, (bins + 1,))


def _diagonal_indices(args: Arguments) -> tuple[Known, ...]:
    length = integer(args.get("n"))
    return (
        Known(
            "int64" if length is not None else None, (None if length is None else max(0, length),)
        ),
    ) * 2


SELECTION_RULES: dict[str, Rule] = {"select": typed(_selected_dtype, _selected)}
MESH_RULES: dict[str, Rule] = {"meshgrid": _grids}
PART_RULES: dict[str, Rule] = {
    "array_split": _nearly_equal_parts,
    "delete": typed(lambda args: args.dtype("arr"), lambda args: _one_axis_open(args, "arr")),
}
INDEX_RULES: dict[str, Rule] = {
    "tril_indices": lambda _: (_INDEX_ROW, _INDEX_ROW),
    "triu_indices": lambda _: (_INDEX_ROW, _INDEX_ROW),
    "diag_indices": _diagonal_indices,
    "lexsort": typed(lambda _: "int64", _order),
    "take_along_axis": typed(lambda args: args.dtype("arr"), _along),
    "compress": typed(lambda args: args.dtype("a"), lambda args: _one_axis_open(args, "a")),
    "choose": typed(lambda args: _one_dtype(_items(args, "choices")), _chosen),
    "intersect1d": typed(_joined, lambda _: (None,)),
    "setxor1d": typed(_joined, lambda _: (None,)),
    "setdiff1d": typed(lambda args: args.dtype("ar1"), lambda _: (None,)),
    "unravel_index": _per_axis,
    "ravel_multi_index": typed(lambda _: "int64", _flat_index),
    "histogram2d": _grid_of_counts,
}
