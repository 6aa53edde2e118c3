"""Take and set the state of objects in blobs: torch modules, optimizers, scikit-learn estimators.

That is whatever has ``state_dict`` and ``load_state_dict``, random generators of Python, numpy and
PyTorch, estimators in the manner of scikit-learn, and what has an adapter that sets it. The state
is a container; the object itself is never stored, and a new one is made at every start.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from jobrun.core.lazy_dataclass import dataclass
from jobrun.values import container_flattening as trees
from jobrun.values import torch_tensors as tensors
from jobrun.values.adapters.registry import UnsavableError, find_object_adapter
from jobrun.values.container_flattening import flatten, is_tree
from jobrun.values.torch_tensors import loaded_torch, require_torch

_PLAIN: frozenset[type] = frozenset({bool, int, float, complex, type(None)})

# Names of modules and parameters have no dots.
GRADIENTS = ".grad"
_TRAINING = "training"

_ATTRIBUTES, _GENERATORS_INSIDE, _ESTIMATORS_INSIDE = "attributes", "generators", "estimators"


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
    """A stand-in for an object in another process."""

    class_name: str


@dataclass(frozen=True, slots=True)
class _Accessors:
    """How the state of one kind of objects is taken, and set."""

    take: Callable[[Any], Any]
    put: Callable[[Any, Any], Any]


_STATEFUL = _Accessors(lambda one: one.state_dict(), lambda one, tree: one.load_state_dict(tree))
_PYTHON = _Accessors(lambda one: one.getstate(), lambda one, tree: one.setstate(tree))
_LEGACY = _Accessors(lambda one: one.get_state(legacy=False), lambda one, tree: one.set_state(tree))
_TORCH = _Accessors(lambda one: one.get_state(), lambda one, tree: one.set_state(tree))


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Take the state of a random generator that is an object, with its seed sequence."""
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
    """Return a ``numpy.random`` class that objects' states may hold; None if not imported yet.

    numpy imports it when it is first used, in a hundredth of a second. Another thread may be doing
    so: then the module is there, and its classes are not.
    """
    return getattr(sys.modules.get("numpy.random"), name, None)


def is_object(value: Any) -> bool:
    """Return whether a value is an object whose state is taken: module, generator, estimator, …."""
    return _find_accessors(value) is not None


def class_name(value: Any) -> str:
    """Return module and name of the class of an object in a blob."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def take_state(value: Any) -> ObjectState:
    """Return an object's state, taken by the object's own methods; both may share memory.

    Raises:
        Exception: What the object raises.
    """
    accessors = _find_accessors(value)
    assert accessors is not None  # noqa: S101 - the caller has asked
    return ObjectState(class_name(value), accessors.take(value))


def put_state(value: Any, state: ObjectState) -> None:
    """Set the state of an object in a blob; the object may keep references to the state.

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
    if kind in _PLAIN:
        return None
    adapter = find_object_adapter(value)
    if adapter is not None:
        return _Accessors(adapter.get, adapter.set) if adapter.set is not None else None
    if callable(getattr(kind, "state_dict", None)) and callable(
        getattr(kind, "load_state_dict", None)
    ):
        return _MODULE if is_module(value) else _STATEFUL
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


def is_module(value: Any) -> bool:
    """Return whether an object is a ``torch.nn.Module``, whose state is a state dict."""
    kind = getattr(getattr(loaded_torch(), "nn", None), "Module", None)
    return kind is not None and isinstance(value, kind)


def takes_in_place(value: Any) -> bool:
    """Return whether an object's state can be read directly into the tensors that it already has.

    That is a module on the CPU with PyTorch's own way to take a state, which copies each tensor to
    the one that is there. A class with a way of its own may first change what is there.
    """
    if not is_module(value) or _find_accessors(value) is not _MODULE:
        return False
    if type(value).load_state_dict is not require_torch().nn.Module.load_state_dict:
        return False
    return all(one.device.type == "cpu" for one in (*value.parameters(), *value.buffers()))


def module_state(module: Any) -> Any:
    """Return the object state of a PyTorch module: a state dict over its tensors' memory."""
    tree = module.state_dict()
    if not isinstance(tree, dict):
        return tree
    # A class may give out the same dict each time.
    tree = copy.copy(tree)
    versions = getattr(tree, "_metadata", None)
    if versions is not None:
        facts = OrderedDict((name, dict(one)) for name, one in versions.items())
        for name, part in module.named_modules():
            facts.setdefault(name, {})[_TRAINING] = bool(part.training)
        tree._metadata = facts  # type: ignore[attr-defined]
    found = {name: one.grad for name, one in module.named_parameters() if one.grad is not None}
    if found:
        tree[GRADIENTS] = found
    return tree


