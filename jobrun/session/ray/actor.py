"""Run a node in a Ray actor: the master's handle of the actor, and the actor itself.

What the messages say is the ``Worker``'s matter, which is the same as in a process of one machine.
The master (``RayWorker``, ``RayChannel``) calls the actor (``NodeActor``), each kind of call in
threads of its own so that none waits for another::

    begin      once, before all others: become a node
    deliver    a message to the node
    poll       waits for messages of the node, and returns them
    copy_blob  (called by another node) a copy of a blob
    add_peer   the handle of another node's actor
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from jobrun.core.captured_output import STREAMS
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import Listener, TaskLimited
from jobrun.runtime.context.cancel import CancelScope
from jobrun.session.processes.worker import Worker
from jobrun.session.ray.code_upload import make_importable
from jobrun.session.wire.codec import (
    Frame,
    SerializedError,
    decode_frame,
    deserialize_error,
    encode_frame,
    frame_size,
    serialize_error,
)
from jobrun.session.wire.peer_transfer import ReadOwnBlob, RequestConnection
from jobrun.session.wire.rpc import Reply
from jobrun.values.blob_kinds import Value
from jobrun.version import __version__

# A process of a cluster takes seconds to start; one without free resources never does.
START_S = 60.0
_END_S = 5.0
# How often a waiting thread checks whether the channel was closed.
_LOOK_S = 1.0
# Returns an actor to its factory; the flag says whether it has ended in good order.
ReleaseActor = Callable[[Any, bool], None]
# The concurrency groups of the actor's methods, with the number of threads of each.
THREADS = {"deliver": 2, "poll": 1, "copy_blob": 4}
CALLS = {
    "begin": "deliver",
    "deliver": "deliver",
    "add_peer": "deliver",
    "poll": "poll",
    "copy_blob": "copy_blob",
}
# A sender blocks while more than this is queued for the master.
_UNSENT_BYTES = 1 << 26
_AHEAD = 4
_MEET_S = 10.0
# The longest wait for the master to receive a time limit.
_ARRIVE_S = 10.0


class RayWorker:
    """The process of one node that is a Ray actor.

    Args:
        actor: New, or ended in good order and not used since.
        start: What it needs to begin.
        dismiss: Takes it back.
    """

    def __init__(self, actor: Any, start: Mapping[str, Any], dismiss: ReleaseActor) -> None:
        self.actor = actor
        self._dismiss = dismiss
        self._is_killed = False
        self._wire = RayChannel(actor, start)

    @property
    def channel(self) -> RayChannel:
        """Return the master's end of the message channel between this handle and its actor."""
        return self._wire

    @property
    def pid(self) -> int:
        """Return the process ID of the Ray actor on its machine; 0 until it is known."""
        return self._wire.pid

    def refusal(self, node: str, *, again: bool = False) -> EnvironmentFaultError | None:
        """Return the error that kept this handle's Ray actor from starting, or None if it started.

        Args:
            node: Its name.
            again: It is there for one that was lost. Its place may have been lost with that, which
                the cluster learns only later: an end before the begin is a loss as others are.
        """
        if not self._wire.wrong or (again and self._wire.has_died):
            return None
        return EnvironmentFaultError.of(
            "E396",
            f"the process of node '{node}' could not be started: {self._wire.wrong}",
            "see 'ray status' for what is free, and let all machines have the same versions",
        )

    def kill(self) -> None:
        """Kill the Ray actor of this handle at once."""
        self._is_killed = True
        with contextlib.suppress(RayError):
            ray.kill(self.actor, no_restart=True)

    def abort(self) -> None:
        """Kill the Ray actor; unlike a local process it does not print its stack traces first."""
        self.kill()

    def wait_for_exit(self) -> None:
        """Wait until the actor of this handle has ended, by itself or by a kill."""
        self._wire.ended.wait()

    def join(self) -> str:
        """Wait for the handle's actor to end, by force if needed; return how it ended."""
        if not self._wire.ended.wait(_END_S):
            self.kill()
            self._wire.close()
            self._wire.ended.wait()
        return self._wire.ending or "was closed"

    def take_output(self, emit: Listener) -> None:
        """Do nothing: output that a Ray actor printed but had not sent when it ended is lost."""

    def release(self) -> None:
        """Return the handle's actor to the factory that made it, which may kill or reuse it."""
        self._dismiss(self.actor, not (self._is_killed or self._wire.ending or self._wire.wrong))

    def connect_peer(self, asker: str, owner: str, other: RayWorker) -> None:
        """Send this Ray actor the handle of another node's actor, to request blobs from it."""
        del asker
        self.actor.add_peer.remote(owner, other.actor)


