"""Functions that numpy lacks and iterative work needs, written so that nothing overflows."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.ops.casts import astype


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))`` for each item; float of the width of ``x`` (float64 of ints).

    Written with ``exp(-abs(x))``, which is at most 1.
    """
    small = np.exp(-np.abs(x))
    return np.where(np.greater_equal(x, 0), 1, small)[()] / (1 + small)


def relu(x: Any) -> Any:
    """Each item, and 0 where it is negative; nan stays nan. Shape and dtype of ``x``."""
    return np.maximum(x, 0)


def logsumexp(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
    """``log(sum(exp(x)))`` along ``axis``; minus infinity where all items are that."""
    highest = np.max(x, axis=axis, keepdims=True)
    # inf - inf would be nan.
    shift = np.where(np.isfinite(highest), highest, 0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return total if keepdims else np.squeeze(total, axis=axis)[()]


def softmax(x: Any, axis: int | tuple[int, ...] | None = -1) -> Any:
    """``exp(x)`` over its sum along ``axis``; same shape as ``x``."""
    weights = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return weights / np.sum(weights, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: int | tuple[int, ...] | None = -1) -> Any:
    """``log(softmax(x))`` without taking the logarithm of tiny numbers; shape of ``x``."""
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def one_hot(labels: Any, length: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """Shape ``(*labels.shape, length)``: 1 at each label, else 0.

    Raises:
        ValueError: A label is not in ``0 … length - 1``.
        TypeError: The labels are no integers.
    """
    chosen = np.asarray(labels)
    if chosen.dtype.kind not in "iu":
        raise TypeError(f"labels must be integers, not {chosen.dtype}")
    if chosen.size and (chosen.min() < 0 or chosen.max() >= length):
        raise ValueError(f"a label is not in 0 … {length - 1}")
    return astype(chosen[..., None] == np.arange(length), dtype)  # type: ignore[no-any-return]
