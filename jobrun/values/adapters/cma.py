"""Adapt the evolution strategy of cma (``CMAEvolutionStrategy``).

Left as it is made at each start: its logger, whose files are no part of a checkpoint, and its
timers, which begin again. Its samples come from the global generator of numpy.
"""

from __future__ import annotations

from typing import Any

from jobrun.values.adapters.python_objects import object_adapter
from jobrun.values.adapters.registry import Adapter, package_of

_LEFT_OUT = frozenset({"logger"})


def find(kind: type) -> Adapter | None:
    """Find the adapter of a class of cma's."""
    if kind.__name__ == "ElapsedWCTime":
        return _TIMER
    if any(one.__name__ == "CMAEvolutionStrategy" for one in kind.__mro__):
        return _STRATEGY
    return object_adapter("cma", "numpy", inner=True) if package_of(kind) == "cma" else None


def _strategy_tree(strategy: Any) -> dict[str, Any]:
    return {name: one for name, one in vars(strategy).items() if name not in _LEFT_OUT}


def _set_strategy(strategy: Any, tree: dict[str, Any]) -> None:
    held = vars(strategy)
    for name in held.keys() - _LEFT_OUT:
        del held[name]
    held.update(tree)


_STRATEGY = Adapter(_strategy_tree, set=_set_strategy)
_TIMER = Adapter(lambda _: None, lambda kind, _: kind(), inner=True)