class RayChannel:
    """The master's end of the message channel to an actor.

    Args:
        actor: The node's.
        start: What it needs to begin.
    """

    def __init__(self, actor: Any, start: Mapping[str, Any]) -> None:
        self._actor = actor
        self._starting = actor.begin.remote(start)
        self._asked: Any = None
        self._lock = threading.Lock()
        self._numbers = count()
        self._held: list[Frame] = []
        self._arrived: deque[Frame] = deque()
        self._is_over = False
        self.ended = threading.Event()
        self.pid = 0
        # In words: how the actor ended, and what is wrong with the machine on which it starts.
        self.ending = ""
        self.wrong = ""
        self.has_died = False

    def send(self, *message: Any) -> None:
        """Send an actor a message from the master, once the actor's process has started."""
        frame = encode_frame(message)
        with self._lock:
            if self._is_over:
                raise BrokenPipeError
            if self._asked is None:
                self._held.append(frame)
            else:
                self._actor.deliver.remote(next(self._numbers), frame)

    def receive(self) -> tuple[Any, ...] | None:
        """Poll a Ray actor for its next message to the master; None when the actor has ended."""
        while not self._arrived:
            if self._asked is None and not self._begin():
                break
            frames = self._got(self._asked)
            if not frames:
                break
            self._asked = self._actor.poll.remote()
            self._arrived.extend(frames)
        if not self._arrived:
            self.ended.set()
            return None
        message: tuple[Any, ...] = decode_frame(self._arrived.popleft())
        return message

    def close(self) -> None:
        """Close the channel to the actor: later messages are refused."""
        self._is_over = True

    def _begin(self) -> bool:
        begun = self._got(self._starting, START_S)
        if begun is None:
            self.wrong = self.wrong or self.ending
            return False
        self.pid, self.wrong = begun["pid"], begun["wrong"]
        if self.wrong:
            self.wrong = f"its machine {self.wrong}"
            return False
        with self._lock:
            for frame in self._held:
                self._actor.deliver.remote(next(self._numbers), frame)
            self._held.clear()
            self._asked = self._actor.poll.remote()
        return True

    def _got(self, answer: Any, most_s: float = float("inf")) -> Any:
        waited_s = 0.0
        while not self._is_over:
            try:
                return ray.get(answer, timeout=_LOOK_S)
            except GetTimeoutError:
                waited_s += _LOOK_S
                if waited_s >= most_s:
                    self.ending = f"has not started within {most_s:g} s"
                    return None
            except RayError as error:
                self.has_died = True
                self.ending = f"has ended ({_summarize(error)})"
                return None
        return None


def _summarize(error: RayError) -> str:
    """Return the last line of an error that a call through the actor handle raised."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last_line = lines[-1] if lines else type(error).__name__
    return last_line.partition(" Some common causes")[0].rstrip(". ")


class Resequencer:
    """Passes on numbered messages in order 0, 1, …; those that come too early wait.

    Args:
        put: Takes each frame; must not block.
    """

    def __init__(self, put: Callable[[Frame], None]) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._early: dict[int, Frame] = {}
        self._next = 0

    def receive(self, number: int, frame: Frame) -> None:
        """Put messages that this Ray actor receives into the order of their numbers.

        Each is passed on when all with lower numbers have been.
        """
        with self._lock:
            self._early[number] = frame
            while self._next in self._early:
                self._put(self._early.pop(self._next))
                self._next += 1


class ActorChannel:
    """The node's end of the message channel; the master polls for messages."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Frame | None] = SimpleQueue()
        self.arriving = Resequencer(self._inbox.put)
        self._unsent: list[Frame] = []
        self._size_bytes = 0
        # How many messages were queued, were polled, and are acknowledged.
        self._counts = [0, 0, 0]
        self._is_over = False
        self._change = threading.Condition()

    def send(self, *message: Any) -> None:
        """Queue a message in this actor until the master polls for it; wait while it is full."""
        # Copied: the master takes it later, and the task may change it meanwhile.
        frame = encode_frame(message, copied=True)
        with self._change:
            self._change.wait_for(lambda: self._size_bytes < _UNSENT_BYTES or self._is_over)
            if self._is_over:
                raise BrokenPipeError
            self._unsent.append(frame)
            self._size_bytes += frame_size(frame)
            self._counts[0] += 1
            number = self._counts[0]
            self._change.notify_all()
            if _is_urgent(*message):
                # The task may hold the GIL from now on, and then no poll is answered.
                self._change.wait_for(lambda: self._counts[2] >= number or self._is_over, _ARRIVE_S)

    def receive(self) -> tuple[Any, ...] | None:
        """Wait, as the node inside an actor, for the next message from the master."""
        frame = self._inbox.get()
        message: tuple[Any, ...] | None = None if frame is None else decode_frame(frame)
        return message

    def close(self) -> None:
        """Close the node's end of the channel in an actor, and wake threads that wait there."""
        with self._change:
            self._is_over = True
            self._change.notify_all()
        self._inbox.put(None)

    def poll(self) -> list[Frame]:
        """Wait until the node in this actor has messages, and return them; none after its end."""
        with self._change:
            # The next poll acknowledges what the last one returned.
            self._counts[2] = self._counts[1]
            self._change.notify_all()
            self._change.wait_for(lambda: self._unsent or self._is_over)
            frames, self._unsent = self._unsent, []
            self._counts[1] += len(frames)
            self._size_bytes = 0
            self._change.notify_all()
            return frames


