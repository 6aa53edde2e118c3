"""Take and set the state of estimators: objects with parameters and ``fit``, as in scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.container_flattening import flatten, is_tree

_ATTRIBUTES, _GENERATORS_INSIDE, _ESTIMATORS_INSIDE = "attributes", "generators", "estimators"


def is_estimator(value: Any) -> bool:
    """Return whether a value is an estimator: an object with ``get_params`` and ``fit``."""
    kind = type(value)
    methods = ("get_params", "set_params", "fit")
    return all(callable(getattr(kind, name, None)) for name in methods) and hasattr(
        value, "__dict__"
    )


def estimator_state(value: Any) -> dict[str, Any]:
    """Return an estimator's state: its attributes, random generators and inner estimators.

    Raises:
        UnsavableError: One of them cannot be kept; its path begins with the attribute.
    """
    plain: dict[str, Any] = {}
    generators: dict[str, Any] = {}
    inside: dict[str, Any] = {}
    parameters = value.get_params(deep=False)
    for name, part in vars(value).items():
        if isinstance(part, np.random.RandomState):
            generators[name] = part
        elif is_estimator(part) and name in parameters:
            inside[name] = estimator_state(part)
        else:
            plain[name] = _plain(part, name)
    return {_ATTRIBUTES: plain, _GENERATORS_INSIDE: generators, _ESTIMATORS_INSIDE: inside}


def set_estimator_state(value: Any, state: dict[str, Any]) -> None:
    """Set an estimator to a saved state; remove attributes that the state lacks.

    Generators and estimators that it has already get their states in place: others may have them.
    """
    inside = {name: vars(value)[name] for name in state[_ESTIMATORS_INSIDE]}
    for name, part in inside.items():
        set_estimator_state(part, state[_ESTIMATORS_INSIDE][name])
    held = {**state[_ATTRIBUTES], **state[_GENERATORS_INSIDE]}
    for name, part in state[_GENERATORS_INSIDE].items():
        present = vars(value).get(name)
        if isinstance(present, np.random.RandomState) and present is not part:
            present.set_state(part.get_state(legacy=False))
            _replace(held, part, present, set())
    vars(value).clear()
    vars(value).update({**held, **inside})


def _replace(root: Any, old: Any, new: Any, seen: set[int]) -> None:
    """Replace a random generator in an estimator's loaded state by the one the estimator has."""
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
    for key, part in named:
        if part is old and target is not None:
            target[key] = new
        else:
            _replace(part, old, new, seen)


def _plain(value: Any, name: str) -> Any:
    try:
        # Checked by itself, so that an error names this attribute.
        flatten(value if is_tree(value) else (value,))
    except UnsavableError as error:
        deeper = error.path if is_tree(value) else ()
        raise UnsavableError((name, *deeper), error.what) from error
    return value
