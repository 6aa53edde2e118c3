"""Declare the operators that reduce arrays, along an axis or to one number."""

from __future__ import annotations

from jobrun.ops.definition import OpDef, ruled
from jobrun.ops.type_rules.reduction import REDUCTION_RULES

# numpy's third argument by position is the dtype or 'out': whatever differs from function to
# function is given by name.
_PLAIN = "(a, axis=None, *, keepdims=False)"
_TYPED = "(a, axis=None, dtype=None, *, keepdims=False)"
_SPREAD = "(a, axis=None, dtype=None, *, ddof=0, keepdims=False)"
_RANKED = "(a, q, axis=None, *, method='linear', keepdims=False)"
_RUNNING = "(a, axis=None, dtype=None)"


def _op(name: str, signature: str, doc: str, example: str, *, results: int = 1) -> OpDef:
    return OpDef(name, signature, f"numpy:{name}", doc, example, results=results)


_REDUCTION = (
    _op("sum", _TYPED, "sum", "sum([[1, 2], [3, 4]], axis=0)"),
    _op("prod", _TYPED, "product", "prod([[1, 2], [3, 4]], axis=0)"),
    _op("mean", _TYPED, "mean", "mean([[1.0, 2.0], [3.0, 4.0]], axis=0)"),
    _op("std", _SPREAD, "standard deviation, over n - ddof", "std([1.0, 2.0, 4.0], ddof=1)"),
    _op("var", _SPREAD, "variance, over n - ddof", "var([1.0, 2.0, 4.0], ddof=1)"),
    _op("min", _PLAIN, "smallest item; nan wins", "min([[3, 1], [2, 4]], axis=1)"),
    _op("max", _PLAIN, "largest item; nan wins", "max([[3, 1], [2, 4]], axis=1)"),
    _op("ptp", _PLAIN, "largest minus smallest item", "ptp([3, 1, 7])"),
    _op("argmin", _PLAIN, "index of the first smallest item", "argmin([[3, 1], [2, 4]], axis=1)"),
    _op("argmax", _PLAIN, "index of the first largest item", "argmax([[3, 1], [2, 4]], axis=1)"),
    _op("any", _PLAIN, "whether any item is true", "any([False, True])"),
    _op("all", _PLAIN, "whether all items are true", "all([False, True])"),
    _op("count_nonzero", _PLAIN, "how many items are not 0", "count_nonzero([0, 1, 2])"),
    _op("median", _PLAIN, "middle item", "median([3.0, 1.0, 2.0])"),
    _op("percentile", _RANKED, "value below which q percent lie", "percentile([1.0, 2.0], 25)"),
    _op("quantile", _RANKED, "value below which the part q lies", "quantile([1.0, 2.0], 0.25)"),
    _op("nansum", _TYPED, "sum, nan left out", "nansum([1.0, nan])"),
    _op("nanprod", _TYPED, "product, nan left out", "nanprod([2.0, nan])"),
    _op("nanmean", _TYPED, "mean, nan left out", "nanmean([1.0, nan])"),
    _op("nanstd", _SPREAD, "standard deviation, nan left out", "nanstd([1.0, nan, 2.0])"),
    _op("nanvar", _SPREAD, "variance, nan left out", "nanvar([1.0, nan, 2.0])"),
    _op("nanmin", _PLAIN, "smallest item, nan left out", "nanmin([1.0, nan])"),
    _op("nanmax", _PLAIN, "largest item, nan left out", "nanmax([1.0, nan])"),
    _op("nanargmin", _PLAIN, "index of the smallest item, nan left out", "nanargmin([nan, 1.0])"),
    _op("nanargmax", _PLAIN, "index of the largest item, nan left out", "nanargmax([nan, 1.0])"),
    _op("nanmedian", _PLAIN, "middle item, nan left out", "nanmedian([1.0, nan, 2.0])"),
    _op("nanpercentile", _RANKED, "percentile, nan left out", "nanpercentile([1.0, nan], 25)"),
    _op("nanquantile", _RANKED, "quantile, nan left out", "nanquantile([1.0, nan], 0.25)"),
    _op("cumsum", _RUNNING, "running sum", "cumsum([1, 2, 3])"),
    _op("cumprod", _RUNNING, "running product", "cumprod([1, 2, 3])"),
    _op("nancumsum", _RUNNING, "running sum, nan left out", "nancumsum([1.0, nan, 2.0])"),
    _op("nancumprod", _RUNNING, "running product, nan left out", "nancumprod([1.0, nan, 2.0])"),
    # With n=0 it is the very array.
    OpDef("diff", "(a, n=1, axis=-1)", "numpy:diff", "each item minus the one before, n times",
          "diff([1, 4, 9])", shares_memory=True),
    _op("ediff1d", "(ary)", "each item minus the one before, of all items", "ediff1d([1, 4, 9])"),
    _op("trapezoid", "(y, x=None, dx=1.0, axis=-1)", "integral by the trapezoidal rule",
        "trapezoid([0.0, 1.0, 4.0], dx=0.5)"),
    _op("allclose", "(a, b, rtol=1e-05, atol=1e-08, equal_nan=False)",
        "whether all items are equal up to rounding", "allclose([1.0], [1.0 + 1e-12])"),
    _op("array_equal", "(a1, a2, equal_nan=False)", "whether shapes and all items are equal",
        "array_equal([1, 2], [1, 2])"),
    _op("cov", "(m, y=None, rowvar=True, bias=False, ddof=None)", "covariance of the rows",
        "cov([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])"),
    _op("corrcoef", "(x, y=None, rowvar=True)", "correlation of the rows",
        "corrcoef([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])"),
    OpDef("logsumexp", "(x, axis=None, *, keepdims=False)",
          "jobrun.ops.implementations.non_numpy_functions:logsumexp",
          "log(sum(exp(x))) without overflow", "logsumexp([1000.0, 1000.0])"),
    OpDef("softmax", "(x, axis=-1)", "jobrun.ops.implementations.non_numpy_functions:softmax",
          "exp(x) over its sum, without overflow", "softmax([1000.0, 1001.0])"),
    OpDef("log_softmax", "(x, axis=-1)",
          "jobrun.ops.implementations.non_numpy_functions:log_softmax",
          "log(softmax(x)), exact where that is tiny", "log_softmax([0.0, 1000.0])"),
)  # fmt: skip

REDUCTION = ruled(_REDUCTION, REDUCTION_RULES)
