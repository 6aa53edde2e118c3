"""Infer dtype and shape of Fourier transforms, polynomials, ``kron``, ``eig``, ``lstsq``, …."""

from __future__ import annotations

import math

from jobrun.ops.abstract_values import (
    SHAPES,
    Arguments,
    Known,
    MisfitError,
    Rule,
    Shape,
    UnclearError,
    axis_of,
    clash,
    integer,
    joint_shape,
    shape_text,
    sure,
    typed,
)
from jobrun.ops.dtype_promotion import join_dtypes, kind_of
from jobrun.ops.type_rules.elementwise import half
from jobrun.ops.type_rules.linear import exact_dtype, square

_NARROW = ("float32", "complex64")


def _fourier_dtype(given: Arguments) -> str | None:
    dtype = given.dtype("a")
    return None if dtype == "float16" else "complex64" if dtype in _NARROW else "complex128"


def _real_dtype(given: Arguments) -> str | None:
    dtype = given.dtype("a")
    return None if dtype == "float16" else "float32" if dtype in _NARROW else "float64"


def _along(given: Arguments) -> tuple[Shape, int, int | None]:
    """Infer the shape of a Fourier transform, its axis, and the number of items used along it."""
    shape = given.shape("a")
    if not shape:
        raise UnclearError
    axis = axis_of(given.integer("axis", -1), len(shape))
    return shape, axis, given.integer("n", 0) if given.has("n") else None


def _with_length(shape: Shape, axis: int, length: int | None) -> Shape:
    return (*shape[:axis], length, *shape[axis + 1 :])


def _whole(given: Arguments) -> Shape:
    shape, axis, count = _along(given)
    return shape if count is None else _with_length(shape, axis, count)


def _half(given: Arguments) -> Shape:
    shape, axis, count = _along(given)
    count = shape[axis] if count is None else count
    return _with_length(shape, axis, None if count is None else count // 2 + 1)


def _from_half(given: Arguments) -> Shape:
    shape, axis, count = _along(given)
    length = shape[axis]
    twice = None if length is None else 2 * (length - 1)
    return _with_length(shape, axis, twice if count is None else count)


def _plane(given: Arguments) -> Shape:
    if given.has("s"):
        raise UnclearError
    return given.shape("a")


def _plane_dtype(given: Arguments) -> str | None:
    # Over no axes at all nothing is transformed.
    return None if "axes" in given.given else _fourier_dtype(given)


def _half_frequencies(given: Arguments) -> Known:
    count, spacing = integer(given.get("n")), given.array("d")
    if given.has("d") and spacing.shape != ():
        raise UnclearError
    real = not given.has("d") or (spacing.weak is True and kind_of(spacing.dtype) in ("i", "f"))
    length = None if count is None else max(0, count // 2 + 1)
    return Known("float64" if real else None, (length,))


def _pair(first: str, second: str, given: Arguments) -> str | None:
    # A Python number is an array by itself there.
    return join_dtypes((given.array(first).dtype, given.array(second).dtype))


def _kronecker(given: Arguments) -> Shape:
    left, right = given.shape("a"), given.shape("b")
    rank = max(len(left), len(right))
    padded = ((1,) * (rank - len(one)) + one for one in (left, right))
    return tuple(
        None if one is None or two is None else math.prod((one, two))
        for one, two in zip(*padded, strict=True)
    )


def _crossed(given: Arguments) -> Shape:
    left, right = given.shape("a"), given.shape("b")
    if given.has("axis") or left[-1:] != (3,) or right[-1:] != (3,):
        raise UnclearError
    return joint_shape(left, right)


def _eigen(given: Arguments) -> tuple[Known, ...]:
    # Whether values are complex is decided by the values.
    shape = square(given.shape("a"))
    return Known(None, shape[:-1]), Known(None, shape)


def _least_squares(given: Arguments) -> tuple[Known, ...]:
    matrix, right = given.shape("a"), given.shape("b")
    if len(matrix) != 2 or len(right) not in (1, 2):
        raise UnclearError
    if given.has("rcond") and given.shape("rcond"):
        # An array of one number is taken too, and adds its axes to those of the results.
        raise UnclearError
    if clash(matrix[0], right[0]):
        message = f"{shape_text(matrix)} and {shape_text(right)} differ in their rows"
        raise MisfitError(SHAPES, message, "give as many right sides as the matrix has rows")
    dtype = join_dtypes((exact_dtype(given.dtype("a")), exact_dtype(given.dtype("b"))))
    rows, columns = matrix
    short = None if rows is None or columns is None else min(rows, columns)
    return (
        Known(dtype, (columns, *right[1:])),
        Known(None if dtype is None else half(dtype), (None,)),
        Known(),
        Known(None if dtype is None else half(dtype), (short,)),
    )


def _fitted(given: Arguments) -> Known:
    degree = sure(integer(given.get("deg")))
    both = (given.array("x").dtype, given.array("y").dtype) == ("float64", "float64")
    return Known("float64" if both else None, (degree + 1, *given.shape("y")[1:]))


def _polynomial(given: Arguments) -> Shape:
    if len(given.shape("p")) != 1:
        raise UnclearError
    return given.shape("x")


def _polynomial_dtype(given: Arguments) -> str | None:
    # Without coefficients it is nought, of the dtype of x.
    lengths = given.shape("p")
    return _pair("p", "x", given) if lengths and sure(lengths[0]) > 0 else None


def _powers(given: Arguments) -> Shape:
    shape = given.shape("x")
    if len(shape) != 1:
        raise UnclearError
    return (*shape, given.integer("N", 0) if given.has("N") else shape[0])


def _smooth_dtype(given: Arguments) -> str | None:
    dtype = given.dtype("p")
    return dtype if kind_of(dtype) == "f" else None


POWER_RULES: dict[str, Rule] = {
    "vander": typed(lambda given: join_dtypes((given.dtype("x"), "int64")), _powers),
}
TRANSFORM_RULES: dict[str, Rule] = {
    "fft": typed(_fourier_dtype, _whole),
    "ifft": typed(_fourier_dtype, _whole),
    "rfft": typed(_fourier_dtype, _half),
    "irfft": typed(_real_dtype, _from_half),
    "fft2": typed(_plane_dtype, _plane),
    "ifft2": typed(_plane_dtype, _plane),
    "rfftfreq": _half_frequencies,
    "kron": typed(lambda given: _pair("a", "b", given), _kronecker),
    "cross": typed(lambda given: _pair("a", "b", given), _crossed),
    "eig": _eigen,
    "eigvals": lambda given: _eigen(given)[0],
    "lstsq": _least_squares,
    "polyfit": _fitted,
    "polyval": typed(_polynomial_dtype, _polynomial),
    "unwrap": typed(_smooth_dtype, lambda given: given.shape("p")),
}
