"""Which blobs a list of steps needs, makes and deletes, whatever way through it is taken.

Each block is looked at once, from an unknown start, and summed up relative to it; the
summary is then applied where the block stands. So the work is linear in the steps, also for
loops within loops, and one summary of a task serves all its nodes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from jobrun.compile.context import FINDER
from jobrun.compile.faults import Place
from jobrun.compile.records import Records
from jobrun.graph.access import Access
from jobrun.graph.data import record_path
from jobrun.graph.expr import Const
from jobrun.graph.steps import (
    AdoptState,
    Assert,
    CallPython,
    CopyState,
    Guard,
    If,
    Load,
    LoadState,
    Log,
    Loop,
    Net,
    Op,
    Parallel,
    PublishCopy,
    Pull,
    Record,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    UseNet,
    While,
)


class Status(enum.Enum):
    """What is known of a name at a point; a name without one is as it was at the start."""

    SET = "set"
    GONE = "deleted"
    MAYBE = "deleted on one way, and not on another"


_State = dict[str, Status]


@dataclass(slots=True)
class Ledger:
    """Where each name is first touched, by kind of touch, in the order of the text.

    Attributes:
        called: Of writes those that bind what a callable returns.
        lent: Of writes those that hand a blob to a callable to be changed.
        firm: All other writes.
    """

    reads: dict[str, Place] = field(default_factory=dict)
    writes: dict[str, Place] = field(default_factory=dict)
    atomic: dict[str, Place] = field(default_factory=dict)
    deletes: dict[str, Place] = field(default_factory=dict)
    outputs: dict[tuple[str, str], Place] = field(default_factory=dict)
    called: dict[str, Place] = field(default_factory=dict)
    lent: dict[str, Place] = field(default_factory=dict)
    firm: dict[str, Place] = field(default_factory=dict)

    def note(self, access: Access, place: Place) -> None:
        """Add the touches of one step."""
        for name in access.reads:
            self.reads.setdefault(name, place)
        for names in (access.binds, access.changes, access.deletes):
            for name in names:
                self.writes.setdefault(name, place)
        self._sort(access, place)
        for name in access.atomic:
            self.atomic.setdefault(name, place)
        for name in access.deletes:
            self.deletes.setdefault(name, place)
        for read in access.outputs:
            self.outputs.setdefault((read.task, read.output), place)

    def _sort(self, access: Access, place: Place) -> None:
        firm = {*access.binds, *access.changes, *access.deletes} - {*access.called, *access.lent}
        kinds = ((self.called, access.called), (self.lent, access.lent), (self.firm, firm))
        for into, names in kinds:
            for name in names:
                into.setdefault(name, place)

    def add(self, other: Ledger) -> None:
        """Add what another ledger holds; what is here already came first."""
        self.reads = {**other.reads, **self.reads}
        self.writes = {**other.writes, **self.writes}
        self.atomic = {**other.atomic, **self.atomic}
        self.deletes = {**other.deletes, **self.deletes}
        self.outputs = {**other.outputs, **self.outputs}
        self.called = {**other.called, **self.called}
        self.lent = {**other.lent, **self.lent}
        self.firm = {**other.firm, **self.firm}

    def names(self) -> Iterable[str]:
        """Every name touched."""
        return {**self.reads, **self.writes, **self.atomic}


@dataclass(slots=True)
class Problem:
    """Something wrong that needs no knowledge of what is outside."""

    kind: str
    name: str
    place: Place
    other: Place | None = None


@dataclass(slots=True)
class Summary:
    """A block of steps, relative to where it starts.

    Attributes:
        needs: Names that must hold a value at the start, and where that is first needed.
        end: What is known of names at the end.
        stops: For each block around this one that a step leaves: what is known of names then.
        dead: The end is never reached.
    """

    needs: dict[str, Place] = field(default_factory=dict)
    end: _State = field(default_factory=dict)
    stops: dict[str, _State] = field(default_factory=dict)
    dead: bool = False

    def read(self, names: Iterable[str], place: Place, problems: list[Problem]) -> None:
        """Names are read here."""
        for name in names:
            status = self.end.get(name)
            if status is None:
                self.needs.setdefault(name, place)
            elif status is not Status.SET:
                problems.append(Problem("deleted", name, place))

    def stop(self, target: str, state: _State) -> None:
        """A step leaves the block ``target`` with this state."""
        known = self.stops.get(target)
        self.stops[target] = dict(state) if known is None else meet(known, state)

    def then(self, other: Summary, problems: list[Problem]) -> None:
        """The block ``other`` runs next, as a part of this one."""
        for name, place in other.needs.items():
            self.read((name,), place, problems)
        self.take_stops(other)
        self.end.update(other.end)
        self.dead = other.dead

    def take_stops(self, other: Summary) -> None:
        """The stops of a block that starts here."""
        for target, state in other.stops.items():
            self.stop(target, {**self.end, **state})

    def leave(self, path: str) -> None:
        """The block ends here: stops that leave it join its end."""
        state = self.stops.pop(path, None)
        if state is not None:
            self.end = state if self.dead else meet(self.end, state)
            self.dead = False


def meet(left: _State, right: _State) -> _State:
    """What is known when one of two ways was taken."""
    met: _State = {}
    for name in left.keys() | right.keys():
        one, two = left.get(name), right.get(name)
        if one is two and one is not None:
            met[name] = one
        elif Status.GONE in (one, two) or Status.MAYBE in (one, two):
            met[name] = Status.MAYBE
    return met


class FlowFinder:
    """Sums blocks up, and collects touches and problems on the way.

    Attributes:
        ledger: Touches so far.
        problems: What is wrong inside, whatever is outside.
        carried: Names that one record's steps leave to those of the next, and where these look.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.problems: list[Problem] = []
        self.carried: dict[str, Place] = {}

    def block(self, steps: tuple[Step, ...], path: str) -> Summary:
        """The summary of a block that a stop can leave by its path."""
        summary = Summary()
        self._steps(steps, summary)
        summary.leave(path)
        return summary

    def body(self, steps: tuple[Step, ...], path: str, records: Records) -> Summary:
        """The summary of a task's steps, which run once, or once for each record."""
        outer, self.ledger = self.ledger, Ledger()
        one = Summary()
        for name in records.fields:
            self.ledger.writes.setdefault(name, records.read_at)
            one.end[name] = Status.SET
        self._steps(steps, one)
        for sent, place in zip(records.write, records.write_at, strict=True):
            # Where a stop is certain nothing is ever sent.
            for name in () if one.dead else sent.names:
                at = records.sent_at.get((sent.queue.name, name), place)
                self.ledger.reads.setdefault(name, at)
                one.read((name,), at, self.problems)
        one.leave(record_path(path) if records.is_loop else path)
        own, self.ledger = self.ledger, outer
        outer.add(own)
        if not records.is_loop:
            return one
        touched = {**own.writes, **own.atomic}
        self.carried = {name: place for name, place in one.needs.items() if name in touched}
        whole = Summary()
        ways = [{}, *self._passes(one, one.needs.items())]
        self._join(one, [*ways, *filter(None, [one.stops.pop(path, None)])], whole)
        return whole

    def _steps(self, steps: tuple[Step, ...], into: Summary) -> None:
        for step in steps:
            if into.dead:
                self.problems.append(Problem("unreachable", "", Place(step.path, step.origin)))
                return
            self._step(step, into)

    def _step(self, step: Step, into: Summary) -> None:
        place = Place(step.path, step.origin)
        match step:
            case Net(ops=ops):
                for op in ops:
                    self._op(op, into)
            case UseNet(steps=steps):
                self._steps(steps, into)
            case Loop() | While():
                self._loop(step, place, into)
            case If():
                self._if(step, place, into)
            case Guard():
                into.then(self.block(step.steps, step.path), self.problems)
                self._touch(FINDER.of_step(step), place, into)
            case Parallel():
                self._parallel(step, into)
            case Stop():
                self._touch(FINDER.of_step(step), place, into)
                into.stop(step.target, into.end)
                into.dead = step.condition is None
            case (
                CallPython() | RunProgram() | Pull() | Load() | Save() | Log() | Record()
                | Assert() | SaveState() | LoadState() | AdoptState() | CopyState() | PublishCopy()
            ):  # fmt: skip
                self._touch(FINDER.of_step(step), place, into)
            case _:
                assert_never(step)

    def _op(self, op: Op, into: Summary) -> None:
        self._touch(FINDER.of_op(op), Place(op.path, op.origin), into)

    def _touch(self, access: Access, place: Place, into: Summary) -> None:
        self.ledger.note(access, place)
        into.read(access.reads, place, self.problems)
        into.read(access.atomic, place, self.problems)
        for name in access.binds:
            into.end[name] = Status.SET
        for name in access.deletes:
            into.end[name] = Status.GONE

    def _loop(self, step: Loop | While, place: Place, into: Summary) -> None:
        head = FINDER.of_step(step)
        self._touch(head, place, into)
        body = Summary()
        self._steps(step.steps, body)
        again = (*body.needs.items(), *((name, place) for name in head.reads))
        ends = self._passes(body, again)
        ways = [] if _endless(step) else ends
        if not _passes(step):
            ways.append({})
        own = body.stops.pop(step.path, None)
        if own is not None:
            ways.append(own)
        if _endless(step) and own is None and not body.stops and not body.dead:
            self.problems.append(Problem("endless", "", place))
        self._join(body, ways, into)

    def _passes(self, body: Summary, again: Iterable[tuple[str, Place]]) -> list[_State]:
        """How a body that runs any number of times ends, if it does; ``again``: what it needs."""
        if body.dead:
            return []
        for name, where in again:
            if body.end.get(name) in (Status.GONE, Status.MAYBE):
                self.problems.append(Problem("deleted", name, where))
        # A stop may come in a later pass, when an earlier one has deleted something.
        gone = {name: Status.MAYBE for name, one in body.end.items() if one is not Status.SET}
        for state in body.stops.values():
            state.update({name: one for name, one in gone.items() if name not in state})
        return [body.end]

    def _if(self, step: If, place: Place, into: Summary) -> None:
        self._touch(FINDER.of_step(step), place, into)
        ways: list[_State] = []
        for branch in (*(then for _, then in step.branches), step.otherwise):
            summary = Summary()
            self._steps(branch, summary)
            self._join(summary, [], into, ends=False)
            if not summary.dead:
                ways.append(summary.end)
        self._end(ways, into)

    def _parallel(self, step: Parallel, into: Summary) -> None:
        summaries: list[Summary] = []
        ledgers: list[Ledger] = []
        outer = self.ledger
        for index, branch in enumerate(step.branches):
            self.ledger = Ledger()
            summaries.append(self.block(branch, f"{step.path}[{index}]"))
            ledgers.append(self.ledger)
        self.ledger = outer
        for summary in summaries:
            self._join(summary, [], into, ends=False)
        for summary in summaries:
            into.end.update(summary.end)
            into.dead = into.dead or summary.dead
        self.problems += _races(ledgers)
        for ledger in ledgers:
            outer.add(ledger)

    def _join(self, body: Summary, ways: list[_State], into: Summary, *, ends: bool = True) -> None:
        """Put what a block needs, and its stops, where the block stands; then its ends."""
        for name, where in body.needs.items():
            into.read((name,), where, self.problems)
        into.take_stops(body)
        if ends:
            self._end(ways, into)

    @staticmethod
    def _end(ways: list[_State], into: Summary) -> None:
        if not ways:
            into.dead = True
            return
        met = ways[0]
        for way in ways[1:]:
            met = meet(met, way)
        into.end.update(met)


