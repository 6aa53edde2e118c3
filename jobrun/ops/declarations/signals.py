"""Declare Fourier transforms, polynomials, convolution and interpolation, with their type rules."""

from __future__ import annotations

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
    scalar,
    shape_text,
    sure,
    typed,
)
from jobrun.ops.declarations.linear import pair_dtype
from jobrun.ops.definition import OpDef, numpy_op, ruled
from jobrun.ops.dtype_promotion import kind_of

_NARROW = ("float32", "complex64")


_op = numpy_op


def _fft(
    name: str, doc: str, example: str, signature: str = "(a, n=None, axis=-1, norm=None)"
) -> OpDef:
    return numpy_op(name, signature, doc, example, module="numpy.fft")


_SIGNALS = (
    _op("convolve", "(a, v, mode='full')", "convolution of two rows", "convolve([1, 2], [1, 1])"),
    _op("correlate", "(a, v, mode='valid')", "correlation of two rows",
        "correlate([1, 2, 3], [0, 1])"),
    _op("interp", "(x, xp, fp, left=None, right=None, period=None)",
        "linear interpolation between points", "interp(1.5, [1.0, 2.0], [10.0, 20.0])"),
    _op("unwrap", "(p, discont=None, axis=-1)", "angles without jumps of 2 pi",
        "unwrap([0.0, 6.0])"),
    _op("polyfit", "(x, y, deg)", "coefficients of the best polynomial, highest first",
        "polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1)"),
    _op("polyval", "(p, x)", "value of a polynomial, highest coefficient first",
        "polyval([2.0, 1.0], 3.0)"),
    _fft("fft", "discrete Fourier transform", "fft([1.0, 0.0, 0.0, 0.0])"),
    _fft("ifft", "inverse of fft", "ifft([1.0, 1.0, 1.0, 1.0])"),
    _fft("rfft", "Fourier transform of real numbers", "rfft([1.0, 0.0, 0.0, 0.0])"),
    _fft("irfft", "inverse of rfft", "irfft([1.0, 1.0, 1.0])"),
    # With empty axes numpy returns the argument itself.
    OpDef("fft2", "(a, s=None, axes=(-2, -1))", "numpy.fft:fft2",
          "Fourier transform over two axes", "fft2(eye(2))", shares_memory=True),
    OpDef("ifft2", "(a, s=None, axes=(-2, -1))", "numpy.fft:ifft2", "inverse of fft2",
          "ifft2(eye(2))", shares_memory=True),
    _fft("fftfreq", "frequencies of the items of fft", "fftfreq(4, 0.5)", "(n, d=1.0)"),
    _fft("rfftfreq", "frequencies of the items of rfft", "rfftfreq(4, 0.5)", "(n, d=1.0)"),
    _fft("fftshift", "frequency 0 moved to the middle", "fftshift([0, 1, 2, 3])", "(x, axes=None)"),
    _fft("ifftshift", "inverse of fftshift", "ifftshift([2, 3, 0, 1])", "(x, axes=None)"),
)  # fmt: skip


def _convolved(args: Arguments) -> Shape:
    lengths = []
    for name in ("a", "v"):
        shape = args.shape(name)
        if len(shape) != 1:
            raise UnclearError
        lengths.append(sure(shape[0]))
    short, long = sorted(lengths)
    if short == 0:
        raise UnclearError
    mode = args.word("mode", "full")
    lengths_by_mode = {"full": long + short - 1, "same": long, "valid": long - short + 1}
    return (sure(lengths_by_mode.get(mode)),)


def _correlated(args: Arguments) -> Shape:
    if args.has("mode"):
        return _convolved(args)
    return _convolved(Arguments({**args.by_name, "mode": scalar("valid")}))


def _interpolated(args: Arguments) -> Known:
    values = args.array("fp")
    dtype = "complex128" if kind_of(values.dtype) == "c" else "float64"
    points = args.array("xp").shape
    if points is not None and values.shape is not None and points != values.shape:
        unequal = len(points) != len(values.shape) or clash(points[0], values.shape[0])
        if unequal:
            message = f"xp {shape_text(points)} and fp {shape_text(values.shape)} differ"
            raise MisfitError(SHAPES, message, "give one fp for each xp")
    return Known(dtype if values.dtype else None, args.array("x").shape)


