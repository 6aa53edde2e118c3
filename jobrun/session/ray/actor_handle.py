"""Control a node's actor of a Ray cluster from the master."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import Listener
from jobrun.session.wire.codec import Frame, decode_frame, encode_frame

# A process of a cluster takes seconds to start; one without free resources never does.
START_S = 60.0
_END_S = 5.0
# How often a waiting thread checks whether the channel was closed.
_LOOK_S = 1.0
# Returns an actor to its factory; the flag says whether it has ended in good order.
ReleaseActor = Callable[[Any, bool], None]


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
        # In words: how it ended, and what is wrong with the machine where it was to start.
        self.how = ""
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
        """Return the actor's next message to its handle, polling for it; None when it has ended."""
        while not self._arrived:
            if self._asked is None and not self._begin():
                break
            said = self._got(self._asked)
            if not said:
                break
            self._asked = self._actor.poll.remote()
            self._arrived.extend(said)
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
            self.wrong = self.wrong or self.how
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
                    self.how = f"has not started within {most_s:g} s"
                    return None
            except RayError as error:
                self.has_died = True
                self.how = f"has ended ({_summarize(error)})"
                return None
        return None


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
        """The master's end of the message channel between this handle and its actor."""
        return self._wire

    @property
    def pid(self) -> int:
        """The process ID of the handle's actor on its machine; 0 until it is known."""
        return self._wire.pid

    def refusal(self, node: str, *, again: bool = False) -> EnvironmentFaultError | None:
        """Return why the actor of this handle could not start at its place, or None.

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
        """Kill the actor of this handle at once."""
        self._is_killed = True
        with contextlib.suppress(RayError):
            ray.kill(self.actor, no_restart=True)

    def abort(self) -> None:
        """Kill the handle's actor, which unlike a local process cannot print its stacks before."""
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
        return self._wire.how or "was closed"

    def take_output(self, emit: Listener) -> None:
        """Emit nothing: what the handle's actor printed and did not send is lost at its end."""

    def release(self) -> None:
        """Give the handle's actor back to the factory that made it."""
        self._dismiss(self.actor, not (self._is_killed or self._wire.how or self._wire.wrong))

    def connect_peer(self, asker: str, owner: str, other: RayWorker) -> None:
        """Send the handle's actor a reference to another node's actor, to request blobs from."""
        del asker
        self.actor.add_peer.remote(owner, other.actor)


def _summarize(error: RayError) -> str:
    """Return the last line of an error that a call through the actor handle raised."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines else type(error).__name__
    return said.partition(" Some common causes")[0].rstrip(". ")
