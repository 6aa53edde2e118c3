"""The place of a node that is not this process: what its master needs of it. Protocols only.

There are two: a process of this machine (``launch``), and an actor of a cluster (``rayhost``).
What is said is the same in both, and so is who says it: the ``Link`` there, the ``Worker`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from jobrun.blobs.values import Value
from jobrun.runtime.cancel import CancelScope

# Asks the master for a connection to a node.
Meet = Callable[[str, CancelScope], None]
# Gives a copy of a blob of this node.
Own = Callable[[str], Value]


class Wire(Protocol):
    """One end of what carries messages between a node and its master, whole and in order."""

    def send(self, *message: Any) -> None:
        """Send a message; from any thread.

        Raises:
            OSError: There is nobody any more.
            TaskFailedError: E274, a value has a dtype that cannot be told.
        """

    def receive(self) -> tuple[Any, ...] | None:
        """The next message, waited for; None when the other side has ended. One thread only."""

    def close(self) -> None:
        """End it; whoever receives gets None. May be called twice."""


class Ways(Protocol):
    """A node's ways to other nodes."""

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Copies of a blob of nodes, in their order.

        Raises:
            EnvironmentFaultError: E395, a node is lost.
            MissingBlobError: A node has no such blob.
            CancelledError: The scope was cancelled.
        """


class NodeHost(Protocol):
    """A process for one node, from its start to its end."""

    @property
    def channel(self) -> Wire:
        """The master's end."""

    @property
    def pid(self) -> int:
        """The number of the process, where it is; 0 as long as that is not known."""

    def kill(self) -> None:
        """End the process at once."""

    def abort(self) -> None:
        """End a process that does not answer; it tells where it is, if it can."""

    def watch(self) -> None:
        """Return when it has ended, by itself or not. Any thread."""

    def end(self) -> str:
        """Wait for its end, which has begun; by force if it takes long. How it ended, in words."""

    def release(self) -> None:
        """Give back what it took. Only when nobody uses it any more."""

    def meet(self, asker: str, owner: str, other: Any) -> None:
        """Let this node, the asker, ask the owner, whose host of the same kind is ``other``."""
