"""What a pull brings: one blob, made of blobs of nodes. The step itself is with the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reduction = Literal["mean", "sum", "stack", "concat", "first"]


@dataclass(frozen=True, slots=True)
class PulledBlob:
    """One blob made of blobs of nodes' global workspaces.

    Attributes:
        blob: What it becomes here.
        nodes: Where it comes from, in the order in which the values are joined.
        name: What it is called there.
    """

    blob: str
    nodes: tuple[str, ...]
    name: str
    reduce: Reduction = "first"