def _frequencies(args: Arguments) -> Known:
    spacing = args.array("d")
    if args.has("d") and spacing.shape != ():
        raise UnclearError
    real = not args.has("d") or (spacing.weak is True and kind_of(spacing.dtype) in ("i", "f"))
    return Known("float64" if real else None, args.lengths("n"))


def _fourier_dtype(args: Arguments) -> str | None:
    dtype = args.dtype("a")
    return None if dtype == "float16" else "complex64" if dtype in _NARROW else "complex128"


def _real_dtype(args: Arguments) -> str | None:
    dtype = args.dtype("a")
    return None if dtype == "float16" else "float32" if dtype in _NARROW else "float64"


def _along(args: Arguments) -> tuple[Shape, int, int | None]:
    """Infer the shape of a Fourier transform, its axis, and the number of items used along it."""
    shape = args.shape("a")
    if not shape:
        raise UnclearError
    axis = axis_of(args.integer("axis", -1), len(shape))
    return shape, axis, args.integer("n", 0) if args.has("n") else None


def _with_length(shape: Shape, axis: int, length: int | None) -> Shape:
    return (*shape[:axis], length, *shape[axis + 1 :])


def _whole(args: Arguments) -> Shape:
    shape, axis, count = _along(args)
    return shape if count is None else _with_length(shape, axis, count)


def _half(args: Arguments) -> Shape:
    shape, axis, count = _along(args)
    count = shape[axis] if count is None else count
    return _with_length(shape, axis, None if count is None else count // 2 + 1)


def _from_half(args: Arguments) -> Shape:
    shape, axis, count = _along(args)
    length = shape[axis]
    twice = None if length is None else 2 * (length - 1)
    return _with_length(shape, axis, twice if count is None else count)


def _plane(args: Arguments) -> Shape:
    if args.has("s"):
        raise UnclearError
    return args.shape("a")


def _plane_dtype(args: Arguments) -> str | None:
    # With an empty ``axes`` nothing is transformed and the dtype stays.
    return None if "axes" in args.by_name else _fourier_dtype(args)


def _half_frequencies(args: Arguments) -> Known:
    count, spacing = integer(args.get("n")), args.array("d")
    if args.has("d") and spacing.shape != ():
        raise UnclearError
    real = not args.has("d") or (spacing.weak is True and kind_of(spacing.dtype) in ("i", "f"))
    length = None if count is None else max(0, count // 2 + 1)
    return Known("float64" if real else None, (length,))


def _fitted(args: Arguments) -> Known:
    degree = sure(integer(args.get("deg")))
    both = (args.array("x").dtype, args.array("y").dtype) == ("float64", "float64")
    return Known("float64" if both else None, (degree + 1, *args.shape("y")[1:]))


def _polynomial(args: Arguments) -> Shape:
    if len(args.shape("p")) != 1:
        raise UnclearError
    return args.shape("x")


def _polynomial_dtype(args: Arguments) -> str | None:
    # Without coefficients the result is 0 in the dtype of ``x``.
    lengths = args.shape("p")
    return pair_dtype("p", "x")(args) if lengths and sure(lengths[0]) > 0 else None


def _smooth_dtype(args: Arguments) -> str | None:
    dtype = args.dtype("p")
    return dtype if kind_of(dtype) == "f" else None


_RULES: dict[str, Rule] = {
    "convolve": typed(pair_dtype("a", "v"), _convolved),
    "correlate": typed(pair_dtype("a", "v"), _correlated),
    "interp": _interpolated,
    "fftfreq": _frequencies,
    "fftshift": typed(lambda args: args.dtype("x"), lambda args: args.shape("x")),
    "ifftshift": typed(lambda args: args.dtype("x"), lambda args: args.shape("x")),
    "fft": typed(_fourier_dtype, _whole),
    "ifft": typed(_fourier_dtype, _whole),
    "rfft": typed(_fourier_dtype, _half),
    "irfft": typed(_real_dtype, _from_half),
    "fft2": typed(_plane_dtype, _plane),
    "ifft2": typed(_plane_dtype, _plane),
    "rfftfreq": _half_frequencies,
    "polyfit": _fitted,
    "polyval": typed(_polynomial_dtype, _polynomial),
    "unwrap": typed(_smooth_dtype, lambda args: args.shape("p")),
}

SIGNALS = ruled(_SIGNALS, _RULES)
