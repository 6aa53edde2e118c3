"""Define the protocols of a node's process and its channel, as the master uses them.

There are two: a process of this machine (``launch``), and an actor of a cluster (``actor_handle``).
Both exchange the same messages between a ``WorkerHandle`` in the master and a ``Worker`` inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from jobrun.core.events import Listener
from jobrun.runtime.frame.cancel import CancelScope
from jobrun.values.blob_kinds import Value

# Asks the master for a connection to a node.
RequestConnection = Callable[[str, CancelScope], None]
# Gives a copy of a blob of this node.
ReadOwnBlob = Callable[[str], Value]


class MessageChannel(Protocol):
    """One end of what carries messages between a node and its master, whole and in order."""

    def send(self, *message: Any) -> None:
        """Send a message over the channel of a worker, from any thread (protocol).

        Raises:
            OSError: The other side has ended.
            TaskFailedError: E274, a value has a dtype that cannot be encoded.
        """

    def receive(self) -> tuple[Any, ...] | None:
        """Wait for the next message on a worker's channel; None at its end (protocol)."""

    def close(self) -> None:
        """Close the channel of a worker; a receiving thread gets None (protocol)."""


class PeerReader(Protocol):
    """Reads blobs of other nodes, for one node."""

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Iterate over copies of a blob of several nodes that a worker has read (protocol).

        Raises:
            EnvironmentFaultError: E395, a node is lost.
            MissingBlobError: A node has no such blob.
            CancelledError: The scope was cancelled.
        """


class WorkerProcess(Protocol):
    """The process of one node, from its start to its end, as its master controls it."""

    @property
    def channel(self) -> MessageChannel:
        """The master's end of the channel to the process."""

    @property
    def pid(self) -> int:
        """The process ID of a worker on its machine; 0 until it is known (protocol)."""

    def kill(self) -> None:
        """Kill the worker process at once (protocol)."""

    def abort(self) -> None:
        """Kill a worker process that does not answer, printing its stacks (protocol)."""

    def wait_for_exit(self) -> None:
        """Return when the worker process has ended, in whatever way (protocol)."""

    def join(self) -> str:
        """Wait for a worker process to end, by force if needed; say how (protocol)."""

    def take_output(self, emit: Listener) -> None:
        """Emit as ``Logged`` what a worker that has ended printed and did not emit (protocol)."""

    def release(self) -> None:
        """Free what the master holds of a worker process, once no thread uses it (protocol)."""

    def connect_peer(self, asker: str, owner: str, other: Any) -> None:
        """Connect this worker process, the asker, with the owner, ``other`` (protocol)."""
