"""Adapt the evolution strategy of cma (``CMAEvolutionStrategy``).

Left as it is made at each start: its logger, whose files are no part of a checkpoint, and its
timers, which begin again. Its samples come from the global generator of numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from jobrun.values.adapters.reduce_protocol import object_adapter, object_tree
from jobrun.values.adapters.registry import Adapter, package_of

_LEFT_OUT = frozenset({"logger"})


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves objects of a class from cma; None for any other class."""
    if kind.__name__ == "ElapsedWCTime":
        return _TIMER
    if kind.__name__ == "BestSolution":
        return _BEST
    if any(base.__name__ == "CMAEvolutionStrategy" for base in kind.__mro__):
        return _STRATEGY
    return _INNER if package_of(kind) == "cma" else None


def _strategy_tree(strategy: Any) -> dict[str, Any]:
    tree = {name: attribute for name, attribute in vars(strategy).items() if name not in _LEFT_OUT}
    variances = strategy.sm.variances
    if np.may_share_memory(tree["dC"], variances) and tree["dC"].shape == variances.shape:
        # A view of the sampler's matrix, which changes with it.
        tree["dC"] = None
    return tree


def _set_strategy(strategy: Any, tree: dict[str, Any]) -> None:
    held = vars(strategy)
    for name in held.keys() - _LEFT_OUT:
        del held[name]
    held.update(tree)
    if tree["dC"] is None:
        strategy.dC = strategy.sm.variances


def _best_tree(best: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert the best solution of a ``cma`` strategy to dicts to save, with copied arrays."""
    tree, contents = object_tree(best)
    state = {
        name: attribute.copy() if isinstance(attribute, np.ndarray) else attribute
        for name, attribute in contents["state"].items()
    }
    return tree, {**contents, "state": state}


_INNER = object_adapter("cma", "numpy", inner=True)
_BEST = replace(_INNER, get=_best_tree)
_STRATEGY = Adapter(_strategy_tree, set=_set_strategy, version=2)
_TIMER = Adapter(lambda _: None, lambda kind, _: kind(), inner=True)
