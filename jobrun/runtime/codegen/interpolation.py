"""Interpolate values into texts at run time: log lines, messages, paths."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.core.text.big_integers import formatted_integer
from jobrun.values.atomic_counter import Counter
from jobrun.values.blob_kinds import Value, describe


def format_value(value: Value, spec: str) -> str:
    """Interpolate one value into a text: format it; the items of an array one by one.

    Raises:
        TaskFailedError: E213, if the format does not suit the value.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    try:
        if isinstance(value, np.ndarray):
            return _array_text(value, spec)
        plain = _plain(value)
        if type(plain) is int:
            return formatted_integer(plain, spec)
        return format(value, spec) if spec else str(plain)
    except (ValueError, TypeError) as error:
        raise TaskFailedError.of(
            "E213",
            f"the format '{spec}' does not fit a {describe(value)}",
            "leave the format out, or use one for that kind of value",
        ) from error


def join_text(*parts: object) -> str:
    """Interpolate values into a text: join its parts, literal and formatted, at run time."""
    return "".join(map(str, parts))


def _plain(value: Value) -> Value:
    return value.value if type(value) is Counter else value


def _array_text(value: np.ndarray[Any, Any], spec: str) -> str:
    if not spec:
        return str(value)
    return np.array2string(value, formatter={"all": lambda one: format(one, spec)})
