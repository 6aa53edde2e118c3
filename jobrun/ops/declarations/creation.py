"""Declare the operators that create arrays from numbers and convert dtypes, with type rules."""

from __future__ import annotations

from collections.abc import Callable

from jobrun.ops.abstract_values import (
    COUNTER,
    INDICES,
    KINDS,
    SHAPES,
    Arguments,
    Known,
    MisfitError,
    Rule,
    Shape,
    UnclearError,
    integer,
    items_in,
    scalar,
    shape_text,
    sure,
    typed,
)
from jobrun.ops.declarations.index_functions import MESH_RULES
from jobrun.ops.definition import MANY, OpDef, numpy_op, ruled
from jobrun.ops.dtype_promotion import join_dtypes, kind_of

_op = numpy_op

# 'empty' is not offered: its content is undefined.
_CREATION = (
    _op("zeros", "(shape, dtype=None)", "zeros, float64 unless said", "zeros((2, 3))"),
    _op("ones", "(shape, dtype=None)", "ones, float64 unless said", "ones(3, int64)"),
    _op("full", "(shape, fill_value, dtype=None)", "one value everywhere", "full((2, 2), 0.5)"),
    _op("zeros_like", "(a, dtype=None)", "zeros of the shape and dtype of a", "zeros_like([1, 2])"),
    _op("ones_like", "(a, dtype=None)", "ones of the shape and dtype of a", "ones_like([1, 2])"),
    _op("full_like", "(a, fill_value, dtype=None)", "one value, of the shape and dtype of a",
        "full_like([1.0, 2.0], 7)"),
    _op("arange", "(start_or_stop, stop=None, step=1, /, *, dtype=None)",
        "start, start + step, … below stop", "arange(0, 10, 2)"),
    _op("linspace", "(start, stop, num=50, endpoint=True, *, dtype=None, axis=0)",
        "num equal steps from start to stop", "linspace(0.0, 1.0, 5)"),
    _op("logspace", "(start, stop, num=50, endpoint=True, base=10.0, *, dtype=None)",
        "base to the powers start … stop", "logspace(0.0, 2.0, 3)"),
    _op("geomspace", "(start, stop, num=50, endpoint=True, *, dtype=None)",
        "num equal ratios from start to stop", "geomspace(1.0, 8.0, 4)"),
    _op("eye", "(N, M=None, k=0, dtype=float64)", "ones on the k-th diagonal, else zeros",
        "eye(3)"),
    _op("identity", "(n, dtype=None)", "the n by n unit matrix", "identity(2)"),
    _op("diag", "(v, k=0)", "the k-th diagonal of a matrix, or a matrix with it",
        "a = eye(3); diag(a)", shares=True),
    _op("diagflat", "(v, k=0)", "a matrix with the items on the k-th diagonal", "diagflat([1, 2])"),
    _op("tri", "(N, M=None, k=0, dtype=float64)", "ones at and below the k-th diagonal", "tri(3)"),
    _op("tril", "(m, k=0)", "zeros above the k-th diagonal", "tril(ones((3, 3)))"),
    _op("triu", "(m, k=0)", "zeros below the k-th diagonal", "triu(ones((3, 3)))"),
    _op("vander", "(x, N=None, increasing=False)", "powers of x as columns",
        "vander([1.0, 2.0, 3.0], 2)"),
    OpDef("meshgrid", "(*xi, sparse=False, indexing='xy')", "numpy:meshgrid",
          "coordinates of a grid, one array per axis", "meshgrid([1, 2], [3, 4])", results=MANY),
    OpDef("array", "(object, dtype=None)", "jobrun.ops.numpy_implementations:array",
          "an array of the numbers in a list, or a copy", "array([[1, 2], [3, 4]], float32)"),
    OpDef("copy", "(a)", "numpy:copy", "a copy; assignment makes one by itself", "copy([1, 2])"),
    OpDef("astype", "(x, dtype)", "jobrun.ops.numpy_implementations:astype",
          "the same numbers in another dtype", "astype([1.7, 2.2], int64)"),
    OpDef("int", "(x, /)", "jobrun.ops.numpy_implementations:to_int",
          "a Python int of one number, without its fraction", "int(2.9)"),
    OpDef("float", "(x, /)", "jobrun.ops.numpy_implementations:to_float",
          "a Python float of one number", "float(3)"),
    OpDef("bool", "(x, /)", "jobrun.ops.numpy_implementations:to_bool",
          "a Python bool of one number: whether it is not 0", "bool(2)"),
    OpDef("len", "(a, /)", "builtins:len", "length of the first axis, or of text",
          "len([[1, 2], [3, 4], [5, 6]])"),
    OpDef("one_hot", "(labels, length, dtype=float64)",
          "jobrun.ops.numpy_implementations:one_hot",
          "rows with a 1 at the label and 0 elsewhere", "one_hot([2, 0], 3)"),
)  # fmt: skip


