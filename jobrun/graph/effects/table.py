"""List the declared kinds of steps by the key that says of which kind a step of a spec is.

In the order in which a step's keys are searched for them. Each is the first key of its kind.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from jobrun.graph.effects.effect import DeclaredEffect

# By key: the module in this folder and the class, imported where a job may have such a step.
DECLARED = {
    "log": ("log", "Log"),
    "metric": ("metric", "Metric"),
    "assert": ("assertion", "Assert"),
    "sleep": ("sleep", "Sleep"),
}


@cache
def declared_kinds() -> dict[str, type[DeclaredEffect]]:
    """Import the classes of the declared effects, by the keys that say so."""
    return {
        key: getattr(import_module(f"{__package__}.{module}"), name)
        for key, (module, name) in DECLARED.items()
    }
