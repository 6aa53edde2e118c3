"""Define what the master and a node's process expect of each other, and say about files of epochs.

The process, its message channel and its reader of other nodes' blobs are protocols: a process of
this machine and an actor of Ray satisfy them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.core.events import Listener
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.types import OutputRef
from jobrun.runtime.codegen.meter_protocol import BlockTime
from jobrun.runtime.context.cancel import CancelScope
from jobrun.values.blob_kinds import Value

# Asks the master for a connection to a node.
RequestConnection = Callable[[str, CancelScope], None]
# Gives a copy of a blob of this node.
ReadOwnBlob = Callable[[str], Value]
# Through which a listener answers.
Handle_contra = TypeVar("Handle_contra", contravariant=True)


class WorkerListener(Protocol[Handle_contra]):
    """Receives what a node sends unasked, in the handle's own thread; must not wait for nodes."""

    def part_failed(self, node: str, run: int) -> None:
        """Receive that a group run has failed on a worker, as each listener to workers must."""

    def task_ended(
        self, node: str, run: int, task: str, outputs: Mapping[OutputRef, Value]
    ) -> None:
        """Declare how the listener of a worker is called when a task has ended on its node."""

    def handle_request(
        self, link: Handle_contra, number: int, run: int, what: str, given: tuple[Any, ...]
    ) -> None:
        """Receive a worker's request, to answer it, as each listener to workers must.

        ``WorkerHandle.answer`` sends the reply.
        """

    def add_step_times(self, reporter: str, times: Sequence[BlockTime]) -> None:
        """Receive step times that a worker measured, as each listener to workers must.

        See ``Instrumenter.merge_times``.
        """

    def worker_lost(self, node: str) -> None:
        """Declare how a worker's listener is called when its process ended unexpectedly."""


class MessageChannel(Protocol):
    """One end of what carries messages between a node and its master, whole and in order."""

    def send(self, *message: Any) -> None:
        """Send a message to the other end of a worker's channel, as each kind of channel must.

        Can be called from any thread.

        Raises:
            OSError: The other side has ended.
            TaskFailedError: E274, a value has a dtype that cannot be encoded.
        """

    def receive(self) -> tuple[Any, ...] | None:
        """Wait for a message on a worker's channel and return it; None after the channel's end."""

    def close(self) -> None:
        """Declare that to close a worker's message channel gives a receiving thread None."""


class PeerReader(Protocol):
    """Reads blobs of other nodes, for one node."""

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Iterate over a blob's values on other nodes, as each kind of reader for workers must.

        Raises:
            EnvironmentFaultError: E395, a node is lost.
            MissingBlobError: A node has no such blob.
            CancelledError: The scope was cancelled.
        """


class WorkerProcess(Protocol):
    """The process of one node, from its start to its end, as its master controls it."""

    @property
    def channel(self) -> MessageChannel:
        """The master's end of a message channel, which each kind of worker process must have."""

    @property
    def pid(self) -> int:
        """The process ID that each kind of worker process must have; 0 until it is known."""

    def kill(self) -> None:
        """Kill the worker's process at once, whatever kind of process it is."""

    def abort(self) -> None:
        """Kill a worker process that does not respond, after it prints its threads' stacks."""

    def wait_for_exit(self) -> None:
        """Wait until a worker process of any kind has ended, by itself or by a signal."""

    def join(self) -> str:
        """Wait until a worker process of any kind ends, by force if needed; return how it ended."""

    def take_output(self, emit: Listener) -> None:
        """Emit what a worker process of any kind had printed but not sent when it ended."""

    def release(self) -> None:
        """Free what the master keeps for a worker process of any kind, after that has ended."""

    def connect_peer(self, asker: str, owner: str, other: Any) -> None:
        """Connect a worker process of any kind with another, to request blobs from the other."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A file with known content, by which a node checks that it sees a directory."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class WorkerFileSetup:
    """Where a node's files go; sent when its process starts.

    Attributes:
        incarnation: How many nodes had begun in this session before it, and itself.
        node_dir: See ``session.base.NodeFiles``.
        probe: What it has to see; None for nothing.
        objects: See ``session.base.NodeFiles``.
    """

    incarnation: int = 0
    node_dir: str = ""
    probe: Probe | None = None
    objects: str = ""


NO_FILE_SETUP = WorkerFileSetup()


@dataclass(frozen=True, slots=True)
class UploadedSave:
    """What a node has written and uploaded to the object store for one save.

    Attributes:
        token: Of which save; see ``FileChunk``.
        incarnation: The process that has written it.
        saves: What was written.
    """

    token: str
    incarnation: int
    saves: tuple[NodeSave, ...]


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Some bytes of a file, and where they belong.

    Attributes:
        token: Of which save: the name of its staging directory, which no other has. Empty for a
            file of an epoch that is there.
        incarnation: The process that has written it; 0 for the master's.
        name: The file's.
        offset: Where in the file it begins, in bytes.
        size_bytes: Of the whole file.
        data: The bytes (uint8).
    """

    token: str
    incarnation: int
    name: str
    offset: int
    size_bytes: int
    data: np.ndarray[Any, np.dtype[np.uint8]]
