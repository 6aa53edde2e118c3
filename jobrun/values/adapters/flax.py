"""Adapt flax: modules, optimizers and generators of ``flax.nnx``, and frozen dicts.

An object of nnx is made at each start, and its state is set: the values of its variables, and its
attributes that are plain (``deterministic``, a name, a count). The dicts of ``flax.linen`` are kept
as they are; its modules are code, and so is what a ``TrainState`` has of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jobrun.values.adapters.registry import Adapter, UnsavableError, class_text

_PLAIN = (bool, int, float, str)


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves objects of a class from flax; None for any other class."""
    if kind.__name__ == "FrozenDict":
        return _FROZEN
    bases = {f"{base.__module__}.{base.__name__}" for base in kind.__mro__}
    if "flax.linen.module.Module" in bases:
        return _CODE
    return _OBJECT if "flax.nnx.pytreelib.Pytree" in bases else None


def _object_tree(value: Any) -> dict[str, Any]:
    nnx: Any = import_module("flax.nnx")
    attributes = {
        "/".join(map(str, path)): attribute
        for path, attribute in nnx.iter_graph(value)
        if type(attribute) in _PLAIN and "_pytree__nodes" not in path
    }
    return {"variables": nnx.to_pure_dict(nnx.state(value)), "attributes": attributes}


def _set_object(value: Any, tree: dict[str, Any]) -> None:
    nnx: Any = import_module("flax.nnx")
    state = nnx.state(value)
    nnx.replace_by_pure_dict(state, tree["variables"])
    nnx.update(value, state)
    for path, attribute in tree["attributes"].items():
        *way, name = path.split("/")
        _set_attribute(_part(value, way), name, attribute)


def _part(value: Any, way: list[str]) -> Any:
    for step in way:
        if isinstance(value, list | tuple):
            value = value[int(step)]
        elif isinstance(value, dict):
            value = {str(key): attribute for key, attribute in value.items()}[step]
        else:
            value = getattr(value, step)
    return value


def _set_attribute(holder: Any, name: str, value: Any) -> None:
    present = _part(holder, [name])
    if type(present) is type(value) and present == value:
        return
    if isinstance(holder, list):
        holder[int(name)] = value
    elif isinstance(holder, dict):
        holder[next(key for key in holder if str(key) == name)] = value
    else:
        setattr(holder, name, value)


def _refuse_code(module: Any) -> Any:
    raise UnsavableError(
        (),
        f"{class_text(module)}, a module of flax.linen, which is code; keep what it computes with "
        "(params, opt_state, step, keys) as a dict, and make the TrainState of it in the epoch",
    )


_FROZEN = Adapter(lambda frozen: frozen.unfreeze(), lambda kind, tree: kind(tree), immutable=True)
_OBJECT = Adapter(_object_tree, set=_set_object)
_CODE = Adapter(_refuse_code, lambda _kind, tree: tree)
