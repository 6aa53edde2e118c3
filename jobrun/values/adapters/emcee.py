"""Adapt the ensemble sampler of emcee: its chain, walkers, moves and generator.

Left as they are made at each start: the function that it samples, and its pool of processes.
"""

from __future__ import annotations

from typing import Any

from jobrun.values.adapters.reduce_protocol import object_adapter
from jobrun.values.adapters.registry import Adapter, UnsavableError, class_name, package_of

_LEFT_OUT = frozenset({"log_prob_fn", "pool"})


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves objects of a class from emcee; None for any other class."""
    if any(one.__name__ == "EnsembleSampler" for one in kind.__mro__):
        return _SAMPLER
    return object_adapter("emcee", "numpy", inner=True) if package_of(kind) == "emcee" else None


def _sampler_tree(sampler: Any) -> dict[str, Any]:
    if class_name(type(sampler.backend)) != "emcee.backends.backend:Backend":
        raise UnsavableError(
            ("backend",),
            f"a {type(sampler.backend).__name__}, whose file is no part of a "
            "checkpoint; leave out backend=, so that the chain is kept in memory",
        )
    tree = {name: one for name, one in vars(sampler).items() if name not in _LEFT_OUT}
    generator = sampler._random.get_state(legacy=False)
    return {**tree, "backend": dict(vars(sampler.backend)), "_random": generator}


def _set_sampler(sampler: Any, tree: dict[str, Any]) -> None:
    held = vars(sampler)
    kept = {name: held[name] for name in _LEFT_OUT}
    backend, generator = sampler.backend, sampler._random
    # In place, since others may have them.
    vars(backend).clear()
    vars(backend).update(tree["backend"])
    generator.set_state(tree["_random"])
    held.clear()
    held.update({**tree, **kept, "backend": backend, "_random": generator})


_SAMPLER = Adapter(_sampler_tree, set=_set_sampler)
