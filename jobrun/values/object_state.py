"""Take and set the state of objects in blobs: modules, optimizers, generators, estimators.

That is whatever has ``state_dict`` and ``load_state_dict``, random generators of Python, numpy and
PyTorch, estimators in the manner of scikit-learn, and what has an adapter that sets it. The state
is a container; the object itself is never stored, and a new one is made at every start.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.values import container_flattening as trees
from jobrun.values.adapters.registry import find_object_adapter
from jobrun.values.estimators import estimator_state, is_estimator, set_estimator_state
from jobrun.values.kinds import tensor as tensors
from jobrun.values.kinds.builtin import NUMBERS


class ObjectState(Struct, frozen=True):
    """The state of an object without the object.

    Attributes:
        class_name: Of the object: ``torch.optim.adamw.AdamW``.
        tree: What it has given out, or is to take in.
    """

    class_name: str
    tree: Any


class ObjectFacts(Struct, frozen=True):
    """A stand-in for an object in another process."""

    class_name: str


class _Accessors(Struct, frozen=True):
    """How the state of one kind of objects is taken, and set."""

    take: Callable[[Any], Any]
    put: Callable[[Any, Any], Any]


_STATEFUL = _Accessors(lambda obj: obj.state_dict(), lambda obj, tree: obj.load_state_dict(tree))
_PYTHON = _Accessors(lambda obj: obj.getstate(), lambda obj, tree: obj.setstate(tree))
_LEGACY = _Accessors(lambda obj: obj.get_state(legacy=False), lambda obj, tree: obj.set_state(tree))
_TORCH = _Accessors(lambda obj: obj.get_state(), lambda obj, tree: obj.set_state(tree))
_MODULE = _Accessors(tensors.module_state, tensors.set_module_state)
_ESTIMATOR = _Accessors(estimator_state, set_estimator_state)


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Return the state of a ``numpy.random.Generator`` object, with its seed sequence."""
    bits = generator.bit_generator
    return {**bits.state, "seed": bits.seed_seq}


def _set_generator_state(generator: np.random.Generator, tree: dict[str, Any]) -> None:
    if "seed" not in tree:  # saved before the count of children was
        generator.bit_generator.state = tree
        return
    # The count of children cannot be set: a sequence that has it takes the old one's place.
    bits: Any = generator.bit_generator
    bits.__setstate__((tree, tree["seed"]))


_NUMPY = _Accessors(generator_state, _set_generator_state)


def random_class(name: str) -> Any:
    """Return a class of ``numpy.random`` whose objects have a state; None if not imported.

    numpy imports it when it is first used, in a hundredth of a second. Another thread may be doing
    so: then the module is there, and its classes are not.
    """
    return getattr(sys.modules.get("numpy.random"), name, None)


def is_object(value: Any) -> bool:
    """Return whether a value is an object whose state can be saved: module, generator, …."""
    return _find_accessors(value) is not None


def class_name(value: Any) -> str:
    """Return ``module.Class`` of an object whose state is saved."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def take_state(value: Any) -> ObjectState:
    """Return an object's state, such as its ``state_dict()``, which may share the object's memory.

    Raises:
        Exception: What the object raises.
    """
    accessors = _find_accessors(value)
    assert accessors is not None  # noqa: S101 - the caller has asked
    return ObjectState(class_name(value), accessors.take(value))


def put_state(value: Any, state: ObjectState) -> None:
    """Set an object's state, as by ``load_state_dict``; the object may keep parts of the state.

    Raises:
        ValueError: It has something of a class or function that is not loaded.
        Exception: What the object raises; it may have taken a part of it.
    """
    accessors = _find_accessors(value)
    assert accessors is not None  # noqa: S101 - the caller has asked
    missing = trees.unbound_classes(state.tree)
    if missing:
        raise ValueError(f"nothing has loaded {missing[0]}; import its module where it is made")
    accessors.put(value, state.tree)


def _find_accessors(value: Any) -> _Accessors | None:
    kind = type(value)
    if kind in NUMBERS:
        return None
    adapter = find_object_adapter(value)
    if adapter is not None:
        return _Accessors(adapter.get, adapter.set) if adapter.set is not None else None
    if callable(getattr(kind, "state_dict", None)) and callable(
        getattr(kind, "load_state_dict", None)
    ):
        return _MODULE if tensors.is_module(value) else _STATEFUL
    if kind is random.Random:
        return _PYTHON
    if kind is random_class("Generator"):
        return _NUMPY
    if kind is random_class("RandomState"):
        return _LEGACY
    torch = tensors.loaded_torch()
    if torch is not None and kind is getattr(torch, "Generator", None):
        return _TORCH
    return _ESTIMATOR if is_estimator(value) else None
