"""Operators in the form that costs least for plain arrays. What they compute is numpy's.

``numpy.sum`` and its like look for methods of foreign classes and gather keywords before they
reduce; for small arrays that takes twice as long as the sum. A blob's array is no subclass,
so the same reduction can be asked for directly. Anything else goes to the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from jobrun.ops.load import implementation

Function = Callable[..., Any]


def form(operator: str, positional: int, named: Collection[str]) -> Function:
    """The function to call for an operator with that many arguments, and those given by name.

    Raises:
        KeyError: There is no operator of that name.
    """
    function = implementation(operator)
    direct = _DIRECT.get(function)
    # Further arguments differ from function to function.
    fits = 1 <= positional <= 2 and _AXES.issuperset(named)
    return direct if direct is not None and fits else function


def _reduction(function: Function, reduce: Function, dtype: Any = None) -> Function:
    def reduced(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if type(a) is _ARRAY:
            return reduce(a, axis, dtype, None, keepdims)
        return function(a, axis, keepdims=True) if keepdims else function(a, axis)

    return reduced


def _search(function: Function, method: Function) -> Function:
    def searched(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if type(a) is _ARRAY and not keepdims:
            return method(a, axis)
        return function(a, axis, keepdims=True) if keepdims else function(a, axis)

    return searched


def _mean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if type(a) is _ARRAY:
        if axis is None and not keepdims and a.dtype is _FLOAT64 and a.size:
            return _ADD(a, None) / a.size
        return a.mean(axis, None, None, keepdims=keepdims)
    return np.mean(a, axis, keepdims=True) if keepdims else np.mean(a, axis)


_ARRAY = np.ndarray
_ADD = np.add.reduce
# There is one object for each of numpy's own dtypes; one of foreign byte order is another.
_FLOAT64 = np.dtype(np.float64)
_AXES = frozenset({"axis", "keepdims"})
_DIRECT: dict[Function, Function] = {
    np.sum: _reduction(np.sum, _ADD),
    np.prod: _reduction(np.prod, np.multiply.reduce),
    np.max: _reduction(np.max, np.maximum.reduce),
    np.min: _reduction(np.min, np.minimum.reduce),
    np.any: _reduction(np.any, np.logical_or.reduce, np.bool_),
    np.all: _reduction(np.all, np.logical_and.reduce, np.bool_),
    np.mean: _mean,
    np.argmin: _search(np.argmin, np.ndarray.argmin),
    np.argmax: _search(np.argmax, np.ndarray.argmax),
}
