"""Adapt frames, series and indices of pandas, with the blocks that their columns are in.

Sums over columns add in the order of memory, so the blocks are kept as they are. Columns of Python
objects are kept item by item; text that pandas keeps with pyarrow, by the buffers of pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jobrun.values.adapters.python_objects import (
    fill_object,
    new_object,
    object_tree,
)
from jobrun.values.adapters.registry import Adapter

_PACKAGES = ("pandas", "pyarrow")


def find(kind: type) -> Adapter | None:
    """Find the adapter of a class of pandas, or of pyarrow inside of it."""
    if kind.__module__.partition(".")[0] not in _PACKAGES:
        return None
    pandas = import_module("pandas")
    if issubclass(kind, pandas.DataFrame | pandas.Series):
        return _FRAME
    if issubclass(kind, pandas.Index):
        return _INDEX
    if kind.__name__ == "SingleBlockManager":
        return _SINGLE_BLOCK
    is_value = issubclass(kind, pandas.Timestamp | pandas.Timedelta)
    return Adapter(_tree, _make, fill=fill_object, immutable=is_value, inner=not is_value)


def _tree(value: Any) -> Any:
    tree, rest = object_tree(value)
    state = rest.get("state")
    if isinstance(state, dict) and "_cache" in state:
        # What properties have computed: it depends on what was looked at in this process.
        rest = rest | {"state": {name: part for name, part in state.items() if name != "_cache"}}
    return tree, rest


def _copied_tree(value: Any) -> Any:
    # Frames and indices share memory until one of them is written to, which no user can see.
    return _tree(value.copy(deep=True))


def _make(kind: type, tree: Any) -> Any:
    return new_object(kind, tree, _PACKAGES)


_FRAME = Adapter(_copied_tree, _make, fill=fill_object)
_INDEX = Adapter(_copied_tree, _make, fill=fill_object, immutable=True)
# Of a series. Its own form has all data twice, for older versions of pandas.
_SINGLE_BLOCK = Adapter(
    lambda value: {"block": value.blocks[0], "axis": value.axes[0]},
    lambda kind, tree: kind(tree["block"], tree["axis"]),
    inner=True,
)