def checked_lengths(shape: Shape) -> Shape:
    """Infer the shape of an array to create from its argument; refuse a negative length.

    Raises:
        MisfitError: One is.
    """
    for length in shape:
        if length is not None and length < 0:
            message = f"a length cannot be {length}"
            raise MisfitError(INDICES, message, "give 0 or more")
    return shape


def asked_or(default: str | None) -> Callable[[Arguments], str | None]:
    """Build the dtype rule of a created array: the ``dtype`` argument, else a default."""
    return lambda args: args.asked_dtype() if args.has("dtype") else default


def _asked_or_of(name: str) -> Callable[[Arguments], str | None]:
    return lambda args: args.asked_dtype() if args.has("dtype") else args.dtype(name)


def _shape(args: Arguments) -> Shape:
    return checked_lengths(args.lengths("shape"))


def _square(name: str) -> Callable[[Arguments], Shape]:
    def shape(args: Arguments) -> Shape:
        rows = integer(args.get(name))
        columns = integer(args.get("M")) if args.has("M") else rows
        return checked_lengths((rows, columns))

    return shape


def _triangular(args: Arguments) -> Shape:
    if any((integer(args.get(name)) or 0) < 0 for name in ("N", "M")):
        raise UnclearError
    return _square("N")(args)


def _arange(args: Arguments) -> Known:
    names = ("start_or_stop", "stop", "step")
    known = [args.get(name) for name in names if args.has(name)]
    if not known or (args.has("step") and not args.has("stop")):
        raise UnclearError
    if args.has("dtype"):
        return Known(args.asked_dtype(), (None,))
    values = [integer(bound) for bound in known]
    whole = [value for value in values if value is not None]
    if len(whole) < len(values) or whole[2:] == [0]:
        return Known("int64" if all(bound.dtype == "int64" for bound in known) else None, (None,))
    try:
        return Known("int64", (len(range(*whole)),))
    except OverflowError:
        # More items than fit into memory: ``len`` cannot return their number.
        raise UnclearError from None


def _steps(args: Arguments) -> Shape:
    limits = args.array("start").shape, args.array("stop").shape
    count = integer(args.get("num")) if args.has("num") else 50
    if limits != ((), ()) or (args.has("base") and args.shape("base")):
        raise UnclearError
    return checked_lengths((count,))


def _spaced(args: Arguments) -> str | None:
    if args.has("base"):
        raise UnclearError
    if args.has("dtype"):
        return args.asked_dtype()
    limits = (args.array("start"), args.array("stop"))
    real = all(limit.weak and kind_of(limit.dtype) in ("b", "i", "f") for limit in limits)
    return "float64" if real else None


def _diagonal(args: Arguments) -> Shape:
    shape, offset = args.shape("v"), args.integer("k", 0)
    if len(shape) == 1:
        length = None if shape[0] is None else shape[0] + abs(offset)
        return (length, length)
    if len(shape) != 2:
        message = f"shape {shape_text(shape)} is neither a row nor a matrix"
        raise MisfitError(SHAPES, message, "give a value with one axis or two")
    return (diagonal_length(shape[0], shape[1], offset),)


def diagonal_length(rows: int | None, columns: int | None, offset: int) -> int | None:
    """Infer the length of a diagonal for the rules of creation functions; None if unknown."""
    if rows is None or columns is None:
        return None
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


