"""Tensors of PyTorch as arrays of numpy and back. Imports torch for nobody who has not done so.

A tensor in the memory of the host and its array are the same memory. Types that numpy lacks
(bfloat16, float8 …) keep their bits, under the types of ``ml_dtypes``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module, util
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
# Of ``torch.Tensor``; nothing here knows the class when it is not loaded.
Tensor = Any

# Types that numpy has not, and the integers that have their bits.
_FOREIGN = {
    "bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8", "float8_e5m2fnuz": "uint8", "float8_e8m0fnu": "uint8",
}  # fmt: skip
_PLAIN = frozenset(
    f"{kind}{bits}" for kind, sizes in (("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)),
                                        ("float", (16, 32, 64)), ("complex", (64, 128)))
    for bits in sizes
) | {"bool"}  # fmt: skip


def loaded_torch() -> Any:
    """The module, if somebody has imported it; else None."""
    return sys.modules.get("torch")


def needed_torch() -> Any:
    """The module, for a value that cannot be without it.

    Raises:
        ValueError: It is not installed.
    """
    if loaded_torch() is None and util.find_spec("torch") is None:
        raise ValueError("a tensor needs the package torch, which is not installed")
    return import_module("torch")


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor or a parameter; subclasses may hide anything, and are neither."""
    torch = loaded_torch()
    kinds = getattr(torch, "Tensor", None), getattr(getattr(torch, "nn", None), "Parameter", None)
    return torch is not None and type(value) in kinds


def refusal_of(tensor: Tensor) -> str:
    """Why a tensor cannot be kept as an array; empty when it can."""
    name = _dtype_name(tensor)
    if tensor.device.type == "meta":
        return "a tensor without data (device meta)"
    if str(tensor.layout) != "torch.strided" or tensor.is_quantized or tensor.is_nested:
        return f"a tensor of layout {str(tensor.layout).partition('.')[2]}, not a dense one"
    if tensor.grad_fn is not None:
        return "a tensor with its history of gradients; detach() it"
    if name in _FOREIGN:
        missing = util.find_spec("ml_dtypes") is None or not hasattr(_ml_dtypes(), name)
        return f"a tensor of {name}, which needs the package ml_dtypes" if missing else ""
    return "" if name in _PLAIN else f"a tensor of type {name}"


def facts_of(tensor: Tensor) -> dict[str, Any]:
    """What the array does not tell: the device, if it is another one, and who learns from it."""
    facts: dict[str, Any] = {}
    if tensor.device.type != "cpu":
        facts["device"] = str(tensor.device)
    if tensor.requires_grad:
        facts["requires_grad"] = True
    if type(tensor).__name__ == "Parameter":
        facts["parameter"] = True
    return facts


def identity(tensor: Tensor) -> tuple[Any, ...] | None:
    """Equal for tensors that are the same memory, seen in the same way; None without memory."""
    if not tensor.numel():
        return None
    strides = tuple(tensor.stride())
    place = tensor.data_ptr(), tuple(tensor.shape), strides
    return (*place, str(tensor.dtype), str(tensor.device), tensor.is_conj(), tensor.is_neg())


def to_arrays(tensors: Iterable[Tensor]) -> list[Array]:
    """The tensors' data; of those in the memory of the host the memory itself.

    What is on a CUDA device comes by way of pinned memory, all of it at a time: the copies are
    only begun, and waited for together.
    """
    begun = [_on_host(one.detach().resolve_conj().resolve_neg()) for one in tensors]
    for device in {device for _, device in begun if device is not None}:
        needed_torch().cuda.synchronize(device)
    return [_as_array(one) for one, _ in begun]


def from_array(array: Array, facts: Mapping[str, Any], *, place: bool = True) -> Tensor:
    """The tensor of an array that nobody else will change: the same memory, if that is possible.

    Args:
        array: The data.
        facts: As ``facts_of`` tells them.
        place: Bring it to its device; else it stays with the host.

    Raises:
        ValueError: There is no torch, no such type, or no such device.
    """
    torch = needed_torch()
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
    if facts.get("parameter"):
        return torch.nn.Parameter(tensor, requires_grad=bool(facts.get("requires_grad")))
    return tensor.requires_grad_() if facts.get("requires_grad") else tensor


def _on_host(tensor: Tensor) -> tuple[Tensor, Any]:
    """The tensor in the host's memory, and the device that may still be writing to it."""
    if tensor.device.type == "cpu":
        return tensor, None
    if tensor.device.type != "cuda":
        return tensor.cpu(), None
    torch = needed_torch()
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    return host, tensor.device


def _as_array(tensor: Tensor) -> Array:
    name = _dtype_name(tensor)
    if name not in _FOREIGN:
        array: Array = tensor.numpy()
        return array
    bits: Array = tensor.view(getattr(needed_torch(), _FOREIGN[name])).numpy()
    foreign: Array = bits.view(np.dtype(getattr(_ml_dtypes(), name)))
    return foreign


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).partition(".")[2]


def _ml_dtypes() -> Any:
    return import_module("ml_dtypes")
