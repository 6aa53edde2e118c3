"""The inside of a node that is an actor of a Ray cluster: carries messages, and finds other nodes.

What the messages say is the ``Worker``'s matter, which is the same as in a process of one machine.
The calls of the master, each kind in threads of its own so that none waits for another::

    begin   once, before all others: become a node
    hear    a message to the node
    tell    waits until the node has said something; what it has said since
    own     (of another node) a copy of a blob
    meet    the handle of another node's actor
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

from ray.exceptions import RayError

from jobrun.blobs.values import Value
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import TaskLimited
from jobrun.runtime.cancel import CancelScope
from jobrun.session.calls import Answer
from jobrun.session.crossing import ErrorForm, error_of, form_of
from jobrun.session.frames import Frame, InOrder, frame_of, size_of, value_of_frame
from jobrun.session.host import Meet, Own
from jobrun.session.shipping import make_importable
from jobrun.session.worker import Worker
from jobrun.version import __version__

# The calls, and in how many threads each kind of them runs.
THREADS = {"hear": 2, "tell": 1, "own": 4}
CALLS = {"begin": "hear", "hear": "hear", "meet": "hear", "tell": "tell", "own": "own"}
# Whoever says more than the master has taken waits.
_UNTAKEN_BYTES = 1 << 26
_AHEAD = 4
_MEET_S = 10.0
# So long it is waited that the master knows of a limit, if it can be reached.
_ARRIVE_S = 10.0


class ActorWire:
    """The node's end of what carries messages; the master comes and takes them."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Frame | None] = SimpleQueue()
        self.arriving = InOrder(self._inbox.put)
        self._said: list[Frame] = []
        self._size_bytes = 0
        # How many messages were said, were taken, and are known to have arrived.
        self._counts = [0, 0, 0]
        self._is_over = False
        self._change = threading.Condition()

    def send(self, *message: Any) -> None:
        """Say something; waits while the master has much to take."""
        # Copied, since it is taken later.
        frame = frame_of(message, copied=True)
        with self._change:
            self._change.wait_for(lambda: self._size_bytes < _UNTAKEN_BYTES or self._is_over)
            if self._is_over:
                raise BrokenPipeError
            self._said.append(frame)
            self._size_bytes += size_of(frame)
            self._counts[0] += 1
            number = self._counts[0]
            self._change.notify_all()
            if _is_urgent(*message):
                # What begins now may keep the interpreter for itself, and nothing is taken then.
                self._change.wait_for(lambda: self._counts[2] >= number or self._is_over, _ARRIVE_S)

    def receive(self) -> tuple[Any, ...] | None:
        """The next message, waited for."""
        frame = self._inbox.get()
        message: tuple[Any, ...] | None = None if frame is None else value_of_frame(frame)
        return message

    def close(self) -> None:
        """Nothing more is said."""
        with self._change:
            self._is_over = True
            self._change.notify_all()
        self._inbox.put(None)

    def taken(self) -> list[Frame]:
        """What has been said since, waited for; nothing if the node has ended."""
        with self._change:
            # Who comes again has what was taken before.
            self._counts[2] = self._counts[1]
            self._change.notify_all()
            self._change.wait_for(lambda: self._said or self._is_over)
            said, self._said = self._said, []
            self._counts[1] += len(said)
            self._size_bytes = 0
            self._change.notify_all()
            return said


def _is_urgent(kind: str, *given: Any) -> bool:
    return kind == "event" and isinstance(given[0], TaskLimited)


class ActorWays:
    """A node's ways to other nodes: it calls their actors; the master only gives the handles.

    Args:
        meet: Asks the master for the handle of a node's actor.
    """

    def __init__(self, meet: Meet) -> None:
        self._meet = meet
        self._known: dict[str, Any] = {}
        self._arrival = threading.Condition()

    def met(self, node: str, actor: Any) -> None:
        """A handle has come."""
        with self._arrival:
            self._known[node] = actor
            self._arrival.notify_all()

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """See ``Ways``; some are under way while one is looked at."""
        coming: deque[tuple[str, Any, Answer]] = deque()
        left = deque(nodes)
        while left or coming:
            while left and len(coming) < _AHEAD:
                coming.append(self._asked(left.popleft(), name, cancel))
            node, actor, answer = coming.popleft()
            try:
                value: Value = answer.wait(cancel)
            except _GoneError:
                # It may have a new place since we met it.
                self._forget(node, actor)
                value = self._again(node, name, cancel)
            yield value

    def _again(self, node: str, name: str, cancel: CancelScope) -> Value:
        try:
            value: Value = self._asked(node, name, cancel)[2].wait(cancel)
        except _GoneError as error:
            raise _lost(node) from error
        return value

    def _asked(self, node: str, name: str, cancel: CancelScope) -> tuple[str, Any, Answer]:
        actor = self._actor(node, cancel)
        answer = Answer()
        actor.own.remote(name).future().add_done_callback(partial(_put, answer))
        return node, actor, answer

    def _actor(self, node: str, cancel: CancelScope) -> Any:
        if node not in self._known:
            self._meet(node, cancel)
            with self._arrival:
                self._arrival.wait_for(lambda: node in self._known, _MEET_S)
        try:
            return self._known[node]
        except KeyError:
            raise _lost(node) from None

    def _forget(self, node: str, actor: Any) -> None:
        with self._arrival:
            if self._known.get(node) is actor:
                del self._known[node]


class _GoneError(Exception):
    """The actor that was asked is there no more."""


def _put(answer: Answer, future: Any) -> None:
    error = future.exception()
    if error is not None:
        answer.put((False, _GoneError() if isinstance(error, RayError) else error))
        return
    is_well, value = value_of_frame(future.result())
    answer.put((is_well, error_of(value) if isinstance(value, ErrorForm) else value))


def _lost(node: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of("E395", f"node '{node}' is lost", "see what ended its process")


class NodeActor:
    """One node. See the module."""

    def begin(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Become a node; who it is, is said later.

        Args:
            start: ``version`` of the package; ``environment`` of the master; its ``paths`` of
                modules and its ``umask``; ``code``, as ``make_importable`` takes it.

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
        self._wire = ActorWire()
        self._worker = Worker(self._wire, self._made_ways)
        threading.Thread(target=self._work, name="jobrun-work", daemon=True).start()
        return {"pid": os.getpid(), "wrong": wrong}

    def hear(self, number: int, frame: Frame) -> None:
        """The master says something."""
        self._wire.arriving.came(number, frame)

    def tell(self) -> list[Frame]:
        """What the node has said since; nothing when it has ended."""
        return self._wire.taken()

    def own(self, name: str) -> Frame:
        """For another node: a copy of a blob, or what is wrong."""
        try:
            return frame_of((True, self._worker.own(name)))
        except Exception as error:  # noqa: BLE001 - raised again where it was asked for
            return frame_of((False, form_of(error)))

    def meet(self, node: str, actor: Any) -> None:
        """From now on this is the actor of that node."""
        self._ways.met(node, actor)

    def _made_ways(self, meet: Meet, own: Own) -> ActorWays:
        del own
        self._ways = ActorWays(meet)
        return self._ways

    def _work(self) -> None:
        wire = self._wire
        self._worker.work()
        sys.stdout.flush()
        wire.close()
