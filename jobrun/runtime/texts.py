"""Texts with parts filled in at run time: log lines, messages, paths. No logic of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.blobs.counter import Counter
from jobrun.blobs.values import Value, describe
from jobrun.core.errors import TaskFailedError


def fill(value: Value, spec: str) -> str:
    """``value`` as text, by Python's format ``spec``; items of an array each by themselves.

    Raises:
        TaskFailedError: E213, if the format does not suit the value.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    try:
        if isinstance(value, np.ndarray):
            return _array_text(value, spec)
        return format(value, spec) if spec else str(_plain(value))
    except (ValueError, TypeError) as error:
        raise TaskFailedError.of(
            "E213",
            f"the format '{spec}' does not fit a {describe(value)}",
            "leave the format out, or use one for that kind of value",
        ) from error


def join(*parts: object) -> str:
    """The parts one after the other."""
    return "".join(map(str, parts))


def _plain(value: Value) -> Value:
    return value.value if type(value) is Counter else value


def _array_text(value: np.ndarray[Any, Any], spec: str) -> str:
    if not spec:
        return str(value)
    return np.array2string(value, formatter={"all": lambda one: format(one, spec)})
