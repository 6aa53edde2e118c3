"""The inside of a node's process: obeys the master, and does with threads what it is told.

::

    main thread        what may touch workspaces, one after the other: groups, snapshots, reads
    receiving thread   hears the master; never waits for anything else, so that it always hears
    threads of the crew  saves, and what other nodes want to have meanwhile

The process ends with its master, however that ends: the kernel kills it, and if the kernel
should not, the end of the connection does.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any

from jobrun.blobs.values import Value
from jobrun.core.errors import JobrunError
from jobrun.core.events import Event
from jobrun.graph.types import Cluster, Node, OutputRef, TaskGroup
from jobrun.runtime.cancel import CancelScope
from jobrun.runtime.frame import GroupRun
from jobrun.runtime.lines import LineEnds
from jobrun.runtime.meter import Meter
from jobrun.runtime.midway import Midpoint, Points
from jobrun.runtime.queues import LinePlan
from jobrun.session.base import RunContext
from jobrun.session.beyond import Beyond, TaskOnNode
from jobrun.session.calls import Calls
from jobrun.session.collecting import sees
from jobrun.session.crossing import form_of
from jobrun.session.farline import FarLine
from jobrun.session.host import Meet, Own, Ways, Wire
from jobrun.session.nodedirectory import NodeDirectory
from jobrun.session.nodefiles import NO_FOOTING, Footing
from jobrun.session.peers import Peers
from jobrun.session.share import Share
from jobrun.session.threads import ThreadsSession

_LOST_MASTER = 1
_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})
# Between a node and a blob of it; no name has it.
_AT = "\0"


class Worker:
    """One node.

    Args:
        channel: To the master.
        ways: Makes what asks other nodes, from what asks the master for a connection to a node,
            and what gives a copy of a blob of this node.
    """

    def __init__(self, channel: Wire, ways: Callable[[Meet, Own], Ways]) -> None:
        self._channel = channel
        self.calls = Calls(channel.send)
        self.peers = ways(self._meet, self.own)
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._shares: dict[int, Share] = {}
        self._snapshots: dict[int, Any] = {}
        self._present: PartRun | None = None
        self._node = ""
        self._here: frozenset[str] = frozenset()
        self._session = ThreadsSession()
        self.meter: Meter | None = None
        self.files = NodeDirectory()

    def work(self) -> None:
        """Do as told until there is nothing more to do."""
        threading.Thread(target=self._hear, name="jobrun-hear", daemon=True).start()
        while (order := self._orders.get()) is not None:
            order()
            del order
        self._session.close()
        self.files.close()

    def _hear(self) -> None:
        while (message := self._channel.receive()) is not None:
            kind, *given = message
            if kind == "close":
                self._orders.put(None)
                return
            getattr(self, f"on_{kind}")(*given)
            del message, given
        # Nobody is left to answer to; what runs here must not go on.
        os._exit(_LOST_MASTER)

    def answer(self, number: int, work: Callable[[], Any]) -> None:
        """Do the work and tell what came of it."""
        try:
            outcome = (True, work())
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            outcome = (False, form_of(error))
        with contextlib.suppress(OSError):
            try:
                self._channel.send("answer", number, outcome)
            except (JobrunError, TypeError, ValueError) as error:
                # The value cannot cross.
                self._channel.send("answer", number, (False, form_of(error)))

    def _order(self, number: int, work: Callable[[], Any]) -> None:
        self._orders.put(partial(self.answer, number, work))

    def _beside(self, number: int, work: Callable[[], Any]) -> None:
        """For what must not wait for a group, nor keep us from hearing."""
        name = "jobrun-beside"
        threading.Thread(target=self.answer, args=(number, work), name=name, daemon=True).start()

    # What the master says. These run in the receiving thread.

    def on_open(
        self, number: int, node: Node, facts: tuple[int, str, str], grace_s: float, spans: int = 0,
        others: tuple[Node, ...] = (), footing: Footing = NO_FOOTING,
    ) -> None:  # fmt: skip
        """Be this node, in a run of that seed, directory and folder.

        Args:
            number: Of the request.
            node: What to be.
            facts: The seed, the directory and the folder.
            grace_s: As that of a session.
            spans: So many runs of blocks are told one by one; 0 if steps are not measured.
            others: Nodes that are to be here too.
            footing: Where files of epochs are; whether they can be there is answered.
        """
        self._node = node.name
        self._here = frozenset(one.name for one in (node, *others))
        self.meter = Meter(spans) if spans else None

        def work() -> bool:
            self.files = NodeDirectory(node.name, footing)
            self._session = ThreadsSession(grace_s=grace_s)
            cluster = Cluster((node, *others))
            self._session.open(cluster, RunContext(*facts, self._emit, self.meter))
            return sees(footing.probe)

        self._order(number, work)

    def on_share(self, key: int, share: Share) -> None:
        """Keep a group, to be named by its key."""
        self._shares[key] = share

    def on_forget(self, key: int) -> None:
        """Let go of a group."""
        self._shares.pop(key, None)

    def on_run(
        self, number: int, run: int, key: int, epoch: int, outputs: Mapping[OutputRef, Value],
        points: tuple[int, Midpoint | None] | None,
    ) -> None:  # fmt: skip
        """Run a group's part; its number tells what belongs to this run."""
        present = self._present = PartRun(self, run, self._shares[key], outputs)
        self._order(number, partial(present.run, self._session, epoch, points))

    def on_ended(self, run: int, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """A task has ended on all its nodes elsewhere."""
        if self._present is not None and self._present.number == run:
            self._present.beyond.arrived(task, outputs)

    def on_cancel(self, run: int) -> None:
        """The run is over, for whatever reason."""
        if self._present is not None and self._present.number == run:
            self._present.beyond.cancel()

    def on_snapshot(self, number: int, kept: int, key: int) -> None:
        """Keep what the group may change."""
        group = self._shares[key].group

        def work() -> None:
            self._snapshots[kept] = self._session.snapshot(group)

        self._order(number, work)

    def on_restore(self, number: int, kept: int) -> None:
        """Bring back what was kept."""
        self._order(number, lambda: self._session.restore(self._snapshots[kept]))

    def on_drop(self, kept: int) -> None:
        """What was kept is not wanted any more."""
        self._orders.put(lambda: self._snapshots.pop(kept, None))

    def on_settle(
        self, number: int, names: tuple[str, ...], others: Mapping[str, tuple[str, ...]] = _NOTHING
    ) -> None:
        """Bring the workspace to boundary form, and those of other nodes that are here."""
        self._order(number, lambda: self._session.settle({self._node: names, **others}))

    def on_names(self, number: int, node: str = "") -> None:
        """Tell the names in the workspace; ``node`` is another one that is here."""
        self._order(number, lambda: self._session.names(node or self._node))

    def on_read(self, number: int, names: tuple[str, ...], node: str = "") -> None:
        """Tell the values of some; ``node`` is another one that is here."""
        self._order(number, lambda: self._session.read(node or self._node, names))

    def on_protect(self, number: int, tickets: tuple[Any, ...], keys: tuple[int, ...]) -> None:
        """See ``Session.protect``."""
        groups = [self._shares[key].group for key in keys if key in self._shares]
        self._order(number, lambda: self._session.protect(tickets, groups))

    def on_persist(self, number: int, tickets: tuple[Any, ...], directory: str) -> None:
        """See ``Session.persist``."""

        def work() -> Any:
            saves = self._session.persist(tickets, self.files.stage(directory))
            return self.files.brought(directory, tickets[0].epoch, saves)

        self._beside(number, work)

    def on_piece(self, number: int, token: str, name: str, offset: int) -> None:
        """The master collects a file."""
        self._beside(number, lambda: self.files.piece(token, name, offset))

    def on_forget_save(self, token: str) -> None:
        """The master has all files of a save that it wants; or it was given up."""
        self.files.forget(token)

    def on_release(self, tickets: tuple[Any, ...]) -> None:
        """See ``Session.release``."""
        self._session.release(tickets)

    def on_answer(self, number: int, outcome: tuple[bool, Any]) -> None:
        """What this node had asked for."""
        self.calls.answered(number, outcome)

    # What tasks here need.

    def own(self, name: str) -> Value:
        """A copy of a blob of this node, or of another one that is here (``addressed``).

        Raises:
            MissingBlobError: There is none.
        """
        node, _, blob = name.rpartition(_AT)
        return next(self._session.fetch((node or self._node,), blob, CancelScope()))

    def send(self, *message: Any) -> None:
        """Tell the master; if there is none any more, this process is about to end."""
        with contextlib.suppress(OSError):
            self._channel.send(*message)

    def _meet(self, node: str, cancel: CancelScope) -> None:
        number = self._present.number if self._present is not None else 0
        self.calls.ask("ask", number, "meet", (node,)).wait(cancel)

    @property
    def here(self) -> frozenset[str]:
        """The names of the nodes that are here."""
        return self._here

    def _emit(self, event: Event) -> None:
        self.send("event", event)


class PartRun:
    """The run at hand, and the way from it to the master.

    Attributes:
        beyond: The rest of it.
    """

    def __init__(
        self, worker: Worker, number: int, share: Share, outputs: Mapping[OutputRef, Value]
    ) -> None:
        self.number = number
        self._worker = worker
        self._share = share
        self._lines = dict(share.lines)
        self._lock = threading.Lock()
        # Of tasks on several nodes that are here: how many of them go on, and what they have made.
        self._going = Counter(task.name for task in share.group.tasks)
        self._made: dict[str, dict[OutputRef, Value]] = {}
        self.beyond = Beyond(outputs, self.fetch, share.awaited, share.told, self,
                             self.bring)  # fmt: skip

    def run(
        self, session: ThreadsSession, epoch: int, points: tuple[int, Midpoint | None] | None
    ) -> Any:
        """Run the part to its end."""
        group: TaskGroup = self._share.group
        told = None
        if points is not None:
            every, entry = points
            told = Points(every, self._reached, entry)
        try:
            return session.run_part(group, epoch, self.beyond, told)
        finally:
            # Each time: what a node that is lost had not told is lost with it.
            if self._worker.meter is not None:
                self._worker.send("measured", self._worker.meter.told())

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Copies of a blob of any nodes."""
        here, places = self._worker.here, self._share.places
        others = [node for node in nodes if node not in here]
        if places.keys().isdisjoint(others):
            coming = self._worker.peers.fetch(others, name, cancel)
        else:
            # Where several share a place, each is named to it.
            coming = (
                next(self._worker.peers.fetch([places.get(node, node)], f"{node}{_AT}{name}",
                                              cancel))
                for node in others
            )  # fmt: skip
        return (self._worker.own(f"{node}{_AT}{name}") if node in here else next(coming)
                for node in nodes)  # fmt: skip

    def bring(self, path: str) -> AbstractContextManager[str]:
        """Make a file of an epoch readable here."""
        return self._worker.files.landed(
            path, partial(self._ask, "file", path), partial(self._ask, "where", path)
        )

    def ended(self, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """See ``Teller``; it is told once, when the task has ended on all nodes that are here."""
        with self._lock:
            made = self._made.setdefault(task, {})
            made.update(outputs)
            self._going[task] -= 1
            if self._going[task]:
                return
        self._worker.send("ended", self.number, task, made)

    def failing(self) -> None:
        """See ``Teller``."""
        self._worker.send("failing", self.number)

    def line(self, plan: LinePlan, run: GroupRun) -> LineEnds | None:
        """See ``Teller``."""
        if plan.key not in self._lines:
            return None
        return FarLine(
            plan, partial(self._ask_line, plan.key), run,
            is_only_reader=self._lines[plan.key],
        )  # fmt: skip

    def _ask(self, what: str, *given: Any) -> Any:
        return self._worker.calls.ask("ask", self.number, what, given)

    def _ask_line(self, key: TaskOnNode, what: str, *given: Any) -> Any:
        return self._ask("line", key, what, given)

    def _reached(self, midpoint: Midpoint) -> bool:
        return bool(self._ask("reached", midpoint).wait())


def main(arguments: list[str]) -> int:
    """Be a node's process.

    Args:
        arguments: The numbers of the inherited sockets, and that of the master's process.
    """
    from jobrun.session.launch import prepared  # noqa: PLC0415 - its counterpart there

    channel = prepared(int(arguments[0]), int(arguments[2]))
    if channel is None:
        return _LOST_MASTER
    with socket.socket(fileno=int(arguments[1])) as door:
        Worker(channel, partial(Peers, door)).work()
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
