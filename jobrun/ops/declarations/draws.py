"""Declare the methods of the random stream ``rng``, with rules for dtype and shape where known.

Left out is whatever works in place or hands the generator itself around.
"""

from __future__ import annotations

from jobrun.ops.abstract_values import Arguments, Known, Rule, Shape, UnclearError, integer
from jobrun.ops.declarations.creation import checked_lengths
from jobrun.ops.definition import DrawDef, ruled

_DRAW_METHODS = (
    DrawDef("random", "(size=None, dtype=float64)", "uniform in [0, 1)", "rng.random(3)"),
    DrawDef("integers", "(low, high=None, size=None, dtype=int64, endpoint=False)",
            "whole numbers from low, below high", "rng.integers(0, 10, size=3)"),
    DrawDef("choice", "(a, size=None, replace=True, p=None, axis=0, shuffle=True)",
            "items of a, or of arange(a)", "rng.choice(10, 3, replace=False)"),
    DrawDef("permutation", "(x, axis=0)", "x in random order, or arange(x)", "rng.permutation(5)"),
    DrawDef("permuted", "(x, *, axis=None)", "each row in a random order of its own",
            "rng.permuted([[1, 2], [3, 4]], axis=1)"),
    DrawDef("uniform", "(low=0.0, high=1.0, size=None)", "uniform in [low, high)",
            "rng.uniform(-1.0, 1.0, 3)"),
    DrawDef("normal", "(loc=0.0, scale=1.0, size=None)", "normal, by mean and deviation",
            "rng.normal(0.0, 2.0, (2, 2))"),
    DrawDef("standard_normal", "(size=None, dtype=float64)", "normal with mean 0, deviation 1",
            "rng.standard_normal(3)"),
    DrawDef("exponential", "(scale=1.0, size=None)", "exponential", "rng.exponential(2.0, 3)"),
    DrawDef("standard_exponential", "(size=None, dtype=float64, method='zig')",
            "exponential of scale 1", "rng.standard_exponential(3)"),
    DrawDef("gamma", "(shape, scale=1.0, size=None)", "gamma", "rng.gamma(2.0, 1.0, 3)"),
    DrawDef("standard_gamma", "(shape, size=None, dtype=float64)", "gamma of scale 1",
            "rng.standard_gamma(2.0, 3)"),
    DrawDef("beta", "(a, b, size=None)", "beta", "rng.beta(2.0, 3.0, 3)"),
    DrawDef("binomial", "(n, p, size=None)", "successes in n trials", "rng.binomial(10, 0.3, 3)"),
    DrawDef("negative_binomial", "(n, p, size=None)", "failures before n successes",
            "rng.negative_binomial(3, 0.5, 3)"),
    DrawDef("poisson", "(lam=1.0, size=None)", "Poisson", "rng.poisson(4.0, 3)"),
    DrawDef("geometric", "(p, size=None)", "trials until a success", "rng.geometric(0.3, 3)"),
    DrawDef("hypergeometric", "(ngood, nbad, nsample, size=None)",
            "good ones in a sample without replacement", "rng.hypergeometric(5, 5, 3, 2)"),
    DrawDef("multinomial", "(n, pvals, size=None)", "counts of n trials over several outcomes",
            "rng.multinomial(10, [0.2, 0.8])"),
    DrawDef("multivariate_normal", "(mean, cov, size=None, *, method='svd')",
            "normal vectors by mean and covariance", "rng.multivariate_normal([0.0, 0.0], eye(2))"),
    DrawDef("multivariate_hypergeometric", "(colors, nsample, size=None, method='marginals')",
            "counts per colour in a sample", "rng.multivariate_hypergeometric([3, 4], 2)"),
    DrawDef("dirichlet", "(alpha, size=None)", "parts of a whole", "rng.dirichlet([1.0, 2.0])"),
    DrawDef("laplace", "(loc=0.0, scale=1.0, size=None)", "Laplace", "rng.laplace(0.0, 1.0, 3)"),
    DrawDef("logistic", "(loc=0.0, scale=1.0, size=None)", "logistic", "rng.logistic(0.0, 1.0, 3)"),
    DrawDef("lognormal", "(mean=0.0, sigma=1.0, size=None)", "exp of a normal",
            "rng.lognormal(0.0, 1.0, 3)"),
    DrawDef("gumbel", "(loc=0.0, scale=1.0, size=None)", "Gumbel", "rng.gumbel(0.0, 1.0, 3)"),
    DrawDef("chisquare", "(df, size=None)", "chi-square", "rng.chisquare(3, 3)"),
    DrawDef("noncentral_chisquare", "(df, nonc, size=None)", "noncentral chi-square",
            "rng.noncentral_chisquare(3, 1.0, 3)"),
    DrawDef("f", "(dfnum, dfden, size=None)", "F", "rng.f(3, 4, 3)"),
    DrawDef("noncentral_f", "(dfnum, dfden, nonc, size=None)", "noncentral F",
            "rng.noncentral_f(3, 4, 1.0, 3)"),
    DrawDef("standard_t", "(df, size=None)", "Student's t", "rng.standard_t(4, 3)"),
    DrawDef("standard_cauchy", "(size=None)", "Cauchy", "rng.standard_cauchy(3)"),
    DrawDef("triangular", "(left, mode, right, size=None)", "triangular",
            "rng.triangular(0.0, 0.5, 1.0, 3)"),
    DrawDef("rayleigh", "(scale=1.0, size=None)", "Rayleigh", "rng.rayleigh(1.0, 3)"),
    DrawDef("weibull", "(a, size=None)", "Weibull", "rng.weibull(2.0, 3)"),
    DrawDef("pareto", "(a, size=None)", "Pareto II", "rng.pareto(3.0, 3)"),
    DrawDef("power", "(a, size=None)", "density a x**(a - 1) in [0, 1]", "rng.power(2.0, 3)"),
    DrawDef("vonmises", "(mu, kappa, size=None)", "von Mises, on the circle",
            "rng.vonmises(0.0, 1.0, 3)"),
    DrawDef("wald", "(mean, scale, size=None)", "inverse Gaussian", "rng.wald(1.0, 1.0, 3)"),
    DrawDef("zipf", "(a, size=None)", "Zipf", "rng.zipf(2.0, 3)"),
    DrawDef("logseries", "(p, size=None)", "logarithmic series", "rng.logseries(0.5, 3)"),
)  # fmt: skip


