"""Adapt sparse matrices and arrays of scipy."""

from __future__ import annotations

from importlib import import_module

from jobrun.values.adapters.reduce_protocol import object_adapter
from jobrun.values.adapters.registry import Adapter


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves scipy's sparse matrices and arrays; None for other classes."""
    sparse = import_module("scipy.sparse")
    if issubclass(kind, sparse.sparray | sparse.spmatrix):
        return object_adapter("scipy")
    return None
