"""The session in which every node is a process of its own on this machine.

Each of them runs its part of a group as the threads session would, in threads; what parts need of
each other goes through this process, the master, which keeps the queues that several nodes use.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Any

from jobrun.blobs.values import Value
from jobrun.checkpoint.plan import Ticket
from jobrun.checkpoint.times import NodeSave
from jobrun.core.events import Event, Listener
from jobrun.graph.types import Cluster, Node, OutputRef, TaskGroup
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.meter import SPANS, BlockTime
from jobrun.runtime.midway import Points
from jobrun.session.base import Outputs, RunContext
from jobrun.session.calls import Answer, wait_all
from jobrun.session.cancel import TasksStuckError
from jobrun.session.collecting import GIVEN, collected, expect_seen, gathered, probing
from jobrun.session.endings import Endings
from jobrun.session.farline import serve
from jobrun.session.flight import Flight
from jobrun.session.host import NodeHost
from jobrun.session.launch import Process
from jobrun.session.link import Link
from jobrun.session.lost import NodeLostError
from jobrun.session.nodefiles import Footing, Probe
from jobrun.session.schedule import check_needs
from jobrun.session.share import Shares, shares_of

_KEPT_GROUPS = 8
_GIVEN = 8


class Kept:
    """Stands for what the nodes keep of their workspaces; they let go of it with this."""

    def __init__(self, number: int) -> None:
        self.number = number


class ProcessesSession:
    """Every node is a process, which holds its workspace and writes its own files.

    Hosts and resources mean nothing here, and nobody asks for remote nets.

    Args:
        grace_s: As that of ``ThreadsSession``.
    """

    def __init__(self, *, grace_s: float = 30.0) -> None:
        self._grace_s = grace_s
        self._nodes: dict[str, Node] = {}
        # By node, in whose place it is; a place has the name of the node that it belongs to.
        self._places: Mapping[str, str] = {}
        # By place, the other nodes that are in it.
        self._guests: dict[str, list[str]] = {}
        self._links: dict[str, Link] = {}
        self._context: RunContext | None = None
        self._groups: OrderedDict[int, tuple[int, Shares]] = OrderedDict()
        self._numbers = count(1)
        self._incarnations = count(1)
        # So many pieces of files are in memory at a time, however many nodes load.
        self._giving = threading.Semaphore(_GIVEN)
        self._flight: Flight | None = None
        self._endings: Endings
        # Held while parts are sent out: no news of a run may reach a node before its part.
        self._sending = threading.Lock()
        self._is_stuck = False

    def open(self, cluster: Cluster, context: RunContext) -> None:
        """Start a process per node, each with an empty global workspace.

        Raises:
            EnvironmentFaultError: A process could not be started, or does not see where it is to
                write its files.
        """
        self._context = context
        self._nodes = {node.name: node for node in cluster}
        self._places = context.places
        self._guests = {}
        for node, place in self._places.items():
            self._guests.setdefault(place, []).append(node)
        # All at a time: a process takes long to begin.
        for name in dict.fromkeys(map(self._place, self._nodes)):
            self._links[name] = self._linked(name)
        # One that is lost already is a matter of the first group, as one that is lost later.
        with contextlib.suppress(NodeLostError):
            self._begin(self._links)

    def renew(self) -> tuple[str, ...]:
        """Give nodes that were lost new processes, and empty the workspaces of all.

        Raises:
            EnvironmentFaultError: A process could not be started, or was lost at once.
        """
        lost = {node for node, link in self._links.items() if link.loss is not None}
        for node in lost:
            self._links[node].close(at_once=True)
            self._links[node] = self._linked(node)
        self._begin(lost)
        self.settle({})
        return tuple(node for node in self._nodes if self._place(node) in lost)

    def run(
        self, group: TaskGroup, epoch: int, outputs: Outputs, points: Points | None = None
    ) -> Outputs:
        """Run the group to its end and return the outputs of its tasks.

        Raises:
            NodeLostError: The process of a node has ended.
            JobrunError: What failed first, with the faults of everything that failed.
            GroupCancelledError: ``request_stop`` ended it.
            TasksStuckError: Tasks did not end in time; this session has to be closed.
        """
        self._opened()
        key, shares = self._shares(group)
        if not shares.by_node:
            return {}
        flight = Flight(next(self._numbers), shares, self._grace_s, points)
        flight.lines = {plan.key: plan.open() for plan in shares.lines}
        self._endings = Endings(shares)
        self._flight = flight
        try:
            self._send_out(flight, key, epoch, outputs)
            return flight.wait(partial(self._cancel, flight), self._kill)
        except TasksStuckError:
            self._is_stuck = True
            raise
        finally:
            self._flight = None
            # Who still waits at a queue is of no use to anybody.
            flight.scope.cancel()

    def snapshot(self, group: TaskGroup) -> Kept:
        """Keep all that a run of the group may change in the nodes' global workspaces."""
        key, shares = self._shares(group)
        kept = Kept(next(self._numbers))
        links = [self._link(node) for node in shares.by_node]
        for link in links:
            link.know(key, shares.by_node[link.node])
        wait_all({link.node: link.calls.ask("snapshot", kept.number, key) for link in links})
        weakref.finalize(kept, _drop, links, kept.number)
        return kept

    def restore(self, snapshot: Kept) -> None:
        """Make the global workspaces what they were at the snapshot. Only between groups."""
        self._ask_all("restore", snapshot.number)

    def protect(self, tickets: Sequence[Ticket], groups: Sequence[TaskGroup]) -> None:
        """Let groups run while what the tickets stand for is written."""
        known = [self._shares(group) for group in groups]
        answers = {}
        for node, own in self._by_place(tickets).items():
            for key, shares in known:
                if node in shares.by_node:
                    self._link(node).know(key, shares.by_node[node])
            keys = tuple(key for key, _ in known)
            answers[node] = self._link(node).calls.ask("protect", own, keys)
        wait_all(answers)

    def persist(self, tickets: Sequence[Ticket], directory: str) -> tuple[NodeSave, ...]:
        """Write what the tickets stand for into a directory, durably, each in its node's process.

        Raises:
            NodeLostError: The process of a node has ended.
            TaskFailedError: A blob holds what cannot be stored.
            EnvironmentFaultError: The disk says no.
        """
        files = self._opened().files
        if files.objects:
            return gathered(tickets, directory, files.objects, self._link)
        if files.node_dir:
            answers = collected(tickets, directory, self._link)
        else:
            answers = {
                ticket: self._link(ticket.node).calls.ask("persist", (ticket,), directory)
                for ticket in tickets
            }
        found = wait_all(answers)
        return tuple(save for ticket in tickets for save in found[ticket])

    def release(self, tickets: Sequence[Ticket]) -> None:
        """Let go of what the tickets stand for. Any thread, any number of times."""
        for node, own in self._by_place(tickets).items():
            if node in self._links:
                self._links[node].send("release", own)

    def read(self, node: str, names: tuple[str, ...]) -> dict[str, Value]:
        """Copies of blobs of the node's global workspace. Only between groups.

        Raises:
            KeyError: If there is no such node, or it has no such blob.
        """
        values: dict[str, Value] = self._link(node).calls.ask("read", names, node).wait()
        return values

    def names(self, node: str) -> tuple[str, ...]:
        """The names in the node's global workspace, sorted."""
        names: tuple[str, ...] = self._link(node).calls.ask("names", node).wait()
        return names

    def settle(self, keep: Mapping[str, tuple[str, ...]]) -> None:
        """Bring each node's global workspace to boundary form.

        Raises:
            TaskFailedError: A name of ``keep`` is missing or holds what cannot be stored.
        """
        wait_all({
            place: link.calls.ask("settle", tuple(keep.get(place, ())), {
                node: tuple(keep.get(node, ())) for node in self._guests.get(place, ())
            })
            for place, link in self._links.items()
        })  # fmt: skip

    def request_stop(self) -> None:
        """Ask the running group to end at its tasks' next step boundary. Any thread, any time."""
        flight = self._flight
        if flight is not None:
            flight.request_stop()

    def close(self) -> None:
        """End all processes. May be called twice."""
        links, self._links = self._links, {}
        for link in links.values():
            link.begin_to_close()
        for link in links.values():
            link.close(at_once=self._is_stuck)
        self._groups.clear()

    # What nodes say by themselves; see ``Hearer``.

    def failing(self, node: str, run: int) -> None:
        """A part of the run has failed."""
        flight = self._flight
        if flight is not None and flight.number == run:
            flight.came(node, None)

    def ended(self, node: str, run: int, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """A task has ended that tasks on other nodes need."""
        flight = self._flight
        if flight is None or flight.number != run:
            return
        for other, wanted in self._endings.ended(task, node, outputs).items():
            with self._sending:
                self._links[other].send("ended", run, task, wanted)

    def measured(self, teller: str, times: Sequence[BlockTime]) -> None:
        """What the steps of a node have taken so far."""
        meter = self._opened().meter
        if meter is not None:
            meter.take_in(teller, times)

    def lost(self, node: str) -> None:
        """Nothing more than what each of its requests is told."""

    def asked(self, link: Link, number: int, run: int, what: str, given: tuple[Any, ...]) -> None:
        """A task of the node wants something."""
        flight = self._flight
        if flight is None or flight.number != run:
            link.answer(number, error=CancelledError())
        elif what == "meet":
            # Whoever has the other end hears of it if that node is lost.
            link.meet(self._link(given[0]))
            link.answer(number)
        else:
            work = partial(self._served, flight, link.node, what, given)
            turn = self._giving if what == "file" else contextlib.nullcontext()
            threading.Thread(
                target=_answer, args=(link, number, work, turn), name="jobrun-serve", daemon=True
            ).start()

    def _served(self, flight: Flight, node: str, what: str, given: tuple[Any, ...]) -> Any:
        if what in GIVEN:
            return GIVEN[what](flight.shares.by_node[node], *given)
        if what == "line":
            key, act, rest = given
            return serve(flight.lines[key], act, rest, flight.scope)
        assert flight.points is not None  # noqa: S101 - only who was given points reaches one
        return flight.points.reached(*given)

    def _opened(self) -> RunContext:
        if self._context is None:
            raise RuntimeError("the session is not open")
        return self._context

    def _start(self, node: str) -> NodeHost:
        """The place of a node, which begins to be."""
        return Process(node)

    def _emitter(self, node: str) -> Listener:
        """Tells the run what a node tells, and first the flight, which waits for the node."""
        emit = self._opened().emit

        def tell(event: Event) -> None:
            flight = self._flight
            if flight is not None:
                flight.heard(node, event)
            emit(event)

        return tell

    def _linked(self, node: str) -> Link:
        return Link(node, self, self._emitter(node), self._start, next(self._incarnations))

    def _begin(self, nodes: Iterable[str]) -> None:
        files = self._opened().files
        with probing(files.epochs_dir) as probe:
            seen = wait_all({node: self._begun(node, probe) for node in nodes})
        expect_seen(seen, files.epochs_dir)

    def _begun(self, node: str, probe: Probe | None) -> Answer:
        context = self._opened()
        facts = (context.seed, context.run_dir, context.folder)
        # All nodes together tell about as many runs of blocks as one process would.
        spans = 0 if context.meter is None else SPANS // len(self._nodes) + 1
        others = tuple(self._nodes[one] for one in self._guests.get(node, ()))
        link, files = self._links[node], context.files
        seen = None if {node, *(one.name for one in others)}.isdisjoint(files.nodes) else probe
        footing = Footing(link.incarnation, files.node_dir, seen, files.objects)
        return link.calls.ask(
            "open", self._nodes[node], facts, self._grace_s, spans, others, footing
        )

    def _place(self, node: str) -> str:
        return self._places.get(node, node)

    def _by_place(self, tickets: Sequence[Ticket]) -> dict[str, tuple[Ticket, ...]]:
        found: dict[str, tuple[Ticket, ...]] = {}
        for ticket in tickets:
            place = self._place(ticket.node)
            found[place] = (*found.get(place, ()), ticket)
        return found

    def _link(self, node: str) -> Link:
        return self._links[self._place(node)]

    def _shares(self, group: TaskGroup) -> tuple[int, Shares]:
        """The group, divided, and the key by which nodes know it."""
        found = self._groups.get(id(group))
        if found is None:
            check_needs(group.tasks)
            # What is kept holds the group, so nothing else can get its id meanwhile.
            found = self._groups[id(group)] = (next(self._numbers), shares_of(group, self._places))
            if len(self._groups) > _KEPT_GROUPS:
                _, (key, _) = self._groups.popitem(last=False)
                for link in self._links.values():
                    link.forget(key)
        else:
            self._groups.move_to_end(id(group))
        return found

    def _send_out(self, flight: Flight, key: int, epoch: int, outputs: Outputs) -> None:
        points = None if flight.points is None else (flight.points.every, flight.points.entry)
        with self._sending:
            for node, share in flight.shares.by_node.items():
                link = self._links[node]
                link.know(key, share)
                read = {ref: outputs[ref] for ref in share.reads if ref in outputs}
                link.calls.ask_then(
                    partial(flight.came, node), "run", flight.number, key, epoch, read, points
                )

    def _cancel(self, flight: Flight) -> None:
        for node in flight.shares.by_node:
            self._links[node].send("cancel", flight.number)

    def _kill(self, node: str) -> None:
        self._link(node).abort()

    def _ask_all(self, kind: str, *given: Any) -> None:
        wait_all({node: link.calls.ask(kind, *given) for node, link in self._links.items()})


def _answer(
    link: Link, number: int, work: Callable[[], Any], turn: AbstractContextManager[Any]
) -> None:
    with turn:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            link.answer(number, error=error)
        else:
            link.answer(number, value=value)


def _drop(links: Sequence[Link], number: int) -> None:
    for link in links:
        link.send("drop", number)
