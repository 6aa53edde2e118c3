"""Adapt environments of gymnasium: all attributes of an environment and of its wrappers.

With the generators of the environment and of its spaces. Left as they are made at each start: the
spaces themselves, the specification, functions, what draws on a screen, and the wall-clock times
that ``RecordEpisodeStatistics`` measures. An attribute that cannot be kept, such as the simulation
of MuJoCo, makes the environment one that cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from jobrun.values.adapters.reduce_protocol import object_adapter
from jobrun.values.adapters.registry import (
    Adapter,
    UnsavableError,
    class_name,
    class_text,
    is_named,
    package_of,
)

_CLOCKS = frozenset({"episode_start_time", "episode_start_times", "time_queue"})
# What makes the environments of a vector.
_MAKERS = frozenset({"env_fns"})
_SPACE, _LEFT_OUT, _PARTS, _VALUE = "space", "left out", "parts", "value"


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves a gymnasium environment, a wrapper, or an object inside one."""
    gymnasium: Any = import_module("gymnasium")
    if issubclass(kind, gymnasium.Env | gymnasium.vector.VectorEnv):
        return _ENVIRONMENT
    if package_of(kind) == "gymnasium":
        return object_adapter("gymnasium", "numpy", inner=True)
    return None


def _sort_attribute(name: str, value: Any) -> str:
    """Classify an attribute of a gymnasium environment: space, environments, value, or unsaved."""
    gymnasium: Any = import_module("gymnasium")
    if isinstance(value, gymnasium.Space):
        return _SPACE
    if _environments(value):
        return _PARTS
    kind = type(value)
    is_left_out = (
        name in _CLOCKS | _MAKERS
        or is_named(kind)
        or package_of(kind) == "pygame"
        or isinstance(value, ModuleType | gymnasium.envs.registration.EnvSpec)
    )
    return _LEFT_OUT if is_left_out else _VALUE


def _environments(value: Any) -> list[Any]:
    gymnasium: Any = import_module("gymnasium")
    kinds = gymnasium.Env | gymnasium.vector.VectorEnv
    if isinstance(value, kinds):
        return [value]
    if type(value) in (list, tuple) and value and all(isinstance(part, kinds) for part in value):
        return list(value)
    return []


def _environment_tree(env: Any) -> dict[str, Any]:
    if type(env).__name__ == "AsyncVectorEnv":
        raise UnsavableError((), f"{class_text(env)}, whose processes have the environments")
    tree: dict[str, Any] = {"class": class_name(type(env))}
    for name, attribute in vars(env).items():
        sort = _sort_attribute(name, attribute)
        if sort == _VALUE:
            tree.setdefault("values", {})[name] = attribute
        elif sort == _PARTS:
            parts = [_environment_tree(part) for part in _environments(attribute)]
            tree.setdefault("parts", {})[name] = parts
        elif sort == _SPACE:
            tree.setdefault("spaces", {})[name] = [space._np_random for space in _spaces(attribute)]
    return tree


def _spaces(space: Any) -> Iterator[Any]:
    """Iterate over a gymnasium space and all nested ones; each has its own random generator."""
    yield space
    inside = getattr(space, "spaces", ())
    for attribute in inside.values() if hasattr(inside, "values") else inside:
        yield from _spaces(attribute)
    if hasattr(space, "feature_space"):
        yield from _spaces(space.feature_space)


def _set_environment(env: Any, tree: dict[str, Any]) -> None:
    if class_name(type(env)) != tree["class"]:
        raise ValueError(f"it is a {class_name(type(env))}, and {tree['class']} was saved")
    values = tree.get("values", {})
    for name, attribute in list(vars(env).items()):
        if name not in values and _sort_attribute(name, attribute) == _VALUE:
            del vars(env)[name]
    vars(env).update(values)
    for name, parts in tree.get("parts", {}).items():
        for part, state in zip(_environments(vars(env)[name]), parts, strict=True):
            _set_environment(part, state)
    for name, generators in tree.get("spaces", {}).items():
        for space, generator in zip(_spaces(vars(env)[name]), generators, strict=True):
            space._np_random = generator


_ENVIRONMENT = Adapter(_environment_tree, set=_set_environment)
