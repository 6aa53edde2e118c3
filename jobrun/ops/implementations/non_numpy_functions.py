"""Implement functions that numpy lacks: sigmoid, relu, softmax, one_hot, astype, pad, …."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.values.atomic_counter import Counter


def sigmoid(x: Any) -> Any:
    """Implement the function ``sigmoid``: ``1 / (1 + exp(-x))`` elementwise without overflow.

    Written with ``exp(-abs(x))``, which is at most 1.
    """
    small = np.exp(-np.abs(x))
    return np.where(np.greater_equal(x, 0), 1, small)[()] / (1 + small)


def relu(x: Any) -> Any:
    """Implement the function ``relu``: negative elements become 0; nan stays nan.

    Same shape and dtype as ``x``.
    """
    return np.maximum(x, 0)


def logsumexp(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
    """Implement ``logsumexp`` along an axis without overflow; it is -inf where all items are.

    ``log(sum(exp(x)))``; the reduced axes are kept with length 1 where ``keepdims``.
    """
    highest = np.max(x, axis=axis, keepdims=True)
    # inf - inf would be nan.
    shift = np.where(np.isfinite(highest), highest, 0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return total if keepdims else np.squeeze(total, axis=axis)[()]


def softmax(x: Any, axis: int | tuple[int, ...] | None = -1) -> Any:
    """Implement the function ``softmax`` along an axis without overflow; same shape as ``x``.

    ``exp(x) / sum(exp(x))``.
    """
    weights = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return weights / np.sum(weights, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: int | tuple[int, ...] | None = -1) -> Any:
    """Implement the function ``log_softmax`` without the logarithm of tiny numbers.

    ``log(softmax(x))``, of the same shape as ``x``.
    """
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def one_hot(labels: Any, length: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """Implement the function ``one_hot``: shape ``(*labels.shape, length)``, 1 at each label.

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


def array(object: Any, dtype: Any = None) -> np.ndarray[Any, Any]:  # noqa: A002 - numpy's name
    """Implement the function ``array``: numpy's, but refuse arrays of Python objects.

    Raises:
        TypeError: The items are no numbers, bools or texts.
        ValueError: Their shapes differ.
    """
    return _plain(np.array(object, dtype=dtype))


def astype(x: Any, dtype: Any) -> Any:
    """Implement the function ``astype``: an array's items as another dtype, axes kept as laid out.

    Raises:
        TypeError: The dtype holds Python objects.
    """
    if isinstance(x, np.ndarray):
        return _plain(x.astype(dtype, order="K", copy=True))
    return _plain(np.asarray(x).astype(dtype))[()]


def to_int(x: Any) -> int:
    """Implement the function ``int``: round one number, or a counter's value, towards zero."""
    return int(_single(x))


def to_float(x: Any) -> float:
    """Implement the function ``float``: convert one number, or the value of a counter."""
    return float(_single(x))


def to_bool(x: Any) -> bool:
    """Implement the function ``bool`` for one number: False for 0, True for any other."""
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


_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    """Implement the function ``pad``: numpy's, with five of its modes and fewer arguments.

    Raises:
        ValueError: The mode is none of constant, edge, reflect, symmetric, wrap.
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}")
    if mode == "constant":
        return np.pad(array, pad_width, "constant", constant_values=constant_values)
    return np.pad(array, pad_width, mode)  # type: ignore[call-overload]
