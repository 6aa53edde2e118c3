"""Adapt individuals, populations, fitnesses, logbooks and halls of fame of DEAP.

Individuals are of classes that ``deap.creator`` has made: make these at the top level of a module
of yours, so that they are there before a checkpoint is loaded.
"""

from __future__ import annotations

from jobrun.values.adapters.reduce_protocol import object_adapter
from jobrun.values.adapters.registry import Adapter


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves objects of a DEAP class, also one made by ``deap.creator``."""
    return object_adapter("deap", "array") if kind.__module__.startswith("deap.") else None
