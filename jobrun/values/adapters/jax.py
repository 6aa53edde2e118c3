"""Adapt arrays and typed keys of JAX.

States of optax and trees of flax.linen are named tuples, dicts and dataclasses of these.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from jobrun.values.adapters.registry import Adapter, UnsavableError, class_text


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves arrays of JAX, or keys of JAX's random generators."""
    jax: Any = import_module("jax")
    if not issubclass(kind, jax.Array):
        return None
    return _KEY if kind.__name__ == "PRNGKeyArray" else _ARRAY


def _key_tree(key: Any) -> dict[str, Any]:
    random: Any = import_module("jax.random")
    return {"implementation": str(random.key_impl(key)), "data": np.array(random.key_data(key))}


def _make_key(_: type, tree: Any) -> Any:
    random: Any = import_module("jax.random")
    return random.wrap_key_data(_on_device(tree["data"]), impl=tree["implementation"])


def _array_tree(array: Any) -> Any:
    if len(array.devices()) > 1:
        raise UnsavableError((), f"{class_text(array)} on several devices; gather it on one first")
    # A copy: several arrays may have one memory, since nothing changes it.
    data = np.array(array)
    return {"weak": data} if array.weak_type else data


def _make_array(_: type, tree: Any) -> Any:
    if not isinstance(tree, dict):
        return _on_device(tree)
    lax: Any = import_module("jax._src.lax.lax")
    return lax._convert_element_type(_on_device(tree["weak"]), weak_type=True)


def _on_device(data: Any) -> Any:
    jax: Any = import_module("jax")
    array = jax.numpy.array(data)
    if array.dtype != data.dtype:
        raise ValueError(f"an array of {data.dtype} needs jax_enable_x64, as when it was saved")
    return array


def _array_memory(array: Any) -> list[Any]:
    # jnp.asarray may take over the memory of an array of numpy's, which can change.
    if array.is_deleted() or [one.platform for one in array.devices()] != ["cpu"]:
        return []
    view = np.asarray(array)
    return [view] if view.dtype.isbuiltin == 1 else []


_KEY = Adapter(_key_tree, _make_key, immutable=True)
_ARRAY = Adapter(
    _array_tree, _make_array, immutable=True, memory=_array_memory, copies_on_write=True
)
