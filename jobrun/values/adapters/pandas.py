"""Adapt frames, series and indices of pandas, with the blocks that their columns are in.

Sums over columns add in the order of memory, so the blocks are kept as they are. Columns of Python
objects are kept item by item; text that pandas keeps with pyarrow, by the buffers of pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from msgspec.structs import replace

from jobrun.values.adapters.reduce_protocol import (
    fill_object,
    new_object,
    object_tree,
)
from jobrun.values.adapters.registry import Adapter

_PACKAGES = ("pandas", "pyarrow")
_FIRST_TO_COPY = 3
# Attributes in which arrays of pandas' own keep those of numpy.
_HELD = ("_ndarray", "_data", "_mask", "_left", "_right", "_sparse_values")


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves objects of a pandas class, or of a pyarrow class in pandas."""
    if kind.__module__.partition(".")[0] not in _PACKAGES:
        return None
    pandas = import_module("pandas")
    # From version 3 on frames and indices that share memory copy it before they are written to.
    copies = int(pandas.__version__.partition(".")[0]) >= _FIRST_TO_COPY
    if issubclass(kind, pandas.DataFrame | pandas.Series):
        return replace(_FRAME, copies_on_write=copies)
    if issubclass(kind, pandas.Index):
        return replace(_INDEX, copies_on_write=copies)
    if kind.__name__ == "SingleBlockManager":
        return _SINGLE_BLOCK
    is_value = issubclass(kind, pandas.Timestamp | pandas.Timedelta)
    return Adapter(_tree, _make, fill=fill_object, immutable=is_value, inner=not is_value)


def _tree(value: Any) -> Any:
    tree, more = object_tree(value)
    state = more.get("state")
    if isinstance(state, dict) and "_cache" in state:
        # What properties have computed: it depends on what was looked at in this process.
        more = more | {"state": {name: part for name, part in state.items() if name != "_cache"}}
    return tree, more


def _copied_tree(value: Any) -> Any:
    # Frames and indices share memory until one of them is written to, which no user can see.
    tree, more = _tree(value.copy(deep=True))
    state = more.get("state")
    if isinstance(state, dict) and state.get("attrs"):
        # Those of the copy are copies, and something else may have parts of these.
        more = more | {"state": state | {"attrs": value.attrs}}
    return tree, more


def _make(kind: type, tree: Any) -> Any:
    return new_object(kind, tree, _PACKAGES)


def _frame_memory(value: Any) -> list[Any]:
    return [array for block in value._mgr.blocks for array in _arrays_of(block.values)]


def _index_memory(value: Any) -> list[Any]:
    # A range has no memory, and asking it for its numbers would make them.
    return _arrays_of(vars(value).get("_data"))


def _arrays_of(values: Any) -> list[Any]:
    if values is None or isinstance(values, np.ndarray):
        return [] if values is None or values.dtype.hasobject else [values]
    chunks = getattr(getattr(values, "_pa_array", None), "chunks", ())
    buffers = [buffer for chunk in chunks for buffer in chunk.buffers() if buffer and buffer.size]
    parts = (getattr(values, name, None) for name in _HELD)
    ours = [array for part in parts for array in _arrays_of(part)]
    return [*ours, *(np.frombuffer(buffer, np.uint8) for buffer in buffers)]


_FRAME = Adapter(_copied_tree, _make, fill=fill_object, memory=_frame_memory)
_INDEX = Adapter(_copied_tree, _make, fill=fill_object, immutable=True, memory=_index_memory)
# Of a series. Its own form has all data twice, for older versions of pandas.
_SINGLE_BLOCK = Adapter(
    lambda value: {"block": value.blocks[0], "axis": value.axes[0]},
    lambda kind, tree: kind(tree["block"], tree["axis"]),
    inner=True,
)
