"""Implement the operators on counters, which tasks may change at the same time."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from jobrun.values.atomic_counter import Counter


def counter(value: SupportsIndex = 0) -> Counter:
    """Implement the function ``counter``: make a counter with a start value.

    Raises:
        TypeError: ``value`` is no integer.
        ValueError: It is negative.
    """
    begin = operator.index(value)
    if begin < 0:
        raise ValueError(f"a counter begins at 0 or more, not at {begin}")
    return Counter(begin)


def count_up(counter: Counter) -> int:
    """Implement ``count_up``: increment a counter and return its old value."""
    return _counter(counter).up()


def count_down(counter: Counter) -> bool:
    """Implement ``count_down``: decrement a counter; return whether it already was 0 or less."""
    return _counter(counter).down()


def atomic_add(counter: Counter, amount: SupportsIndex) -> int:
    """Implement ``atomic_add``: add an integer to a counter and return its old value."""
    return _counter(counter).add(operator.index(amount))


def atomic_max(counter: Counter, value: SupportsIndex) -> int:
    """Implement ``atomic_max``: raise a counter to at least ``value``; return its old value."""
    return _counter(counter).maximum(operator.index(value))


def count_reset(counter: Counter) -> int:
    """Implement ``count_reset``: set a counter to 0 and return its old value."""
    return _counter(counter).reset()


def count_value(counter: Counter) -> int:
    """Implement ``count_value``: return a counter's value, which other tasks may change."""
    return _counter(counter).value


def _counter(value: Counter) -> Counter:
    if not isinstance(value, Counter):
        raise TypeError(f"expected a counter, made with counter(0), not {type(value).__name__}")
    return value
