"""Adapt what scikit-learn's estimators hold: estimators, trees, losses and other compiled parts.

An estimator by itself is an object (``jobrun.values.estimators``); inside another one, in a
pipeline or an ensemble, it is made again with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.values.adapters.reduce_protocol import (
    fill_object,
    new_object,
    object_adapter,
    object_tree,
)
from jobrun.values.adapters.registry import Adapter, package_of


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves sklearn objects, or others with ``get_params`` as in sklearn."""
    if kind.__name__ == "Tree" and package_of(kind) == "sklearn":
        return _TREE
    if package_of(kind) == "sklearn" or callable(getattr(kind, "get_params", None)):
        return object_adapter("sklearn", "numpy", inner=True)
    return None


def _tree_parts(tree: Any) -> Any:
    """Convert a scikit-learn decision tree to dicts and arrays without padding bytes to save it."""
    arguments, rest = object_tree(tree)
    nodes = rest["state"]["nodes"]
    packed = np.dtype([(name, nodes.dtype[name].str) for name in nodes.dtype.names])
    return arguments, {"state": {**rest["state"], "nodes": nodes.astype(packed)}}


# A tree that gets such nodes adds the padding itself.
_TREE = Adapter(
    _tree_parts,
    lambda kind, tree: new_object(kind, tree, ("sklearn",)),
    fill=fill_object,
    inner=True,
)
