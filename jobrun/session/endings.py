"""Which tasks of a group run have ended on all their nodes, as a master hears it. Sends nothing.

A task that needs another one waits for that on all nodes, so nodes are told once, when the last
of them has ended: of a task on n nodes that is followed on n nodes, n messages and not n times n.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from jobrun.blobs.values import Value
from jobrun.graph.types import OutputRef
from jobrun.session.share import Shares

Made = Mapping[OutputRef, Value]


class Endings:
    """The endings of one run of a group.

    Args:
        shares: The group, divided.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._lock = threading.Lock()
        self._left = {name: set(nodes) for name, nodes in shares.tellers.items()}
        self._made: dict[OutputRef, Value] = {}

    def ended(self, task: str, node: str, outputs: Made) -> dict[str, Made]:
        """A task has ended on one of its nodes. Any thread.

        Returns:
            Whom to tell that it has on all of them, each with what is read there of its outputs.
        """
        with self._lock:
            self._made.update(outputs)
            left = self._left[task]
            left.discard(node)
            if left:
                return {}
        return {other: self._read(task, other) for other in self._shares.followers[task]}

    def _read(self, task: str, node: str) -> Made:
        made = self._made
        reads = self._shares.by_node[node].reads
        return {ref: made[ref] for ref in reads if ref.task == task and ref in made}
