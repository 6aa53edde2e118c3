"""The state of an estimator in the manner of scikit-learn. Imports nothing of that package.

Such an object is its attributes: the parameters that ``get_params`` names, and what fitting has
made of the data. All of them are kept, or none: an attribute that cannot be told exactly
(compiled code, a tree) makes the whole estimator one that cannot be kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.blobs.trees import UnsavableError, is_tree, taken_apart

_PLAIN, _GENERATORS, _INSIDE = "attributes", "generators", "estimators"


def is_estimator(value: Any) -> bool:
    """Whether it has parameters by name, and can be fitted."""
    kind = type(value)
    methods = ("get_params", "set_params", "fit")
    return all(callable(getattr(kind, name, None)) for name in methods) and hasattr(
        value, "__dict__"
    )


def estimator_state(value: Any) -> dict[str, Any]:
    """All attributes: plain ones, generators by their state, and the estimators inside.

    Raises:
        UnsavableError: One of them cannot be kept; its path begins with the attribute.
    """
    plain: dict[str, Any] = {}
    generators: dict[str, Any] = {}
    inside: dict[str, Any] = {}
    known: dict[int, str] = {}
    parameters = value.get_params(deep=False)
    for name, one in vars(value).items():
        if isinstance(one, np.random.RandomState):
            # One generator under two names stays one.
            first = known.setdefault(id(one), name)
            generators[name] = one.get_state(legacy=False) if first == name else first
        elif is_estimator(one) and name in parameters:
            inside[name] = estimator_state(one)
        else:
            plain[name] = _plain(one, name)
    return {_PLAIN: plain, _GENERATORS: generators, _INSIDE: inside}


def set_estimator_state(value: Any, state: dict[str, Any]) -> None:
    """Give an estimator these attributes, and no others."""
    inside = {name: vars(value)[name] for name in state[_INSIDE]}
    for name, one in inside.items():
        set_estimator_state(one, state[_INSIDE][name])
    made: dict[str, np.random.RandomState] = {}
    for name, one in state[_GENERATORS].items():
        made[name] = made[one] if isinstance(one, str) else _generator(one)
    vars(value).clear()
    vars(value).update({**state[_PLAIN], **made, **inside})


def _plain(value: Any, name: str) -> Any:
    try:
        # It stands alone here, so that what is wrong is told of this attribute.
        taken_apart(value if is_tree(value) else (value,))
    except UnsavableError as error:
        deeper = error.path if is_tree(value) else ()
        raise UnsavableError((name, *deeper), error.what) from error
    return value


def _generator(state: Any) -> np.random.RandomState:
    made = np.random.RandomState()
    made.set_state(state)
    return made
