"""State that is divided among nodes, or the same on all of them. What becomes of it is not here.

On another number of nodes such state can be put together and divided anew; any other state belongs
to its node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jobrun.core.origin import Origin

Layout = Literal["rows", "replicated"]


@dataclass(frozen=True, slots=True)
class StateLayout:
    """What a job declares of the blobs of one name.

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
    """Some of a blob in a file: rows from ``first`` to before ``stop``; None: the whole value."""

    name: str
    first: int | None = None
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """What of a checkpoint file, perhaps that of another node, becomes a node's state.

    Attributes:
        file: Its path.
        node: Whose state it holds.
        digest: What the manifest says of it; nothing is read before it agrees.
    """

    file: str
    node: str
    digest: str
    blobs: tuple[Rows, ...]
