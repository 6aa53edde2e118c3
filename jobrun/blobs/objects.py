"""Objects as blobs: what has a state that can be taken out of it and put into another one.

That is whatever has ``state_dict`` and ``load_state_dict``, random generators of Python, numpy and
PyTorch, and estimators in the manner of scikit-learn. The state is a container (``trees``); the
object itself is never stored, and is made anew at every start.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobrun.blobs import tensors
from jobrun.blobs.estimators import estimator_state, is_estimator, set_estimator_state


@dataclass(frozen=True, slots=True)
class ObjectState:
    """The state of an object without the object.

    Attributes:
        class_name: Of the object: ``torch.optim.adamw.AdamW``.
        tree: What it has given out, or is to take in.
    """

    class_name: str
    tree: Any


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What stands for an object where the object cannot be: in another process."""

    class_name: str


@dataclass(frozen=True, slots=True)
class _Way:
    """How the state of one kind of objects is taken out, and put in."""

    take: Callable[[Any], Any]
    put: Callable[[Any, Any], Any]


_STATEFUL = _Way(lambda one: one.state_dict(), lambda one, tree: one.load_state_dict(tree))
_ESTIMATOR = _Way(estimator_state, set_estimator_state)
_PYTHON = _Way(lambda one: one.getstate(), lambda one, tree: one.setstate(tree))
_LEGACY = _Way(lambda one: one.get_state(legacy=False), lambda one, tree: one.set_state(tree))
_TORCH = _Way(lambda one: one.get_state(), lambda one, tree: one.set_state(tree))


def _set_bit_generator(generator: np.random.Generator, tree: Any) -> None:
    generator.bit_generator.state = tree


_NUMPY = _Way(lambda one: one.bit_generator.state, _set_bit_generator)
_GENERATORS: dict[type, _Way] = {
    random.Random: _PYTHON, np.random.RandomState: _LEGACY, np.random.Generator: _NUMPY,
}  # fmt: skip


def is_object(value: Any) -> bool:
    """Whether a value is an object with a state of its own."""
    return _way(value) is not None


def class_name(value: Any) -> str:
    """Module and name of an object's class."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def state_of(value: Any) -> ObjectState:
    """The state of an object; what is in it may share memory with the object.

    Raises:
        Exception: What the object raises.
    """
    way = _way(value)
    assert way is not None  # noqa: S101 - the caller has asked
    return ObjectState(class_name(value), way.take(value))


def put_state(value: Any, state: ObjectState) -> None:
    """Put a state into an object, which may keep what is in it.

    Raises:
        Exception: What the object raises; it may have taken a part of it.
    """
    way = _way(value)
    assert way is not None  # noqa: S101 - the caller has asked
    way.put(value, state.tree)


def _way(value: Any) -> _Way | None:
    kind = type(value)
    if callable(getattr(kind, "state_dict", None)) and callable(
        getattr(kind, "load_state_dict", None)
    ):
        return _STATEFUL
    if kind in _GENERATORS:
        return _GENERATORS[kind]
    torch = tensors.loaded_torch()
    if torch is not None and kind is getattr(torch, "Generator", None):
        return _TORCH
    return _ESTIMATOR if is_estimator(value) else None
