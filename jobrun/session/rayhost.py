"""A node's actor in a Ray cluster, as its master sees it. Which cluster, and where, is not here."""

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
from jobrun.session.frames import Frame, frame_of, value_of_frame

# A process of a cluster takes seconds to begin; one that has found no place never does.
START_S = 60.0
_END_S = 5.0
# So often whoever waits looks whether it still has to.
_LOOK_S = 1.0
# Gives an actor back; and whether it has ended in good order.
Dismiss = Callable[[Any, bool], None]


class RayWire:
    """The master's end of what carries messages to a node and back.

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
        # How it ended, and what is wrong with the place where it was to begin; in words.
        self.how = ""
        self.wrong = ""
        self.has_died = False

    def send(self, *message: Any) -> None:
        """Send a message; what is sent before the node has begun waits for that."""
        frame = frame_of(message)
        with self._lock:
            if self._is_over:
                raise BrokenPipeError
            if self._asked is None:
                self._held.append(frame)
            else:
                self._actor.hear.remote(next(self._numbers), frame)

    def receive(self) -> tuple[Any, ...] | None:
        """The next message, waited for; None when the node has ended."""
        while not self._arrived:
            if self._asked is None and not self._begin():
                break
            said = self._got(self._asked)
            if not said:
                break
            self._asked = self._actor.tell.remote()
            self._arrived.extend(said)
        if not self._arrived:
            self.ended.set()
            return None
        message: tuple[Any, ...] = value_of_frame(self._arrived.popleft())
        return message

    def close(self) -> None:
        """Nothing more is sent."""
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
                self._actor.hear.remote(next(self._numbers), frame)
            self._held.clear()
            self._asked = self._actor.tell.remote()
        return True

    def _got(self, answer: Any, most_s: float = float("inf")) -> Any:
        waited_s = 0.0
        while not self._is_over:
            try:
                return ray.get(answer, timeout=_LOOK_S)
            except GetTimeoutError:
                waited_s += _LOOK_S
                if waited_s >= most_s:
                    self.how = f"has not begun within {most_s:g} s"
                    return None
            except RayError as error:
                self.has_died = True
                self.how = f"has ended ({_in_short(error)})"
                return None
        return None


class RayHost:
    """An actor for one node.

    Args:
        actor: New, or ended in good order and not used since.
        start: What it needs to begin.
        dismiss: Takes it back.
    """

    def __init__(self, actor: Any, start: Mapping[str, Any], dismiss: Dismiss) -> None:
        self.actor = actor
        self._dismiss = dismiss
        self._is_killed = False
        self._wire = RayWire(actor, start)

    @property
    def channel(self) -> RayWire:
        """The master's end."""
        return self._wire

    @property
    def pid(self) -> int:
        """The number of its process, on its machine; 0 as long as that is not known."""
        return self._wire.pid

    def refusal(self, node: str, *, again: bool = False) -> EnvironmentFaultError | None:
        """Why the node could not begin at its place, if that is so.

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
        """End the process at once."""
        self._is_killed = True
        with contextlib.suppress(RayError):
            ray.kill(self.actor, no_restart=True)

    def abort(self) -> None:
        """End a process that does not answer: on another machine it cannot be asked where it is."""
        self.kill()

    def watch(self) -> None:
        """Return when it has ended, by itself or not."""
        self._wire.ended.wait()

    def end(self) -> str:
        """Wait for its end, which has begun; by force if it takes long. How it ended, in words."""
        if not self._wire.ended.wait(_END_S):
            self.kill()
            self._wire.close()
            self._wire.ended.wait()
        return self._wire.how or "was closed"

    def release(self) -> None:
        """Give the actor back."""
        self._dismiss(self.actor, not (self._is_killed or self._wire.how or self._wire.wrong))

    def meet(self, asker: str, owner: str, other: RayHost) -> None:
        """Let this node call another one."""
        del asker
        self.actor.meet.remote(owner, other.actor)


def _in_short(error: RayError) -> str:
    """What a cluster says of an end, without what could have led to it elsewhere."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines else type(error).__name__
    return said.partition(" Some common causes")[0].rstrip(". ")
