"""Convert PyTorch tensors to numpy arrays and back; take and set the state of PyTorch modules.

Nothing here imports torch before it is needed. A tensor in the memory of the host and its array are
the same memory. Types that numpy lacks (bfloat16, float8 …) keep their bits, under the types of
``ml_dtypes``.
"""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from importlib import import_module, util
from typing import Any

import numpy as np

from jobrun.values.axis_order import dense_strides, has_gaps, order_of_strides
from jobrun.values.kinds import Kind

Array = np.ndarray[Any, Any]
# Of ``torch.Tensor``; nothing here knows the class when it is not loaded.
Tensor = Any

# Under which the state of a module has its gradients: names of modules and parameters have no dots.
GRADIENTS = ".grad"
_TRAINING = "training"
# A few numbers in a file must not ask for all memory.
_MOST_GAPS = 1 << 16
# Types that numpy has not, and the integers that have their bits.
_FOREIGN = {
    "bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8", "float8_e5m2fnuz": "uint8", "float8_e8m0fnu": "uint8",
}  # fmt: skip
_PLAIN = frozenset(
    f"{kind}{bits}"
    for kind, sizes in (
        ("int", (8, 16, 32, 64)),
        ("uint", (8, 16, 32, 64)),
        ("float", (16, 32, 64)),
        ("complex", (64, 128)),
    )
    for bits in sizes
) | {"bool"}


def loaded_torch() -> Any:
    """Return the module torch if it has been imported, else None."""
    return sys.modules.get("torch")


def require_torch() -> Any:
    """Import and return torch; raise ``ValueError`` if it is not installed.

    Raises:
        ValueError: It is not installed.
    """
    if loaded_torch() is None and util.find_spec("torch") is None:
        raise ValueError("a tensor needs the package torch, which is not installed")
    return import_module("torch")


def is_tensor(value: Any) -> bool:
    """Return whether a value is a PyTorch ``Tensor`` or ``Parameter``, not of another subclass."""
    return TensorKind.matches(type(value))


class TensorKind(Kind):
    """Tensors of PyTorch, and parameters."""

    is_memory = True

    @staticmethod
    def matches(value_class: type) -> bool:
        torch = loaded_torch()
        parameter = getattr(getattr(torch, "nn", None), "Parameter", None)
        return torch is not None and value_class in (getattr(torch, "Tensor", None), parameter)


def are_same_memory(first: Any, second: Any) -> bool:
    """Return whether two values are tensors of one type, shape and strides over the same memory."""
    return (
        is_tensor(first)
        and is_tensor(second)
        and first.device == second.device
        and first.data_ptr() == second.data_ptr()
        and (first.dtype, first.shape, first.stride())
        == (second.dtype, second.shape, second.stride())
    )


def explain_unsavable(tensor: Tensor) -> str:
    """Explain why a PyTorch tensor cannot be saved as an array; return an empty text if it can."""
    name = _dtype_name(tensor)
    if tensor.device.type == "meta":
        return "a tensor without data (device meta)"
    if str(tensor.layout) != "torch.strided" or tensor.is_quantized or tensor.is_nested:
        return f"a tensor of layout {str(tensor.layout).partition('.')[2]}, not a dense one"
    if tensor.grad_fn is not None:
        return "a tensor with its history of gradients; detach() it"
    if tensor.grad is not None:
        return "a tensor with a gradient in .grad; set that to None, or make it a blob of its own"
    if getattr(tensor, "__dict__", None):
        return f"a tensor with the attribute '{next(iter(vars(tensor)))}'; delete it"
    if name in _FOREIGN:
        missing = util.find_spec("ml_dtypes") is None or not hasattr(_ml_dtypes(), name)
        return f"a tensor of {name}, which needs the package ml_dtypes" if missing else ""
    return "" if name in _PLAIN else f"a tensor of type {name}"


def tensor_facts(tensor: Tensor, *, gaps: bool = False) -> dict[str, Any]:
    """Return the properties of a PyTorch tensor that its numpy array lacks: device, strides, ….

    Args:
        tensor: The tensor.
        gaps: Record gaps between its elements, too, by its strides.
    """
    facts: dict[str, Any] = {}
    if tensor.device.type != "cpu":
        facts["device"] = str(tensor.device)
    if tensor.requires_grad:
        facts["requires_grad"] = True
    if type(tensor).__name__ == "Parameter":
        facts["parameter"] = True
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    usual = dense_strides(shape, 1, order_of_strides(shape, strides))
    if tensor.numel() and strides != usual and (gaps or not has_gaps(shape, strides, 1)):
        # PyTorch's memory formats are read from those of axes of length 1, too.
        facts["strides"] = list(strides)
    return facts


def memory_key(tensor: Tensor) -> tuple[Any, ...] | None:
    """Return a key that PyTorch tensors share if they view the same memory; None if empty."""
    if not tensor.numel():
        return None
    strides = tuple(tensor.stride())
    view = tensor.data_ptr(), tuple(tensor.shape), strides
    return (*view, str(tensor.dtype), str(tensor.device), tensor.is_conj(), tensor.is_neg())


