"""Arrays from lists, other dtypes, and single Python numbers. Every result is new."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.blobs.counter import Counter


def array(object: Any, dtype: Any = None) -> np.ndarray[Any, Any]:  # noqa: A002 - numpy's name
    """A new array of the items of ``object``.

    Raises:
        TypeError: The items are no numbers, bools or texts.
        ValueError: Their shapes differ.
    """
    return _plain(np.array(object, dtype=dtype))


def astype(x: Any, dtype: Any) -> Any:
    """``x`` in another dtype, as a new array in the same axis order; a scalar stays one.

    Raises:
        TypeError: The dtype holds Python objects.
    """
    if isinstance(x, np.ndarray):
        return _plain(x.astype(dtype, order="K", copy=True))
    return _plain(np.asarray(x).astype(dtype))[()]


def to_int(x: Any) -> int:
    """One number as a Python int, without its fraction; of a counter its present value."""
    return int(_single(x))


def to_float(x: Any) -> float:
    """One number as a Python float."""
    return float(_single(x))


def to_bool(x: Any) -> bool:
    """Whether one number is not 0."""
    return bool(_single(x))


def _single(x: Any) -> Any:
    if isinstance(x, Counter):
        return x.value
    # An array of one item counts as its item, whatever its shape; numpy warns of that.
    return x.reshape(())[()] if isinstance(x, np.ndarray) and x.size == 1 else x


def _plain(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if value.dtype.hasobject:
        raise TypeError("an array holds numbers, bools or text")
    return value
