"""Counters as operators: each change is atomic and answers with what was there before."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from jobrun.blobs.counter import Counter


def counter(value: SupportsIndex = 0) -> Counter:
    """A new counter.

    Raises:
        TypeError: ``value`` is no integer.
    """
    return Counter(operator.index(value))


def count_up(counter: Counter) -> int:
    """Add 1; returns the old value."""
    return _counter(counter).up()


def count_down(counter: Counter) -> bool:
    """Take 1 away, also below 0; returns whether it was 0 or less before."""
    return _counter(counter).down()


def atomic_add(counter: Counter, amount: SupportsIndex) -> int:
    """Add an integer; returns the old value."""
    return _counter(counter).add(operator.index(amount))


def atomic_max(counter: Counter, value: SupportsIndex) -> int:
    """Raise to ``value`` if that is more; returns the old value."""
    return _counter(counter).maximum(operator.index(value))


def count_reset(counter: Counter) -> int:
    """Back to 0; returns the old value."""
    return _counter(counter).reset()


def count_value(counter: Counter) -> int:
    """The present value, which another task may have changed by the time it is used."""
    return _counter(counter).value


def _counter(value: Counter) -> Counter:
    if not isinstance(value, Counter):
        raise TypeError(f"expected a counter, made with counter(0), not {type(value).__name__}")
    return value
