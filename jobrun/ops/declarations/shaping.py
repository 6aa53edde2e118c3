"""Declare the operators that rearrange arrays, with rules for dtype and shape.

Such as ``reshape``, ``transpose``, ``concatenate`` and ``pad``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jobrun.ops.abstract_values import (
    INDICES,
    SHAPES,
    Arguments,
    Known,
    MisfitError,
    Rule,
    Shape,
    UnclearError,
    as_array,
    axis_of,
    clash,
    integer,
    items_in,
    shape_text,
    sure,
    typed,
)
from jobrun.ops.declarations.creation import checked_lengths, diagonal_length
from jobrun.ops.declarations.index_functions import PART_RULES
from jobrun.ops.definition import MANY, OpDef, numpy_op, ruled
from jobrun.ops.dtype_promotion import join_dtypes

_view = partial(numpy_op, shares=True)
_new = numpy_op

_SHAPING = (
    _view("reshape", "(a, shape, /)", "the items in another shape; one length may be -1",
          "a = arange(6); reshape(a, (2, -1))"),
    _view("transpose", "(a, axes=None)", "axes in another order, reversed unless said",
          "a = zeros((2, 3)); transpose(a)"),
    _view("matrix_transpose", "(x, /)", "the last two axes swapped",
          "a = zeros((4, 2, 3)); matrix_transpose(a)"),
    _view("swapaxes", "(a, axis1, axis2)", "two axes swapped",
          "a = zeros((2, 3)); swapaxes(a, 0, 1)"),
    _view("moveaxis", "(a, source, destination)", "axes moved to another place",
          "a = zeros((2, 3, 4)); moveaxis(a, 0, -1)"),
    _view("ravel", "(a)", "all items in one row", "a = zeros((2, 3)); ravel(a)"),
    _view("squeeze", "(a, axis=None)", "without axes of length 1",
          "a = zeros((1, 3)); squeeze(a)"),
    _view("expand_dims", "(a, axis)", "with a further axis of length 1",
          "a = zeros(3); expand_dims(a, 0)"),
    _view("broadcast_to", "(array, shape, /)", "repeated along axes to a shape",
          "a = arange(3); broadcast_to(a, (2, 3))"),
    _view("flip", "(m, axis=None)", "items in reverse order", "a = arange(3); flip(a)"),
    _view("fliplr", "(m)", "columns in reverse order", "a = eye(2); fliplr(a)"),
    _view("flipud", "(m)", "rows in reverse order", "a = eye(2); flipud(a)"),
    _view("rot90", "(m, k=1, axes=(0, 1))", "turned by k quarter turns", "a = eye(2); rot90(a)"),
    _view("diagonal", "(a, offset=0, axis1=0, axis2=1)", "the items on a diagonal",
          "a = eye(3); diagonal(a)"),
    _view("atleast_1d", "(a, /)", "with one axis or more", "a = arange(3); atleast_1d(a)"),
    _view("atleast_2d", "(a, /)", "with two axes or more", "a = arange(3); atleast_2d(a)"),
    _view("atleast_3d", "(a, /)", "with three axes or more", "a = arange(3); atleast_3d(a)"),
    _view("split", "(ary, indices_or_sections, axis=0)", "cut into equal parts, or at indices",
          "a = arange(6); split(a, 3)", results=MANY),
    _view("array_split", "(ary, indices_or_sections, axis=0)", "cut into nearly equal parts",
          "a = arange(7); array_split(a, 3)", results=MANY),
    _new("concatenate", "(arrays, /, axis=0)", "joined along an axis",
         "concatenate([[1, 2], [3]])"),
    _new("stack", "(arrays, axis=0)", "joined along a new axis", "stack([[1, 2], [3, 4]])"),
    _new("vstack", "(tup)", "joined as rows", "vstack([[1, 2], [3, 4]])"),
    _new("hstack", "(tup)", "joined as columns", "hstack([[1, 2], [3, 4]])"),
    _new("dstack", "(tup)", "joined along the third axis", "dstack([[1, 2], [3, 4]])"),
    _new("column_stack", "(tup)", "rows turned to columns and joined",
         "column_stack([[1, 2], [3, 4]])"),
    _new("delete", "(arr, obj, axis=None)", "without the items at an index",
         "delete([1, 2, 3], 1)"),
    _new("tile", "(A, reps)", "the whole repeated", "tile([1, 2], 3)"),
    _new("repeat", "(a, repeats, axis=None)", "each item repeated", "repeat([1, 2], 3)"),
    _new("resize", "(a, new_shape)", "cut or repeated to a shape", "resize([1, 2, 3], (2, 2))"),
    _new("roll", "(a, shift, axis=None)", "shifted round the end", "roll([1, 2, 3], 1)"),
    # No further keywords: numpy's 'mode' may be a function, and those of the modes differ.
    OpDef("pad", "(array, pad_width, mode='constant', *, constant_values=0)",
          "jobrun.ops.numpy_implementations:pad",
          "with a border: constant, edge, reflect, symmetric, wrap",
          "pad([1, 2], 1, constant_values=9)"),
)  # fmt: skip


def too_few_axes(shape: Shape, least: int) -> MisfitError:
    """Build the error for an array with fewer axes than a reshape, transpose or the like needs."""
    word = "axis" if least == 1 else "axes"
    message = f"at least {least} {word} are needed, and the shape is {shape_text(shape)}"
    return MisfitError(SHAPES, message, "reshape it, or add an axis: x[:, None]")


def _at_least(least: int, find: Callable[[Shape], Shape], name: str) -> Rule:
    def shape(args: Arguments) -> Shape:
        lengths = args.shape(name)
        if len(lengths) < least:
            raise too_few_axes(lengths, least)
        return find(lengths)

    return typed(lambda args: args.dtype(name), shape)


def _of(name: str, shape: Callable[[Arguments], Shape]) -> Rule:
    return typed(lambda args: args.dtype(name), shape)


def _reshape(args: Arguments) -> Shape:
    wanted = args.lengths("shape")
    unknown = [at for at, length in enumerate(wanted) if length is None]
    open_at = [at for at, length in enumerate(wanted) if length == -1]
    if unknown:
        return tuple(None if length == -1 else length for length in wanted)
    if len(open_at) > 1:
        raise MisfitError(INDICES, "only one length can be -1", "write the others out")
    fixed = tuple(length for length in wanted if length != -1)
    if any(sure(length) < 0 for length in fixed):
        raise UnclearError
    count, have = sure(items_in(fixed)), _count(args)
    if have is None:
        return tuple(None if length == -1 else length for length in wanted)
    fits = have == count if not open_at else count > 0 and have % count == 0
    if not fits:
        source = shape_text(args.shape("a"))
        message = f"{have} items of shape {source} do not fit into shape {shape_text(wanted)}"
        raise MisfitError(SHAPES, message, "the products of the lengths must be equal")
    return tuple(have // count if length == -1 else length for length in wanted)


def _count(args: Arguments) -> int | None:
    try:
        return items_in(args.shape("a"))
    except UnclearError:
        return None


def _transpose(args: Arguments) -> Shape:
    shape = args.shape("a")
    if not args.has("axes"):
        return shape[::-1]
    wanted = args.lengths("axes")
    if len(wanted) != len(shape):
        message = f"{len(wanted)} axes are given for shape {shape_text(shape)}"
        raise MisfitError(INDICES, message, "name each axis once")
    return tuple(shape[axis_of(sure(axis), len(shape))] for axis in wanted)


def _swapped(args: Arguments) -> Shape:
    lengths = list(args.shape("a"))
    first = axis_of(sure(integer(args.get("axis1"))), len(lengths))
    second = axis_of(sure(integer(args.get("axis2"))), len(lengths))
    lengths[first], lengths[second] = lengths[second], lengths[first]
    return tuple(lengths)


def _moved(args: Arguments) -> Shape:
    shape = args.shape("a")
    source = axis_of(sure(integer(args.get("source"))), len(shape))
    target = axis_of(sure(integer(args.get("destination"))), len(shape))
    lengths = [length for at, length in enumerate(shape) if at != source]
    lengths.insert(target, shape[source])
    return tuple(lengths)


def _squeezed(args: Arguments) -> Shape:
    shape = args.shape("a")
    axes = args.axes("axis", len(shape))
    if axes is None:
        return tuple(sure(length) for length in shape if sure(length) != 1)
    for axis in axes:
        if clash(shape[axis], 1):
            message = f"axis {axis} of shape {shape_text(shape)} is not of length 1"
            raise MisfitError(SHAPES, message, "only such axes can be taken out")
    return tuple(length for at, length in enumerate(shape) if at not in axes)


def _expanded(args: Arguments) -> Shape:
    lengths = list(args.shape("a"))
    at = axis_of(sure(integer(args.get("axis"))), len(lengths) + 1)
    lengths.insert(at, 1)
    return tuple(lengths)


def _broadcast(args: Arguments) -> Shape:
    source, target = args.shape("array"), checked_lengths(args.lengths("shape"))
    fits = len(source) <= len(target) and not any(
        length != 1 and clash(length, wanted)
        for length, wanted in zip(source[::-1], target[::-1], strict=False)
    )
    if not fits:
        message = f"shape {shape_text(source)} cannot be broadcast to {shape_text(target)}"
        raise MisfitError(SHAPES, message, "each length must be that of the target, or 1")
    return target


def _diagonal(args: Arguments) -> Shape:
    shape = args.shape("a")
    if args.has("axis1") or args.has("axis2"):
        raise UnclearError
    if len(shape) < 2:
        raise too_few_axes(shape, 2)
    return (*shape[2:], diagonal_length(shape[0], shape[1], args.integer("offset", 0)))


def _with_axes(least: int) -> Callable[[Arguments], Shape]:
    def shape(args: Arguments) -> Shape:
        lengths = args.shape("a")
        if len(lengths) >= least:
            return lengths
        if least == 3:
            return {0: (1, 1, 1), 1: (1, *lengths, 1), 2: (*lengths, 1)}[len(lengths)]
        return (1,) * (least - len(lengths)) + lengths

    return shape


def _parts(args: Arguments, name: str) -> list[Known]:
    """Return abstract values of the arrays to concatenate, or of the rows of a single array."""
    known = args.get(name)
    if known.items is not None:
        return [as_array(item) for item in known.items]
    shape = sure(known.shape)
    if not shape:
        raise UnclearError
    return [Known(known.dtype, shape[1:])] * min(sure(shape[0]), 64)


def _joined_dtype(name: str) -> Callable[[Arguments], str | None]:
    def dtype(args: Arguments) -> str | None:
        parts = _parts(args, name)
        # The dtype of a Python number next to an array differs from function to function.
        return (
            None
            if any(part.weak is not False for part in parts)
            else join_dtypes(part.dtype for part in parts)
        )

    return dtype


def _shapes(args: Arguments, name: str) -> list[Shape]:
    return [sure(part.shape) for part in _parts(args, name)]


def _concatenated(shapes: list[Shape], axis: int) -> Shape:
    """Infer the shape of arrays concatenated along an axis that each of them has."""
    first = shapes[0] if shapes else ()
    lengths: list[int | None] = list(first)
    for other in shapes[1:]:
        alike = len(first) == len(other) and not any(
            clash(lengths[at], other[at]) for at in range(len(other)) if at != axis
        )
        if not alike:
            message = (
                f"shapes {shape_text(first)} and {shape_text(other)} cannot be joined "
                f"along axis {axis}"
            )
            mend = "all lengths but that of the axis must be equal; stack makes a new axis"
            raise MisfitError(SHAPES, message, mend)
        lengths = [
            length if length is not None else other_length
            for length, other_length in zip(lengths, other, strict=True)
        ]
    if shapes:
        along = [shape[axis] for shape in shapes]
        lengths[axis] = (
            None if None in along else sum(length for length in along if length is not None)
        )
    return tuple(lengths)


def _concatenate(args: Arguments) -> Shape:
    if args.get("axis").dtype == "none":
        counts = [items_in(shape) for shape in _shapes(args, "arrays")]
        return (sum(sure(count) for count in counts),)
    shapes = _shapes(args, "arrays")
    if not shapes:
        raise UnclearError
    if not shapes[0]:
        message = "single numbers cannot be joined"
        raise MisfitError(SHAPES, message, "write stack([a, b]) or array([a, b])")
    return _concatenated(shapes, axis_of(args.integer("axis", 0), len(shapes[0])))


def _stack(args: Arguments) -> Shape:
    shapes = _shapes(args, "arrays")
    first = shapes[0] if shapes else sure(None)
    for other in shapes[1:]:
        unequal = len(first) != len(other) or any(
            clash(length, other_length) for length, other_length in zip(first, other, strict=True)
        )
        if unequal:
            message = f"shapes {shape_text(first)} and {shape_text(other)} cannot be stacked"
            raise MisfitError(SHAPES, message, "all shapes must be equal")
    at = axis_of(args.integer("axis", 0), len(first) + 1)
    return (*first[:at], len(shapes), *first[at:])


def _as_rows(shape: Shape) -> Shape:
    return (1,) * (2 - len(shape)) + shape


def _as_columns(shape: Shape) -> Shape:
    return (shape[0] if shape else 1, 1) if len(shape) < 2 else shape


def _rows(args: Arguments) -> Shape:
    return _concatenated([_as_rows(shape) for shape in _shapes(args, "tup")], 0)


def _columns(args: Arguments) -> Shape:
    shapes = [shape or (1,) for shape in _shapes(args, "tup")]
    return _concatenated(shapes, 0 if shapes and len(shapes[0]) == 1 else 1)


def _as_depth(shape: Shape) -> Shape:
    rows = _as_rows(shape)
    return (*rows, 1) if len(rows) == 2 else rows


def _tiled(args: Arguments) -> Shape:
    shape, times = args.shape("A"), args.lengths("reps")
    if any(length is not None and length < 0 for length in times):
        raise UnclearError
    rank = max(len(shape), len(times))
    padded = (1,) * (rank - len(shape)) + shape
    factors = (1,) * (rank - len(times)) + times
    pairs = zip(padded, factors, strict=True)
    return tuple(
        None if length is None or factor is None else length * factor for length, factor in pairs
    )


def _repeated(args: Arguments) -> Shape:
    shape, times = args.shape("a"), sure(integer(args.get("repeats")))
    if times < 0:
        raise UnclearError
    if not args.has("axis"):
        count = items_in(shape)
        return (None if count is None else count * times,)
    axis = axis_of(args.integer("axis", 0), len(shape))
    length = shape[axis]
    return (*shape[:axis], None if length is None else length * times, *shape[axis + 1 :])


def _padded(args: Arguments) -> Shape:
    width = sure(integer(args.get("pad_width")))
    checked_lengths((width,))
    return tuple(None if length is None else length + 2 * width for length in args.shape("array"))


def _split(args: Arguments) -> tuple[Known, ...]:
    known, parts = args.array("ary"), sure(integer(args.get("indices_or_sections")))
    shape = sure(known.shape)
    if parts < 1 or not shape:
        raise UnclearError
    axis = axis_of(args.integer("axis", 0), len(shape))
    length = sure(shape[axis])
    if length % parts:
        message = f"axis {axis} of shape {shape_text(shape)} cannot be cut into {parts} equal parts"
        raise MisfitError(SHAPES, message, "write array_split for nearly equal ones")
    part = Known(known.dtype, (*shape[:axis], length // parts, *shape[axis + 1 :]))
    return (part,) * parts


def _rolled(args: Arguments) -> Shape:
    shape = args.shape("a")
    args.axes("axis", len(shape))
    return shape


def _turned(args: Arguments) -> Shape:
    shape = args.shape("m")
    if len(shape) < 2:
        raise too_few_axes(shape, 2)
    # An even number of turns keeps the lengths, an odd one exchanges them.
    plane = args.axes("axes", len(shape)) or (0, 1)
    return tuple(None if axis in plane else length for axis, length in enumerate(shape))


_RULES: dict[str, Rule] = {
    "reshape": _of("a", _reshape),
    "transpose": _of("a", _transpose),
    "matrix_transpose": _at_least(2, lambda shape: (*shape[:-2], shape[-1], shape[-2]), "x"),
    "swapaxes": _of("a", _swapped),
    "moveaxis": _of("a", _moved),
    "ravel": _of("a", lambda args: (items_in(args.shape("a")),)),
    "squeeze": _of("a", _squeezed),
    "expand_dims": _of("a", _expanded),
    "broadcast_to": _of("array", _broadcast),
    "flip": _of("m", lambda args: (args.axes("axis", len(args.shape("m"))),
                                    args.shape("m"))[1]),
    "fliplr": _at_least(2, lambda shape: shape, "m"),
    "flipud": _at_least(1, lambda shape: shape, "m"),
    "rot90": _of("m", _turned),
    "diagonal": _of("a", _diagonal),
    "atleast_1d": _of("a", _with_axes(1)),
    "atleast_2d": _of("a", _with_axes(2)),
    "atleast_3d": _of("a", _with_axes(3)),
    "split": _split,
    "concatenate": typed(_joined_dtype("arrays"), _concatenate),
    "stack": typed(_joined_dtype("arrays"), _stack),
    "vstack": typed(_joined_dtype("tup"), _rows),
    "hstack": typed(_joined_dtype("tup"), _columns),
    "dstack": typed(_joined_dtype("tup"), lambda args: _concatenated(
        [_as_depth(shape) for shape in _shapes(args, "tup")], 2)),
    "column_stack": typed(_joined_dtype("tup"), lambda args: _concatenated(
        [_as_columns(shape) for shape in _shapes(args, "tup")], 1)),
    "tile": _of("A", _tiled),
    "repeat": _of("a", _repeated),
    "resize": _of("a", lambda args: checked_lengths(args.lengths("new_shape"))),
    "roll": _of("a", _rolled),
    "pad": _of("array", _padded),
}  # fmt: skip

SHAPING = ruled(_SHAPING, {**_RULES, **PART_RULES})
