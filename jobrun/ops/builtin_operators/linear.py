"""Declare the operators of linear algebra, signals and polynomials."""

from __future__ import annotations

from jobrun.ops.definition import OpDef, ruled
from jobrun.ops.type_rules.linear import LINEAR_RULES
from jobrun.ops.type_rules.transforms import TRANSFORM_RULES


def _op(name: str, signature: str, doc: str, example: str, *, shares: bool = False) -> OpDef:
    return OpDef(name, signature, f"numpy:{name}", doc, example, shares_memory=shares)


def _linalg(name: str, signature: str, doc: str, example: str, results: int = 1) -> OpDef:
    return OpDef(name, signature, f"numpy.linalg:{name}", doc, example, results=results)


def _fft(
    name: str, doc: str, example: str, signature: str = "(a, n=None, axis=-1, norm=None)"
) -> OpDef:
    return OpDef(name, signature, f"numpy.fft:{name}", doc, example)


_PRODUCTS = (
    _op("matmul", "(x1, x2, /)", "x1 @ x2", "matmul(eye(2), [1.0, 2.0])"),
    _op("dot", "(a, b)", "sum of products over the last axis of a", "dot([1, 2], [3, 4])"),
    _op("vdot", "(a, b, /)", "sum of products of all items", "vdot([1j, 2], [3, 4])"),
    _op("inner", "(a, b, /)", "sum of products over the last axes", "inner([1, 2], [3, 4])"),
    _op("outer", "(a, b)", "each item of a times each of b", "outer([1, 2], [3, 4])"),
    # Where nothing is summed numpy answers with a view.
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
    # Over no axes at all it is the very array.
    OpDef("fft2", "(a, s=None, axes=(-2, -1))", "numpy.fft:fft2",
          "Fourier transform over two axes", "fft2(eye(2))", shares_memory=True),
    OpDef("ifft2", "(a, s=None, axes=(-2, -1))", "numpy.fft:ifft2", "inverse of fft2",
          "ifft2(eye(2))", shares_memory=True),
    _fft("fftfreq", "frequencies of the items of fft", "fftfreq(4, 0.5)", "(n, d=1.0)"),
    _fft("rfftfreq", "frequencies of the items of rfft", "rfftfreq(4, 0.5)", "(n, d=1.0)"),
    _fft("fftshift", "frequency 0 moved to the middle", "fftshift([0, 1, 2, 3])", "(x, axes=None)"),
    _fft("ifftshift", "inverse of fftshift", "ifftshift([2, 3, 0, 1])", "(x, axes=None)"),
)  # fmt: skip

LINEAR = ruled((*_PRODUCTS, *_LINALG, *_SIGNALS), {**LINEAR_RULES, **TRANSFORM_RULES})
