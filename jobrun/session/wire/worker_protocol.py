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
        """Send a message over the channel to or from a process (worker protocol).

        Can be called from any thread.

        Raises:
            OSError: The other side has ended.
            TaskFailedError: E274, a value has a dtype that cannot be encoded.
        """

    def receive(self) -> tuple[Any, ...] | None:
        """Wait for the next message on a worker's channel; None at its end (protocol)."""

    def close(self) -> None:
        """Close the message channel; a receiving thread then gets None (worker protocol)."""


class PeerReader(Protocol):
    """Reads blobs of other nodes, for one node."""

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Iterate over copies of a blob that other nodes' processes return (worker protocol).

        Raises:
            EnvironmentFaultError: E395, a node is lost.
            MissingBlobError: A node has no such blob.
            CancelledError: The scope was cancelled.
        """


class WorkerProcess(Protocol):
    """The process of one node, from its start to its end, as its master controls it."""

    @property
    def channel(self) -> MessageChannel:
        """The worker protocol's field for the master's end of the channel to a process."""

    @property
    def pid(self) -> int:
        """The worker protocol's field for a process ID; 0 until it is known."""

    def kill(self) -> None:
        """Kill the process at once, however it was made (worker protocol)."""

    def abort(self) -> None:
        """Kill an unresponsive process after it prints its stacks: a worker protocol's method."""

    def wait_for_exit(self) -> None:
        """Wait until a process has ended, in whatever way: a worker protocol's method."""

    def join(self) -> str:
        """Wait for the process to end, by force if needed; return how (worker protocol)."""

    def take_output(self, emit: Listener) -> None:
        """Emit what an ended process printed and did not send: a worker protocol's method."""

    def release(self) -> None:
        """Free what the master holds of an ended process: a worker protocol's method."""

    def connect_peer(self, asker: str, owner: str, other: Any) -> None:
        """Connect this process, which asks, with the owner of blobs ``other`` (worker protocol)."""
