"""One node's process, as its master sees it: what can be asked of it, and who hears from it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from jobrun.blobs.values import Value
from jobrun.core.events import Listener
from jobrun.graph.types import OutputRef
from jobrun.runtime.meter import BlockTime
from jobrun.session.calls import Calls
from jobrun.session.crossing import form_of
from jobrun.session.host import NodeHost
from jobrun.session.launch import Process
from jobrun.session.lost import NodeLostError
from jobrun.session.share import Share


class Hearer(Protocol):
    """Who hears what a node says by itself. In the link's own thread; must not wait for nodes."""

    def failing(self, node: str, run: int) -> None:
        """A part of the run has failed."""

    def ended(self, node: str, run: int, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """A task has ended that tasks on other nodes need."""

    def asked(self, link: Link, number: int, run: int, what: str, given: tuple[Any, ...]) -> None:
        """The node wants to know something; it is answered by ``Link.answer``."""

    def measured(self, teller: str, times: Sequence[BlockTime]) -> None:
        """The process of a node tells what its steps have taken; see ``Metering.take_in``."""

    def lost(self, node: str) -> None:
        """Its process has ended, and nobody had asked for that."""


class Link:
    """Owns a node's process, from its start to its end.

    Args:
        node: Its name.
        hearer: Hears it.
        emit: Where its events go.
        start: Starts the process.
        incarnation: How many have begun in the session before it, and itself.
    """

    def __init__(
        self,
        node: str,
        hearer: Hearer,
        emit: Listener,
        start: Callable[[str], NodeHost] = Process,
        incarnation: int = 0,
    ) -> None:
        self.node = node
        self.incarnation = incarnation
        self._hearer = hearer
        self._emit = emit
        self._process = start(node)
        self.calls = Calls(self._process.channel.send)
        self.loss: NodeLostError | None = None
        self._known: set[int] = set()
        self._is_closing = False
        self._threads = [
            threading.Thread(target=work, name=f"jobrun-{node}", daemon=True)
            for work in (self._hear, self._watch)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def send(self, *message: Any) -> None:
        """Say something that has no answer; nothing happens if nobody is there."""
        with contextlib.suppress(OSError):
            self._process.channel.send(*message)

    def know(self, key: int, share: Share) -> None:
        """Let the node have a group's part, once."""
        if key not in self._known:
            self._known.add(key)
            self.send("share", key, share)

    def forget(self, key: int) -> None:
        """It will not be named any more."""
        if key in self._known:
            self._known.remove(key)
            self.send("forget", key)

    def answer(self, number: int, *, value: Any = None, error: BaseException | None = None) -> None:
        """Answer what was asked."""
        if error is not None:
            self.send("answer", number, (False, form_of(error)))
        else:
            self.send("answer", number, (True, value))

    def meet(self, other: Link) -> None:
        """Let the node ask another one; see ``peers``."""
        self._process.meet(self.node, other.node, other._process)

    def kill(self) -> None:
        """End the process at once; that is told as a loss."""
        self._process.kill()

    def abort(self) -> None:
        """End a process that does not answer; it tells where it is, if it can."""
        self._process.abort()

    def begin_to_close(self) -> None:
        """Ask the process to end, if it is there."""
        self._is_closing = True
        self.send("close")

    def close(self, *, at_once: bool = False) -> None:
        """Wait for the end of the process, and let go of everything. May be called twice."""
        self._is_closing = True
        if at_once:
            self._process.kill()
        self._process.end()
        for thread in self._threads:
            thread.join()
        self._process.release()

    def _hear(self) -> None:
        channel = self._process.channel
        while (message := channel.receive()) is not None:
            self._heard(*message)
            # Not kept until the next one comes: it may be large.
            del message
        how = "was closed" if self._is_closing else self._process.end()
        channel.close()
        self.loss = NodeLostError.of_node(self.node, how)
        self.calls.end(self.loss)
        if not self._is_closing:
            self._hearer.lost(self.node)

    def _watch(self) -> None:
        # What a callable has forked holds the connection too, and would keep it open.
        self._process.watch()
        self._process.channel.close()

    def _heard(self, kind: str, *given: Any) -> None:
        match kind:
            case "event":
                self._emit(given[0])
            case "answer":
                self.calls.answered(*given)
            case "failing":
                self._hearer.failing(self.node, *given)
            case "ended":
                self._hearer.ended(self.node, *given)
            case "ask":
                self._hearer.asked(self, *given)
            case "measured":
                self._hearer.measured(f"{self.node} {self.pid}", *given)
            case _:
                raise RuntimeError(f"node '{self.node}' says '{kind}'")
