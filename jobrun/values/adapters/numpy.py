"""Adapt parts of numpy that arrays cannot hold: generators, dtypes, arrays of Python objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.values.adapters.reduce_protocol import object_adapter
from jobrun.values.adapters.registry import NAMED, Adapter, UnsavableError

# What np.random.normal and the like draw from: its state is that of jobrun.generators.
_GLOBAL: Any = getattr(np.random.mtrand, "_rand", None)


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves objects of a numpy class, such as dtypes and bit generators."""
    if issubclass(kind, np.dtype):
        return object_adapter("numpy", immutable=True, inner=True)
    if issubclass(kind, np.random.BitGenerator) and kind.__module__.startswith("numpy."):
        return _BIT_GENERATOR
    return NAMED if kind.__name__ == "_ArrayFunctionDispatcher" else _ADAPTERS.get(kind)


def _bit_generator_tree(value: Any) -> dict[str, Any]:
    return {"state": value.state, "seed": value.seed_seq}


def _make_bit_generator(kind: Any, tree: Any) -> Any:
    generator = kind(0 if tree["seed"] is None else tree["seed"])
    if tree["seed"] is None:
        # As RandomState(7) seeds it, without a sequence.
        generator._legacy_seeding(0)
    generator.state = tree["state"]
    return generator


def _seed_tree(value: Any) -> dict[str, Any]:
    return dict(value.state)


def _make_seed(kind: Any, tree: Any) -> Any:
    return kind(**tree)


def _random_state_tree(value: Any) -> dict[str, Any]:
    if value is _GLOBAL:
        return {"global": True}
    state = value.get_state(legacy=False)
    gauss = {name: state[name] for name in ("has_gauss", "gauss")}
    # The bit generator itself: a Generator may draw from the same one.
    return {"generator": value._bit_generator, **gauss}


def _make_random_state(kind: Any, tree: Any) -> Any:
    if "global" in tree:
        return _GLOBAL
    if "generator" in tree:
        bits = tree["generator"]
        generator = kind(bits)
        generator.set_state({**bits.state, "has_gauss": tree["has_gauss"], "gauss": tree["gauss"]})
        return generator
    # As saved before the bit generator was kept.
    generator = kind(getattr(np.random, tree["bit_generator"])(0))
    generator.set_state(tree)
    return generator


def _objects_tree(value: Any) -> dict[str, Any]:
    if value.dtype != np.dtype(object):
        raise UnsavableError((), f"a numpy.ndarray of dtype {value.dtype}, with Python objects")
    tree = {"shape": value.shape, "items": value.reshape(-1).tolist()}
    is_fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    return {**tree, "order": "F"} if is_fortran else tree


def _make_objects(_: type, tree: Any) -> Any:
    array = np.empty(len(tree["items"]), object)
    for at, item in enumerate(tree["items"]):
        array[at] = item
    array = array.reshape(tree["shape"])
    return np.asfortranarray(array) if "order" in tree else array


_BIT_GENERATOR = Adapter(_bit_generator_tree, _make_bit_generator, inner=True)
_ADAPTERS: dict[type, Adapter] = {
    np.random.Generator: Adapter(
        lambda value: {"generator": value.bit_generator},
        lambda kind, tree: kind(tree["generator"]), inner=True,
    ),
    np.random.RandomState: Adapter(_random_state_tree, _make_random_state, inner=True),
    np.random.SeedSequence: Adapter(_seed_tree, _make_seed, inner=True),
    np.ndarray: Adapter(
        _objects_tree, _make_objects, inner=True, memory=lambda value: [value]
    ),
    np.ufunc: NAMED,
}  # fmt: skip
