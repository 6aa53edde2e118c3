"""Take and set the state of a PyTorch module: ``state_dict()`` with modes and gradients.

``state_dict()`` has neither ``training`` of the module's parts nor what is in ``.grad`` of its
parameters, and both decide what a later step computes. Modes are kept beside the versions of the
parts, where ``load_state_dict()`` passes over them; gradients under a name that no part can have.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

from jobrun.values.torch_tensors import loaded_torch, require_torch

# Names of modules and parameters have no dots.
GRADIENTS = ".grad"
_TRAINING = "training"


def is_module(value: Any) -> bool:
    """Return whether a value is a module of PyTorch (``torch.nn.Module``)."""
    kind = getattr(getattr(loaded_torch(), "nn", None), "Module", None)
    return kind is not None and isinstance(value, kind)


def module_state(module: Any) -> Any:
    """Take the state of a PyTorch module; tensors in it share memory with the module."""
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
    """Set the state of a PyTorch module, which copies all of it.

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