def _flat_diagonal(args: Arguments) -> Shape:
    count = items_in(args.shape("v"))
    length = None if count is None else count + abs(args.integer("k", 0))
    return (length, length)


def _triangle(args: Arguments) -> Shape:
    shape = args.shape("m")
    if len(shape) < 2:
        raise UnclearError
    return shape


def _array(args: Arguments) -> Shape:
    known = args.array("object")
    return sure(known.shape)


def _array_dtype(args: Arguments) -> str | None:
    return args.asked_dtype() if args.has("dtype") else args.dtype("object")


def _number(dtype: str, convert: Callable[[int | float], int | float]) -> Rule:
    def rule(args: Arguments) -> Known:
        known = args.array("x")
        if known.dtype == COUNTER:
            return Known(dtype, (), weak=True)
        count = None if known.shape is None else items_in(known.shape)
        if known.shape and count is not None and count != 1 and dtype != "bool":
            message = f"a value of shape {shape_text(known.shape)} is not one number"
            raise MisfitError(KINDS, message, "reduce it first: sum(x), or take an item: x[0]")
        if isinstance(known.value, bool | int | float):
            try:
                return scalar(convert(known.value))
            except (ValueError, OverflowError):
                return Known(dtype, (), weak=True)
        return Known(dtype, (), weak=True)

    return rule


def _length(args: Arguments) -> Known:
    known = args.get("a")
    if known.items is not None:
        return scalar(len(known.items))
    if known.sequence or known.dtype in ("text", COUNTER):
        return Known("int64", (), weak=True)
    if known.shape == ():
        message = "a single number has no length"
        raise MisfitError(KINDS, message, "len is for values with an axis; size(x) is x.size")
    known_length = known.shape[0] if known.shape else None
    return scalar(known_length) if known_length is not None else Known("int64", (), weak=True)


def _one_hot(args: Arguments) -> Known:
    labels = args.array("labels")
    if kind_of(labels.dtype) in ("b", "f", "c"):
        message = f"labels are integers, not {labels.dtype}"
        raise MisfitError(KINDS, message, "convert them: astype(labels, int64)")
    dtype = asked_or("float64")(args)
    if labels.shape is None:
        return Known(dtype)
    length = integer(args.get("length"))
    return Known(dtype, (*labels.shape, None if (length or 0) < 0 else length))


def _powers(args: Arguments) -> Shape:
    shape = args.shape("x")
    if len(shape) != 1:
        raise UnclearError
    return (*shape, args.integer("N", 0) if args.has("N") else shape[0])


_RULES: dict[str, Rule] = {
    "vander": typed(lambda args: join_dtypes((args.dtype("x"), "int64")), _powers),
    "zeros": typed(asked_or("float64"), _shape),
    "ones": typed(asked_or("float64"), _shape),
    "full": typed(_asked_or_of("fill_value"), _shape),
    **{name: typed(_asked_or_of("a"), lambda args: args.shape("a"))
       for name in ("zeros_like", "ones_like", "full_like")},
    "arange": _arange,
    "linspace": typed(_spaced, _steps),
    "logspace": typed(_spaced, _steps),
    "geomspace": typed(_spaced, _steps),
    "eye": typed(asked_or("float64"), _square("N")),
    "tri": typed(asked_or("float64"), _triangular),
    "identity": typed(asked_or("float64"), _square("n")),
    "diag": typed(lambda args: args.dtype("v"), _diagonal),
    "diagflat": typed(lambda args: args.dtype("v"), _flat_diagonal),
    "tril": typed(lambda args: args.dtype("m"), _triangle),
    "triu": typed(lambda args: args.dtype("m"), _triangle),
    "array": typed(_array_dtype, _array),
    "copy": typed(lambda args: args.dtype("a"), lambda args: args.shape("a")),
    "astype": typed(asked_or(None), lambda args: args.shape("x")),
    "int": _number("int64", int),
    "float": _number("float64", float),
    "bool": _number("bool", bool),
    "len": _length,
    "one_hot": _one_hot,
}  # fmt: skip

CREATION = ruled(_CREATION, {**_RULES, **MESH_RULES})
