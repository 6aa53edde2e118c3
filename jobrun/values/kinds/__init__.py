"""Define what each kind of values says, once, for all code that goes through values.

One module for each kind:

- ``builtin``: Python's plain values, lists, tuples and dicts. ``counter``: atomic counters.
- ``array``: arrays and scalars of numpy, and structured dtypes.
- ``record``: named tuples and dataclasses. ``tensor``: tensors of PyTorch, and its modules.

What has an adapter, or has lost it, and all other objects are in ``values.adapters.registry``;
``values.traversal`` has the table of all kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# The step from a value to its adapter's tree, whose path is the value's own.
SELF = object()
Steps = Iterable[tuple[Any, Any]]


class Kind:
    """What is known of the values of one class. A subclass describes a kind of values.

    Args:
        value_class: The class.
    """

    # A value without parts that can change, such as an array: each path to it counts.
    is_memory = False

    def __init__(self, value_class: type) -> None:
        self.value_class = value_class

    @staticmethod
    def matches(value_class: type) -> bool:  # noqa: ARG004 - as of any kind
        """Return whether values of a class are of this kind."""
        return False

    def parts(self, value: Any) -> Steps:
        """Return the steps to the parts of a value that can change, and the parts."""
        return ()

    def saved_parts(self, value: Any) -> Iterable[Any]:
        """Return all that a checkpoint holds of a value, such as the keys of a dict."""
        return [part for _, part in self.parts(value)]

    def is_mutable(self, value: Any) -> bool:
        """Return whether the value itself can change, not only parts of it as those of a tuple."""
        return self.is_memory

    def is_fixed(self, value: Any) -> bool:
        """Return whether neither the value nor a part of it can change."""
        return False


# By class. The registry of adapters empties it when what it knows has changed.
known_kinds: dict[type, Kind] = {}
