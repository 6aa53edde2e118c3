"""Infer dtype and shape of random draws, where a size is given."""

from __future__ import annotations

from jobrun.ops.abstract_values import Arguments, Known, Rule, Shape, UnclearError, integer
from jobrun.ops.type_rules.creation import checked_lengths


def _size(given: Arguments) -> Shape:
    if not given.has("size"):
        raise UnclearError
    return checked_lengths(given.lengths("size"))


def _drawn(default: str) -> Rule:
    def rule(given: Arguments) -> Known:
        dtype = given.asked_dtype() if given.has("dtype") else default
        return Known(dtype, _size(given))

    return rule


def _rows(default: str, name: str) -> Rule:
    """Build the type rule of a random draw of vectors (``dirichlet``) as long as its parameter."""

    def rule(given: Arguments) -> Known:
        items = given.shape(name)
        if len(items) != 1:
            raise UnclearError
        return Known(default, (*(_size(given) if given.has("size") else ()), items[0]))

    return rule


def _choice(given: Arguments) -> Known:
    pool = given.array("a")
    if pool.shape is None or given.has("axis"):
        raise UnclearError
    dtype = "int64" if pool.shape == () else pool.dtype
    return Known(dtype, (*_size(given), *pool.shape[1:]))


def _permutation(given: Arguments) -> Known:
    value = given.array("x")
    if value.shape == ():
        return Known("int64", (integer(value),))
    return Known(value.dtype, value.shape)


def _permuted(given: Arguments) -> Known:
    return Known(given.dtype("x"), given.array("x").shape)


_FLOATS = (
    "random standard_normal normal uniform exponential standard_exponential gamma standard_gamma "
    "beta chisquare noncentral_chisquare f noncentral_f gumbel laplace logistic lognormal pareto "
    "power rayleigh standard_cauchy standard_t triangular vonmises wald weibull"
)
_WHOLE = "integers binomial negative_binomial poisson geometric hypergeometric logseries zipf"

DRAW_RULES: dict[str, Rule] = {
    **dict.fromkeys(_FLOATS.split(), _drawn("float64")),
    **dict.fromkeys(_WHOLE.split(), _drawn("int64")),
    "choice": _choice,
    "permutation": _permutation,
    "permuted": _permuted,
    "multinomial": _rows("int64", "pvals"),
    "multivariate_hypergeometric": _rows("int64", "colors"),
    "dirichlet": _rows("float64", "alpha"),
    "multivariate_normal": _rows("float64", "mean"),
}