def _races(branches: list[Ledger]) -> list[Problem]:
    """Names that one branch writes and another touches, each once."""
    writers: dict[str, tuple[int, Place]] = {}
    counters: dict[str, tuple[int, Place]] = {}
    for index, ledger in enumerate(branches):
        for name, where in ledger.writes.items():
            writers.setdefault(name, (index, where))
        for name, where in ledger.atomic.items():
            counters.setdefault(name, (index, where))
    found: dict[str, Problem] = {}
    for index, ledger in enumerate(branches):
        for touches, others in (
            (ledger.writes, writers), (ledger.atomic, writers), (ledger.reads, writers),
            (ledger.reads, counters), (ledger.writes, counters),
        ):  # fmt: skip
            for name, where in touches.items():
                index_of_other, other = others.get(name, (index, where))
                if index_of_other != index:
                    found.setdefault(name, Problem("race", name, other, where))
    return list(found.values())


def _endless(step: Loop | While) -> bool:
    """Whether only a stop ends it."""
    if isinstance(step, Loop):
        return step.count is None
    return isinstance(step.condition, Const) and step.condition.value is True


def _passes(step: Loop | While) -> bool:
    """Whether it certainly has a first pass."""
    if _endless(step):
        return True
    if isinstance(step, Loop) and isinstance(step.count, Const):
        count = step.count.value
        # A count that could not be read stands for a loop that was meant to run.
        return count is None or (isinstance(count, int) and count > 0)
    return False