def _size(args: Arguments) -> Shape:
    if not args.has("size"):
        raise UnclearError
    return checked_lengths(args.lengths("size"))


def _drawn(default: str) -> Rule:
    def rule(args: Arguments) -> Known:
        dtype = args.asked_dtype() if args.has("dtype") else default
        return Known(dtype, _size(args))

    return rule


def _rows(default: str, name: str) -> Rule:
    """Build the type rule of a random draw whose rows are as long as an argument (``mean``)."""

    def rule(args: Arguments) -> Known:
        items = args.shape(name)
        if len(items) != 1:
            raise UnclearError
        return Known(default, (*(_size(args) if args.has("size") else ()), items[0]))

    return rule


def _choice(args: Arguments) -> Known:
    pool = args.array("a")
    if pool.shape is None or args.has("axis"):
        raise UnclearError
    dtype = "int64" if pool.shape == () else pool.dtype
    return Known(dtype, (*_size(args), *pool.shape[1:]))


def _permutation(args: Arguments) -> Known:
    value = args.array("x")
    if value.shape == ():
        return Known("int64", (integer(value),))
    return Known(value.dtype, value.shape)


def _permuted(args: Arguments) -> Known:
    return Known(args.dtype("x"), args.array("x").shape)


_FLOATS = (
    "random standard_normal normal uniform exponential standard_exponential gamma standard_gamma "
    "beta chisquare noncentral_chisquare f noncentral_f gumbel laplace logistic lognormal pareto "
    "power rayleigh standard_cauchy standard_t triangular vonmises wald weibull"
)
_WHOLE = "integers binomial negative_binomial poisson geometric hypergeometric logseries zipf"

_RULES: dict[str, Rule] = {
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

DRAW_METHODS = ruled(_DRAW_METHODS, _RULES)
