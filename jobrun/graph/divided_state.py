"""Define state that is divided by rows among nodes, or the same on all of them.

On another number of nodes such state can be merged and divided again; any other state belongs to
its node.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from jobrun.core.errors import Origin
from jobrun.core.lazy_dataclass import dataclass

Layout = Literal["rows", "replicated"]


@dataclass(frozen=True, slots=True)
class StateLayout:
    """The declared layout of the blobs of one name.

    Attributes:
        layout: ``rows``: the nodes have parts of one array, along its first axis, in their order;
            of ``n`` rows part ``k`` of ``m`` is ``k * n // m`` to ``(k + 1) * n // m``.
            ``replicated``: all nodes have the same bits.
        path: ``state.U``.
    """

    name: str
    layout: Layout
    path: str = ""
    origin: Origin = field(default=Origin("<python>"), compare=False)


@dataclass(frozen=True, slots=True)
class Rows:
    """A part of a blob in a file: rows from ``first`` to before ``stop``; None: the whole value."""

    name: str
    first: int | None = None
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """The blobs of a checkpoint file, perhaps of another node, that become a node's state.

    Attributes:
        file: The path of the file.
        node: The node whose state it holds.
        digest: The digest in the manifest; it is verified before anything is read.
    """

    file: str
    node: str
    digest: str
    blobs: tuple[Rows, ...]