def _is_urgent(kind: str, *arguments: Any) -> bool:
    return kind == "event" and isinstance(arguments[0], TaskLimited)


class ActorPeers:
    """Reads blobs of other nodes by calling their actors; the master only gives the handles.

    Args:
        meet: Asks the master for the handle of a node's actor.
    """

    def __init__(self, meet: RequestConnection) -> None:
        self._meet = meet
        self._known: dict[str, Any] = {}
        self._arrival = threading.Condition()

    def add(self, node: str, actor: Any) -> None:
        """Store in a Ray actor the handle of another node's actor; wake threads waiting for it."""
        with self._arrival:
            self._known[node] = actor
            self._arrival.notify_all()

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Fetch copies of a blob from other nodes' Ray actors; request the next few in advance."""
        coming: deque[tuple[str, Any, Reply]] = deque()
        unrequested = deque(nodes)
        while unrequested or coming:
            while unrequested and len(coming) < _AHEAD:
                coming.append(self._asked(unrequested.popleft(), name, cancel))
            node, actor, answer = coming.popleft()
            try:
                value: Value = answer.wait(cancel)
            except _ActorGoneError:
                # The node may have been replaced since its handle was received.
                self._forget(node, actor)
                value = self._again(node, name, cancel)
            yield value

    def _again(self, node: str, name: str, cancel: CancelScope) -> Value:
        try:
            value: Value = self._asked(node, name, cancel)[2].wait(cancel)
        except _ActorGoneError as error:
            raise _node_lost(node) from error
        return value

    def _asked(self, node: str, name: str, cancel: CancelScope) -> tuple[str, Any, Reply]:
        actor = self._actor(node, cancel)
        answer = Reply()
        actor.copy_blob.remote(name).future().add_done_callback(partial(_resolve, answer))
        return node, actor, answer

    def _actor(self, node: str, cancel: CancelScope) -> Any:
        if node not in self._known:
            self._meet(node, cancel)
            with self._arrival:
                self._arrival.wait_for(lambda: node in self._known, _MEET_S)
        try:
            return self._known[node]
        except KeyError:
            raise _node_lost(node) from None

    def _forget(self, node: str, actor: Any) -> None:
        with self._arrival:
            if self._known.get(node) is actor:
                del self._known[node]


class _ActorGoneError(Exception):
    """The actor that was called does not exist any more."""


def _resolve(answer: Reply, future: Any) -> None:
    error = future.exception()
    if error is not None:
        answer.put((False, _ActorGoneError() if isinstance(error, RayError) else error))
        return
    is_well, value = decode_frame(future.result())
    answer.put((is_well, deserialize_error(value) if isinstance(value, SerializedError) else value))


def _node_lost(node: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E395", f"node '{node}' is lost", "find out what ended its process"
    )


class NodeActor:
    """The Ray actor of one node."""

    def begin(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Set up the actor's process and start a worker, to which a later message assigns a node.

        Args:
            start: ``version`` of the package; ``environment`` of the master; its ``paths`` of
                modules and its ``umask``; ``code``, as ``make_importable`` takes it; ``shows``:
                whether what tasks print goes to the terminal.

        Returns:
            The number of this process, and what is wrong with this place, in words, if anything.
        """
        if start["version"] != __version__:
            wrong = f"has jobrun {__version__}, and not {start['version']} as here"
            return {"pid": os.getpid(), "wrong": wrong}
        os.environ.update(start["environment"])
        os.umask(start["umask"])
        sys.path += [path for path in start["paths"] if path not in sys.path]
        wrong = make_importable(*start["code"])
        STREAMS.is_shown = start["shows"]
        # To Ray's log of the actor: the descriptors are about to be redirected to capture output.
        faulthandler.enable(os.dup(2))
        self._wire = ActorChannel()
        self._worker = Worker(self._wire, self._make_peers)
        threading.Thread(target=self._work, name="jobrun-work", daemon=True).start()
        return {"pid": os.getpid(), "wrong": wrong}

    def deliver(self, number: int, frame: Frame) -> None:
        """Deliver a message from the master to the node in this actor."""
        self._wire.arriving.receive(number, frame)

    def poll(self) -> list[Frame]:
        """Return the messages that the actor queued since the last call; empty after its end."""
        return self._wire.poll()

    def copy_blob(self, name: str) -> Frame:
        """Return a copy of a blob in this Ray actor, or an error, as a message to another actor."""
        try:
            return encode_frame((True, self._worker.copy_blob(name)))
        except Exception as error:  # noqa: BLE001 - raised again where it was asked for
            return encode_frame((False, serialize_error(error)))

    def add_peer(self, node: str, actor: Any) -> None:
        """Store in this Ray actor the handle of another node's actor, to request blobs from it."""
        self._peers.add(node, actor)

    def _make_peers(self, meet: RequestConnection, read_blob: ReadOwnBlob) -> ActorPeers:
        del read_blob
        self._peers = ActorPeers(meet)
        return self._peers

    def _work(self) -> None:
        wire = self._wire
        self._worker.serve()
        sys.stdout.flush()
        wire.close()