def to_arrays(tensors: Iterable[Tensor]) -> list[Array]:
    """Convert PyTorch tensors to numpy arrays, which share the memory of tensors on the CPU.

    What is on a CUDA device comes by way of pinned memory, all of it at a time: the copies are
    only begun, and waited for together.
    """
    begun = [_on_host(tensor.detach().resolve_conj().resolve_neg()) for tensor in tensors]
    for device in {device for _, device in begun if device is not None}:
        require_torch().cuda.synchronize(device)
    return [_as_array(tensor) for tensor, _ in begun]


def from_array(array: Array, facts: Mapping[str, Any], *, place: bool = True) -> Tensor:
    """Make a PyTorch tensor of a numpy array, sharing its memory if possible.

    Args:
        array: The data.
        facts: As ``tensor_facts`` returns them.
        place: Bring it to its device; else it stays with the host.

    Raises:
        ValueError: There is no torch, no such type, or no such device.
    """
    torch = require_torch()
    name = array.dtype.name
    if name in _FOREIGN and array.dtype.isbuiltin == 2:
        tensor = torch.from_numpy(array.view(_FOREIGN[name])).view(getattr(torch, name))
    else:
        tensor = torch.from_numpy(array)
    device = facts.get("device")
    try:
        tensor = tensor.to(str(device)) if device and place else tensor
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"a tensor belongs to {device}, which is not here") from error
    if "strides" in facts:
        tensor = _with_strides(tensor, facts["strides"])
    if facts.get("parameter"):
        return torch.nn.Parameter(tensor, requires_grad=bool(facts.get("requires_grad")))
    return tensor.requires_grad_() if facts.get("requires_grad") else tensor


def _with_strides(tensor: Tensor, strides: Any) -> Tensor:
    shape = tuple(tensor.shape)
    try:
        if not has_gaps(shape, strides, 1):
            return tensor.as_strided(shape, strides)
        extent = 1 + sum(step * (n - 1) for step, n in zip(strides, shape, strict=True))
        # PyTorch refuses negative ones itself.
        extent = min(extent, _MOST_GAPS * max(tensor.numel(), 1 << 10))
        return tensor.new_empty(extent).as_strided(shape, strides).copy_(tensor)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{str(strides)[:80]} are no strides of a tensor") from error


def _on_host(tensor: Tensor) -> tuple[Tensor, Any]:
    """Begin to copy a PyTorch tensor to the CPU; return the copy, and the device to wait for."""
    if tensor.device.type == "cpu":
        return tensor, None
    if tensor.device.type != "cuda":
        return tensor.cpu(), None
    torch = require_torch()
    # With the axes in the order that they have.
    host = torch.empty_like(tensor, device="cpu", pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    return host, tensor.device


def _as_array(tensor: Tensor) -> Array:
    name = _dtype_name(tensor)
    if name not in _FOREIGN:
        array: Array = tensor.numpy()
        return array
    bits: Array = tensor.view(getattr(require_torch(), _FOREIGN[name])).numpy()
    foreign: Array = bits.view(np.dtype(getattr(_ml_dtypes(), name)))
    return foreign


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).partition(".")[2]


def _ml_dtypes() -> Any:
    return import_module("ml_dtypes")


def is_module(value: Any) -> bool:
    """Return whether a value is a ``torch.nn.Module``, a module of PyTorch."""
    kind = getattr(getattr(loaded_torch(), "nn", None), "Module", None)
    return kind is not None and isinstance(value, kind)


def module_state(module: Any) -> Any:
    """Return the state dict of a PyTorch module, with gradients and modes, sharing its memory."""
    tree = module.state_dict()
    if not isinstance(tree, dict):
        return tree
    # A class may give out the same dict each time.
    tree = copy.copy(tree)
    versions = getattr(tree, "_metadata", None)
    if versions is not None:
        facts = OrderedDict((name, dict(version)) for name, version in versions.items())
        for name, part in module.named_modules():
            facts.setdefault(name, {})[_TRAINING] = bool(part.training)
        tree._metadata = facts  # type: ignore[attr-defined]
    gradients = {
        name: parameter.grad
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    if gradients:
        tree[GRADIENTS] = gradients
    return tree


def set_module_state(module: Any, tree: Any) -> None:
    """Load a state dict into a PyTorch module, with its gradients and training modes.

    Raises:
        Exception: What the module raises.
    """
    gradients: dict[str, Any] = {}
    versions: Any = getattr(tree, "_metadata", None) or {}
    if isinstance(tree, dict) and GRADIENTS in tree:
        tree = copy.copy(tree)
        gradients = tree.pop(GRADIENTS)
    module.load_state_dict(tree)
    modes = {name: facts[_TRAINING] for name, facts in versions.items() if _TRAINING in facts}
    for name, part in module.named_modules():
        if name in modes:
            part.training = modes[name]
    if not modes and not gradients:
        # It says nothing of gradients: another object may have put them there.
        return
    for name, parameter in module.named_parameters():
        _set_gradient(parameter, gradients.get(name))


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