def set_module_state(module: Any, tree: Any) -> None:
    """Set the object state of a PyTorch module, with its modes and gradients.

    Raises:
        Exception: What the module raises.
    """
    found: dict[str, Any] = {}
    versions: Any = getattr(tree, "_metadata", None) or {}
    if isinstance(tree, dict) and GRADIENTS in tree:
        tree = copy.copy(tree)
        found = tree.pop(GRADIENTS)
    module.load_state_dict(tree)
    modes = {name: one[_TRAINING] for name, one in versions.items() if _TRAINING in one}
    for name, part in module.named_modules():
        if name in modes:
            part.training = modes[name]
    if not modes and not found:
        # It says nothing of gradients: another object may have put them there.
        return
    for name, parameter in module.named_parameters():
        _set_gradient(parameter, found.get(name))


def _set_gradient(parameter: Any, gradient: Any) -> None:
    old = parameter.grad
    if gradient is not None and old is not None and _form(old) == _form(gradient):
        # In place, since other objects may have it.
        with require_torch().no_grad():
            old.copy_(gradient)
    else:
        parameter.grad = None if gradient is None else gradient.detach().clone()


def _form(tensor: Any) -> tuple[Any, ...]:
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.layout)


def is_estimator(value: Any) -> bool:
    """Return whether a value is an estimator, an object with params and ``fit`` as in sklearn."""
    kind = type(value)
    methods = ("get_params", "set_params", "fit")
    return all(callable(getattr(kind, name, None)) for name in methods) and hasattr(
        value, "__dict__"
    )


def estimator_state(value: Any) -> dict[str, Any]:
    """Return an estimator's object state: its attributes, generators and inner estimators.

    Raises:
        UnsavableError: One of them cannot be kept; its path begins with the attribute.
    """
    plain: dict[str, Any] = {}
    generators: dict[str, Any] = {}
    inside: dict[str, Any] = {}
    parameters = value.get_params(deep=False)
    for name, one in vars(value).items():
        if isinstance(one, np.random.RandomState):
            generators[name] = one
        elif is_estimator(one) and name in parameters:
            inside[name] = estimator_state(one)
        else:
            plain[name] = _plain(one, name)
    return {_ATTRIBUTES: plain, _GENERATORS_INSIDE: generators, _ESTIMATORS_INSIDE: inside}


def set_estimator_state(value: Any, state: dict[str, Any]) -> None:
    """Set an estimator object to a saved state; remove attributes that the state lacks.

    Generators and estimators that it has already get their states in place: others may have them.
    """
    inside = {name: vars(value)[name] for name in state[_ESTIMATORS_INSIDE]}
    for name, one in inside.items():
        set_estimator_state(one, state[_ESTIMATORS_INSIDE][name])
    held = {**state[_ATTRIBUTES], **state[_GENERATORS_INSIDE]}
    for name, one in state[_GENERATORS_INSIDE].items():
        present = vars(value).get(name)
        if isinstance(present, np.random.RandomState) and present is not one:
            present.set_state(one.get_state(legacy=False))
            _replace(held, one, present, set())
    vars(value).clear()
    vars(value).update({**held, **inside})


_ESTIMATOR = _Accessors(estimator_state, set_estimator_state)


_MODULE = _Accessors(module_state, set_module_state)


def _replace(root: Any, old: Any, new: Any, seen: set[int]) -> None:
    """Replace the loaded copy of a random generator by the existing one in an object's state."""
    if id(root) in seen:
        return
    seen.add(id(root))
    if isinstance(root, np.ndarray):
        named: Any = enumerate(root.reshape(-1)) if root.dtype.hasobject else ()
        target: Any = root.reshape(-1) if root.dtype.hasobject else root
    elif isinstance(root, dict | list):
        target, named = root, list(root.items() if isinstance(root, dict) else enumerate(root))
    elif isinstance(root, tuple):
        target, named = None, list(enumerate(root))
    else:
        target = getattr(root, "__dict__", {})
        named = list(target.items()) if isinstance(target, dict) else ()
    for key, one in named:
        if one is old and target is not None:
            target[key] = new
        else:
            _replace(one, old, new, seen)


def _plain(value: Any, name: str) -> Any:
    try:
        # Checked by itself, so that an error names this attribute.
        flatten(value if is_tree(value) else (value,))
    except UnsavableError as error:
        deeper = error.path if is_tree(value) else ()
        raise UnsavableError((name, *deeper), error.what) from error
    return value
