"""Compares a long column with a short row, as ``label[:, None] == arange(10)``. Nothing else.

Numpy goes along the row, anew for each item of the column; where the row is short, to begin costs
more than to compare. Along the column it takes two thirds of the time. A comparison has the same
result in whatever order it is made, and the result lies in memory as it always does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from jobrun.graph.expr import Call, Compare, Const, Expr, Index, Sequence

_ARRAY = np.ndarray
# Rows longer than this are not short, and shorter columns not worth it. Measured.
_SHORT = 16
_LONG = 1 << 10


def has_column(expr: Compare) -> bool:
    """Whether it is one comparison, with ``x[:, None]`` in front."""
    return len(expr.operators) == 1 and _is_column(expr.left)


@cache
def _numbers_below(stop: int) -> np.ndarray[Any, Any]:
    made = np.arange(stop)
    made.flags.writeable = False
    return made


def known_row(expr: Expr) -> np.ndarray[Any, Any] | None:
    """The row that a text such as ``arange(10)`` gives each time; None for any other."""
    match expr:
        case Call(function="arange", args=(Const(value=stop),), kwargs=()):
            return _numbers_below(stop) if type(stop) is int and 0 < stop <= _SHORT else None
        case _:
            return None


def compare(sign: str) -> Callable[[Any, Any], Any]:
    """``left sign right``."""
    return _COMPARE[sign]


def _is_column(expr: Expr) -> bool:
    match expr:
        case Index(index=Sequence(items=(*_, Const(value=None, ellipsis=False)))):
            return True
        case _:
            return False


def _along_column(ufunc: np.ufunc, plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compared(left: Any, right: Any) -> Any:
        if (
            type(left) is not _ARRAY or type(right) is not _ARRAY
            or left.size < _LONG or right.size > _SHORT
            or left.shape[1:] != (1,) or right.ndim != 1
            or left.dtype.kind not in "biuf" or right.dtype.kind not in "biuf"
        ):  # fmt: skip
            return plain(left, right)
        out = np.empty((len(left), len(right)), np.bool_)
        return ufunc(left, right, out, order="F")

    return compared


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": _along_column(np.less, operator.lt),
    "<=": _along_column(np.less_equal, operator.le),
    ">": _along_column(np.greater, operator.gt),
    ">=": _along_column(np.greater_equal, operator.ge),
    "==": _along_column(np.equal, operator.eq),
    "!=": _along_column(np.not_equal, operator.ne),
}
