"""Declare matrix products and decompositions, with rules for dtype and shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from jobrun.ops.abstract_values import (
    KINDS,
    SHAPES,
    Arguments,
    Known,
    MisfitError,
    Rule,
    Shape,
    UnclearError,
    as_array,
    clash,
    items_in,
    joint_shape,
    promote,
    shape_text,
    typed,
)
from jobrun.ops.declarations.elementwise import half, same
from jobrun.ops.declarations.shaping import too_few_axes
from jobrun.ops.definition import OpDef, numpy_op, ruled
from jobrun.ops.dtype_promotion import join_dtypes, kind_of

_op = numpy_op
_linalg = partial(numpy_op, module="numpy.linalg")

_PRODUCTS = (
    _op("matmul", "(x1, x2, /)", "x1 @ x2", "matmul(eye(2), [1.0, 2.0])"),
    _op("dot", "(a, b)", "sum of products over the last axis of a", "dot([1, 2], [3, 4])"),
    _op("vdot", "(a, b, /)", "sum of products of all items", "vdot([1j, 2], [3, 4])"),
    _op("inner", "(a, b, /)", "sum of products over the last axes", "inner([1, 2], [3, 4])"),
    _op("outer", "(a, b)", "each item of a times each of b", "outer([1, 2], [3, 4])"),
    # Without a sum numpy returns a view.
    _op("einsum", "(subscripts, /, *operands, optimize=False)", "sums of products by subscripts",
        "einsum('ij,j->i', eye(2), [1.0, 2.0])", shares=True),
    _op("tensordot", "(a, b, axes=2)", "sum of products over some axes",
        "tensordot(eye(2), eye(2), axes=1)"),
    _op("kron", "(a, b)", "Kronecker product", "kron([1, 10], [1, 2])"),
    _op("cross", "(a, b, *, axis=-1)", "cross product of vectors of length 3",
        "cross([1, 0, 0], [0, 1, 0])"),
    _op("trace", "(a, offset=0, axis1=0, axis2=1, dtype=None)", "sum of a diagonal",
        "trace(eye(3))"),
)  # fmt: skip

_LINALG = (
    _linalg("norm", "(x, ord=None, axis=None, keepdims=False)", "length of vectors or matrices",
            "norm([3.0, 4.0])"),
    _linalg("solve", "(a, b)", "x with a @ x == b", "solve(2.0 * eye(2), [2.0, 4.0])"),
    _linalg("lstsq", "(a, b, rcond=None)", "least squares: solution, residuals, rank, values",
            "lstsq(ones((3, 1)), [1.0, 2.0, 3.0])", 4),
    _linalg("inv", "(a)", "inverse; solve is more exact", "inv(2.0 * eye(2))"),
    _linalg("pinv", "(a, rcond=None)", "pseudo-inverse", "pinv(ones((3, 2)))"),
    _linalg("det", "(a)", "determinant", "det(2.0 * eye(2))"),
    _linalg("slogdet", "(a)", "sign and log of the determinant", "slogdet(2.0 * eye(2))", 2),
    _linalg("cholesky", "(a, /)", "lower triangle L with L @ L.T == a", "cholesky(4.0 * eye(2))"),
    _linalg("qr", "(a)", "orthonormal Q and upper triangle R", "qr(ones((3, 2)))", 2),
    _linalg("svd", "(a, full_matrices=True)", "U, singular values, V.T",
            "svd(ones((3, 2)), False)", 3),
    _linalg("eigh", "(a, UPLO='L')", "values and vectors of a symmetric matrix", "eigh(eye(2))", 2),
    _linalg("eigvalsh", "(a, UPLO='L')", "values of a symmetric matrix", "eigvalsh(eye(2))"),
    _linalg("eig", "(a)", "values and vectors of a square matrix", "eig(eye(2))", 2),
    _linalg("eigvals", "(a)", "values of a square matrix", "eigvals(eye(2))"),
    _linalg("matrix_rank", "(A, tol=None)", "rank", "matrix_rank(ones((3, 2)))"),
    OpDef("matrix_power", "(a, n)", "numpy.linalg:matrix_power", "a @ a @ …, n times",
          "matrix_power(2.0 * eye(2), 3)", shares_memory=True),
    _linalg("cond", "(x, p=None)", "condition number", "cond(eye(2))"),
)  # fmt: skip


def matmul(lhs: Known, rhs: Known) -> Known:
    """Infer dtype and shape of a matrix product, for ``matmul`` and ``@`` in linear algebra.

    Raises:
        MisfitError: The inner lengths differ, or one is a single number.
    """
    shape = None
    if lhs.shape is not None and rhs.shape is not None:
        shape = product_shape(lhs.shape, rhs.shape)
    for operand in (lhs, rhs):
        if operand.shape == ():
            raise MisfitError(SHAPES, "a single number cannot stand beside @", "write *")
    return Known(promote(lhs, rhs), shape)


def product_shape(lhs: Shape, rhs: Shape) -> Shape:
    """Infer the shape of a matrix product from two shapes, for rules of linear algebra."""
    if not lhs or not rhs:
        raise MisfitError(SHAPES, "a single number cannot stand beside @", "write *")
    inner = rhs[-2] if len(rhs) > 1 else rhs[0]
    if clash(lhs[-1], inner):
        message = (
            f"shapes {shape_text(lhs)} and {shape_text(rhs)} cannot be multiplied: "
            f"{lhs[-1]} is not {inner}"
        )
        mend = "the last length of the left must be the last but one of the right; .T turns one"
        raise MisfitError(SHAPES, message, mend)
    batch = joint_shape(lhs[:-2], rhs[:-2])
    return batch + (lhs[-2:-1] if len(lhs) > 1 else ()) + (rhs[-1:] if len(rhs) > 1 else ())


def _dot(args: Arguments) -> Shape:
    lhs, rhs = args.shape("a"), args.shape("b")
    if not lhs or not rhs:
        return lhs or rhs
    if len(rhs) > 2:
        raise UnclearError
    return product_shape(lhs, rhs)


def pair_dtype(first: str, second: str) -> Callable[[Arguments], str | None]:
    """Build the dtype rule of a function of linear algebra on two arrays: their common dtype."""
    # numpy first makes an array of a Python number: it is not weak here.
    return lambda args: join_dtypes((args.array(first).dtype, args.array(second).dtype))


def _outer(args: Arguments) -> Shape:
    lengths = []
    for name in ("a", "b"):
        shape = args.shape(name)
        if len(shape) > 1:
            raise UnclearError
        lengths.append(shape[0] if shape else 1)
    return tuple(lengths)


def _inner(args: Arguments) -> Shape:
    lhs, rhs = args.shape("a"), args.shape("b")
    if not lhs or not rhs:
        return lhs or rhs
    if clash(lhs[-1], rhs[-1]):
        message = f"the last lengths of {shape_text(lhs)} and {shape_text(rhs)} differ"
        raise MisfitError(SHAPES, message, "inner sums over the last axes of both")
    return lhs[:-1] + rhs[:-1]


def _trace(args: Arguments) -> Shape:
    shape = args.shape("a")
    if len(shape) < 2:
        raise too_few_axes(shape, 2)
    if args.has("axis1") or args.has("axis2"):
        raise UnclearError
    return shape[2:]


def exact_dtype(dtype: str) -> str:
    """Infer the dtype in which linear algebra (LAPACK) computes for a dtype.

    Raises:
        MisfitError: There is none.
    """
    if dtype == "float16":
        message = "float16 is not known to linear algebra"
        raise MisfitError(KINDS, message, "convert it first: astype(x, float32)")
    return dtype if kind_of(dtype) in ("f", "c") else "float64"


def square(shape: Shape) -> Shape:
    """Require the shape of a square matrix, or a stack of them, for linear algebra; return it.

    Raises:
        MisfitError: It is none.
    """
    if len(shape) < 2:
        raise too_few_axes(shape, 2)
    if clash(shape[-1], shape[-2]):
        message = f"a matrix of shape {shape_text(shape)} is not square"
        raise MisfitError(SHAPES, message, "give as many rows as columns, such as A @ A.T")
    return shape


def _matrix(shape: Shape) -> Shape:
    if len(shape) < 2:
        raise too_few_axes(shape, 2)
    return shape


def _squares(name: str, *results: tuple[Callable[[str], str], int]) -> Rule:
    """Build the type rule of functions of linear algebra on square matrices."""

    def rule(args: Arguments) -> Known | tuple[Known, ...]:
        known = args.array(name)
        shape = None if known.shape is None else square(known.shape)
        dtype = exact_dtype(known.dtype) if kind_of(known.dtype) and known.dtype else None
        known_results = tuple(
            Known(
                None if dtype is None else result(dtype),
                None if shape is None else shape[: len(shape) - 2 + axes],
            )
            for result, axes in results
        )
        return known_results[0] if len(known_results) == 1 else known_results

    return rule


def _solve(args: Arguments) -> Known:
    matrix, right_side = args.array("a"), args.array("b")
    shape = None
    if matrix.shape is not None:
        lengths = square(matrix.shape)
        if right_side.shape is not None and len(right_side.shape) < 3 and len(lengths) == 2:
            if right_side.shape and clash(lengths[0], right_side.shape[0]):
                shapes = f"{shape_text(lengths)} and {shape_text(right_side.shape)}"
                message = (
                    f"shapes {shapes} cannot be solved: {lengths[0]} is not {right_side.shape[0]}"
                )
                raise MisfitError(SHAPES, message, "give as many right sides as rows")
            shape = right_side.shape or None
    dtypes = [
        exact_dtype(side.dtype)
        for side in (matrix, right_side)
        if side.dtype is not None and kind_of(side.dtype)
    ]
    return Known(join_dtypes(dtypes) if len(dtypes) == 2 else None, shape)


def _shortest(shape: Shape) -> int | None:
    rows, columns = shape[-2:]
    return None if rows is None or columns is None else min(rows, columns)


def _qr(args: Arguments) -> tuple[Known, ...]:
    shape, dtype = _matrix(args.shape("a")), exact_dtype(args.dtype("a"))
    short = _shortest(shape)
    return (Known(dtype, (*shape[:-1], short)), Known(dtype, (*shape[:-2], short, shape[-1])))


def _svd(args: Arguments) -> tuple[Known, ...]:
    shape, dtype = _matrix(args.shape("a")), exact_dtype(args.dtype("a"))
    full = args.flag("full_matrices") if "full_matrices" in args.by_name else True
    rows, columns = shape[-2:]
    short = _shortest(shape)
    batch = shape[:-2]
    return (
        Known(dtype, (*batch, rows, rows if full else short)),
        Known(half(dtype), (*batch, short)),
        Known(dtype, (*batch, columns if full else short, columns)),
    )


def _norm(args: Arguments) -> Shape:
    shape = args.shape("x")
    axes = args.axes("axis", len(shape))
    keep = args.flag("keepdims")
    if axes is None and args.has("ord") and len(shape) not in (1, 2):
        raise UnclearError
    gone = range(len(shape)) if axes is None else axes
    if keep:
        return tuple(1 if at in gone else length for at, length in enumerate(shape))
    return tuple(length for at, length in enumerate(shape) if at not in gone)


def _norm_dtype(args: Arguments) -> str | None:
    dtype = args.dtype("x")
    if args.has("ord"):
        return None
    return half(dtype) if kind_of(dtype) in ("f", "c") else "float64"


def _pinv(args: Arguments) -> Shape:
    shape = _matrix(args.shape("a"))
    return (*shape[:-2], shape[-1], shape[-2])


def _pinv_dtype(args: Arguments) -> str | None:
    return exact_dtype(args.dtype("a")) if items_in(args.shape("a")) else None


def _condition(args: Arguments) -> Shape:
    return _matrix(args.shape("x"))[:-2]


def _rank(args: Arguments) -> Shape:
    shape = args.shape("A")
    if len(shape) < 2 or args.has("tol"):
        raise UnclearError
    return shape[:-2]


def _einsum(args: Arguments) -> Known:
    subscripts = args.word("subscripts", "")
    operands = [as_array(operand) for operand in args.variadic]
    dtype = join_dtypes(operand.dtype for operand in operands)
    return Known(
        dtype, _einsum_shape(subscripts.replace(" ", ""), [operand.shape for operand in operands])
    )


def _einsum_shape(subscripts: str, shapes: list[Shape | None]) -> Shape:
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    letters = inputs.replace(",", "")
    if not letters.isalpha() or len(terms) != len(shapes):
        raise UnclearError
    if not arrow:
        output = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    lengths: dict[str, int | None] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if shape is None:
            continue
        if len(term) != len(shape):
            message = f"'{term}' names {len(term)} axes, and the shape is {shape_text(shape)}"
            raise MisfitError(SHAPES, message, "name each axis by one letter")
        for letter, length in zip(term, shape, strict=True):
            known = lengths.get(letter)
            if clash(known, length) and 1 not in (known, length):
                message = f"axis '{letter}' is {known} long in one operand and {length} in another"
                raise MisfitError(SHAPES, message, "axes of one letter must be of one length")
            lengths[letter] = length if known in (None, 1) else known
    return tuple(lengths.get(letter) for letter in output)


def _tensordot(args: Arguments) -> Shape:
    lhs, rhs = args.shape("a"), args.shape("b")
    count = args.integer("axes", 2)
    if count < 0 or count > min(len(lhs), len(rhs)):
        raise UnclearError
    inner = zip(lhs[len(lhs) - count :], rhs[:count], strict=True)
    if any(clash(lhs_length, rhs_length) for lhs_length, rhs_length in inner):
        message = f"{shape_text(lhs)} and {shape_text(rhs)} do not fit over {count} axes"
        mend = "the last lengths of the left must be the first of the right"
        raise MisfitError(SHAPES, message, mend)
    return lhs[: len(lhs) - count] + rhs[count:]


def _kronecker(args: Arguments) -> Shape:
    lhs, rhs = args.shape("a"), args.shape("b")
    rank = max(len(lhs), len(rhs))
    padded = ((1,) * (rank - len(shape)) + shape for shape in (lhs, rhs))
    return tuple(
        None if lhs_length is None or rhs_length is None else math.prod((lhs_length, rhs_length))
        for lhs_length, rhs_length in zip(*padded, strict=True)
    )


def _crossed(args: Arguments) -> Shape:
    lhs, rhs = args.shape("a"), args.shape("b")
    if args.has("axis") or lhs[-1:] != (3,) or rhs[-1:] != (3,):
        raise UnclearError
    return joint_shape(lhs, rhs)


def _eigen(args: Arguments) -> tuple[Known, ...]:
    # Whether values are complex is decided by the values.
    shape = square(args.shape("a"))
    return Known(None, shape[:-1]), Known(None, shape)


def _least_squares(args: Arguments) -> tuple[Known, ...]:
    matrix, right_side = args.shape("a"), args.shape("b")
    if len(matrix) != 2 or len(right_side) not in (1, 2):
        raise UnclearError
    if args.has("rcond") and args.shape("rcond"):
        # numpy also accepts an array of one number, and adds its axes to those of the results.
        raise UnclearError
    if clash(matrix[0], right_side[0]):
        message = f"{shape_text(matrix)} and {shape_text(right_side)} differ in their rows"
        raise MisfitError(SHAPES, message, "give as many right sides as the matrix has rows")
    dtype = join_dtypes((exact_dtype(args.dtype("a")), exact_dtype(args.dtype("b"))))
    rows, columns = matrix
    short = None if rows is None or columns is None else min(rows, columns)
    return (
        Known(dtype, (columns, *right_side[1:])),
        Known(None if dtype is None else half(dtype), (None,)),
        Known(),
        Known(None if dtype is None else half(dtype), (short,)),
    )


_RULES: dict[str, Rule] = {
    "matmul": lambda args: matmul(args.array("x1"), args.array("x2")),
    "dot": typed(pair_dtype("a", "b"), _dot),
    "vdot": typed(pair_dtype("a", "b"), lambda _: ()),
    "inner": typed(pair_dtype("a", "b"), _inner),
    "outer": typed(pair_dtype("a", "b"), _outer),
    "trace": typed(lambda _: None, _trace),
    "einsum": _einsum,
    "tensordot": typed(pair_dtype("a", "b"), _tensordot),
    "norm": typed(_norm_dtype, _norm),
    "solve": _solve,
    "inv": _squares("a", (same, 2)),
    "det": _squares("a", (same, 0)),
    "slogdet": _squares("a", (same, 0), (half, 0)),
    "cholesky": _squares("a", (same, 2)),
    "eigh": _squares("a", (half, 1), (same, 2)),
    "eigvalsh": _squares("a", (half, 1)),
    "matrix_power": typed(lambda _: None, lambda args: square(args.shape("a"))),
    "qr": _qr,
    "svd": _svd,
    "pinv": typed(_pinv_dtype, _pinv),
    "matrix_rank": typed(lambda _: "int64", _rank),
    "cond": typed(lambda _: None, _condition),
    "kron": typed(pair_dtype("a", "b"), _kronecker),
    "cross": typed(pair_dtype("a", "b"), _crossed),
    "eig": _eigen,
    "eigvals": lambda args: _eigen(args)[0],
    "lstsq": _least_squares,
}

LINEAR = ruled((*_PRODUCTS, *_LINALG), _RULES)
