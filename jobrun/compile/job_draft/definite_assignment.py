"""Analyse definite assignment: the blobs that steps need, bind and delete on every path.

Each block is analysed once, from an unknown start, and summarised relative to it; the summary
is then applied at the position of the block. So the work is linear in the number of steps, also for
nested loops, and one summary of a task serves all its nodes. Of tasks whose steps differ in names
only, the first is analysed: what steps do to names does not depend on what these are, but on which
of them are the same.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, assert_never

from msgspec import Struct, field

from jobrun.compile.faults import SpecPosition
from jobrun.graph.blob_access import Access
from jobrun.graph.effects import Effect
from jobrun.graph.expressions import Const
from jobrun.graph.readers import record_path
from jobrun.graph.steps import Guard, If, Loop, Net, Parallel, Step, Stop, UseNet, While
from jobrun.graph.types import SetupNets
from jobrun.ops.access_finder import ACCESS_FINDER

FAILED = "failed"


class Status(enum.Enum):
    """The status of a name at a point of a block; a name without one is as at the start."""

    SET = "set"
    GONE = "deleted"
    MAYBE = "deleted on one path, but not on another"


_State = dict[str, Status]


class NameUses(Struct):
    """The positions where steps first use each name, by kind of use, in the order of the text.

    Attributes:
        called: The writes that bind what a callable returns.
        lent: The writes that pass a blob to a callable to be changed.
        firm: All other writes.
        functions: The operators that are called.
    """

    reads: dict[str, SpecPosition] = field(default_factory=dict)
    writes: dict[str, SpecPosition] = field(default_factory=dict)
    atomic: dict[str, SpecPosition] = field(default_factory=dict)
    deletes: dict[str, SpecPosition] = field(default_factory=dict)
    outputs: dict[tuple[str, str], SpecPosition] = field(default_factory=dict)
    called: dict[str, SpecPosition] = field(default_factory=dict)
    lent: dict[str, SpecPosition] = field(default_factory=dict)
    firm: dict[str, SpecPosition] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)

    def note(self, access: Access, spec_position: SpecPosition) -> None:
        """Add the names that a step reads, assigns or deletes, for definite assignment."""
        reads, writes, firm = self.reads, self.writes, self.firm
        for name in access.reads:
            if name not in reads:
                reads[name] = spec_position
        written = access.binds
        if access.changes or access.deletes:
            written = [*written, *access.changes, *access.deletes]
        is_sorted = access.called or access.lent
        for name in written:
            if name not in writes:
                writes[name] = spec_position
            if not is_sorted and name not in firm:
                firm[name] = spec_position
        if is_sorted:
            self._sort(access, spec_position)
        if access.atomic:
            for name in access.atomic:
                self.atomic.setdefault(name, spec_position)
        if access.deletes:
            for name in access.deletes:
                self.deletes.setdefault(name, spec_position)
        if access.outputs:
            for read in access.outputs:
                self.outputs.setdefault((read.task, read.output), spec_position)
        if access.functions:
            self.functions.update(access.functions)

    def _sort(self, access: Access, spec_position: SpecPosition) -> None:
        firm = {*access.binds, *access.changes, *access.deletes} - {*access.called, *access.lent}
        kinds = ((self.called, access.called), (self.lent, access.lent), (self.firm, firm))
        for into, names in kinds:
            for name in names:
                into.setdefault(name, spec_position)

    def add(self, other: NameUses) -> None:
        """Merge other steps' uses of names into these, to analyse definite assignment."""
        self.reads = {**other.reads, **self.reads}
        self.writes = {**other.writes, **self.writes}
        self.atomic = {**other.atomic, **self.atomic}
        self.deletes = {**other.deletes, **self.deletes}
        self.outputs = {**other.outputs, **self.outputs}
        self.called = {**other.called, **self.called}
        self.lent = {**other.lent, **self.lent}
        self.firm = {**other.firm, **self.firm}
        self.functions |= other.functions

    def names(self) -> Iterable[str]:
        """Return all names in an analysis of definite assignment, whether read or written."""
        return {**self.reads, **self.writes, **self.atomic}


class FlowProblem(Struct):
    """A fault of steps, such as a read after a deletion, that depends on nothing outside them."""

    kind: str
    name: str
    spec_position: SpecPosition
    other: SpecPosition | None = None


class Summary(Struct):
    """The effect of a block of steps on names: what it needs, binds and deletes.

    Attributes:
        needs: Names that must hold a value at the start, and where that is first needed.
        end: The status of names at the end.
        stops: For each block around this one that a step leaves: the status of names then.
        dead: The end is never reached.
    """

    needs: dict[str, SpecPosition] = field(default_factory=dict)
    end: _State = field(default_factory=dict)
    stops: dict[str, _State] = field(default_factory=dict)
    dead: bool = False

    def read(
        self, names: Iterable[str], spec_position: SpecPosition, problems: list[FlowProblem]
    ) -> None:
        """Add names that steps read: unassigned ones to the needs, deleted to the problems."""
        find = self.end.get
        for name in names:
            status = find(name)
            if status is None:
                self.needs.setdefault(name, spec_position)
            elif status is not Status.SET:
                problems.append(FlowProblem("deleted", name, spec_position))

    def stop(self, target: str, state: _State) -> None:
        """Record which names are definitely assigned where a ``stop`` leaves a block."""
        known = self.stops.get(target)
        self.stops[target] = dict(state) if known is None else meet(known, state)

    def then(self, other: Summary, problems: list[FlowProblem]) -> None:
        """Append the next block of steps: what this one assigns, the next need not find there."""
        for name, spec_position in other.needs.items():
            self.read((name,), spec_position, problems)
        self.take_stops(other)
        self.end.update(other.end)
        self.dead = other.dead

    def take_stops(self, other: Summary) -> None:
        """Add to this summary what is assigned at the ``stop`` steps of the next block."""
        for target, state in other.stops.items():
            self.stop(target, {**self.end, **state})

    def leave(self, path: str) -> None:
        """End a block: combine the assignments at its end and at each ``stop``."""
        state = self.stops.pop(path, None)
        if state is not None:
            self.end = state if self.dead else meet(self.end, state)
            self.dead = False


def meet(first: _State, second: _State) -> _State:
    """Combine a name's status on two paths: definitely assigned only if it is on both."""
    met: _State = {}
    for name in first.keys() | second.keys():
        on_first, on_second = first.get(name), second.get(name)
        if on_first is on_second and on_first is not None:
            met[name] = on_first
        elif Status.GONE in (on_first, on_second) or Status.MAYBE in (on_first, on_second):
            met[name] = Status.MAYBE
    return met


class FlowAnalysis:
    """Summarises blocks: what names they need, bind and delete; collects problems.

    Attributes:
        uses: The touches so far.
        problems: The problems that do not depend on what is outside.
        carried: Names that the steps leave for the next record, and where they are read.
    """

    def __init__(self) -> None:
        self.uses = NameUses()
        self.problems: list[FlowProblem] = []
        self.carried: dict[str, SpecPosition] = {}

    def block(self, steps: tuple[Step, ...], path: str) -> Summary:
        """Summarise which names a block of steps needs, definitely assigns and deletes."""
        summary = Summary()
        self._steps(steps, summary)
        summary.leave(path)
        return summary

    def body(
        self,
        steps: tuple[Step, ...],
        path: str,
        fields: Mapping[str, SpecPosition] | None = None,
        sent: Iterable[tuple[str, SpecPosition]] = (),
    ) -> Summary:
        """Summarise which names a task's steps and records need, definitely assign and delete.

        Args:
            steps: The steps of the task.
            path: The path of the task.
            fields: The names that each record binds, for which the steps run; None: they run once.
            sent: The names that are sent after the steps.
        """
        outer = self.uses
        if fields is not None:
            self.uses = NameUses()
        summary = Summary()
        for name, at in (fields or {}).items():
            self.uses.writes.setdefault(name, at)
            summary.end[name] = Status.SET
        self._steps(steps, summary)
        # Nothing is sent after a stop that is always reached.
        for name, at in () if summary.dead else sent:
            self.uses.reads.setdefault(name, at)
            summary.read((name,), at, self.problems)
        summary.leave(path if fields is None else record_path(path))
        if fields is None:
            return summary
        task_uses, self.uses = self.uses, outer
        outer.add(task_uses)
        touched = {**task_uses.writes, **task_uses.atomic}
        self.carried = {
            name: spec_position for name, spec_position in summary.needs.items() if name in touched
        }
        whole = Summary()
        paths = [{}, *self._passes(summary, summary.needs.items())]
        self._join(summary, [*paths, *filter(None, [summary.stops.pop(path, None)])], whole)
        return whole

    def setups(self, setups: Sequence[SetupNets], part: Literal["init", "exit"]) -> Summary:
        """Summarise which names the init or exit steps of set-ups need, assign and delete."""
        summary = Summary()
        for setup in setups if part == "init" else reversed(setups):
            steps = setup.init if part == "init" else setup.exit
            if part == "exit":
                # Bound by the runtime before the exit runs.
                summary.end.setdefault(FAILED, Status.SET)
            summary.then(self.block(steps, f"{setup.name}.{part}"), self.problems)
        if part == "exit":
            summary.end.pop(FAILED, None)
        return summary

    def _steps(self, steps: tuple[Step, ...], into: Summary) -> None:
        for step in steps:
            if into.dead:
                self.problems.append(
                    FlowProblem("unreachable", "", SpecPosition(step.path, step.origin))
                )
                return
            self._step(step, into)

    def _step(self, step: Step, into: Summary) -> None:
        if isinstance(step, Net):
            find, touch = ACCESS_FINDER.of_op, self._touch
            for op in step.ops:
                touch(find(op), SpecPosition(op.path, op.origin), into)
            return
        spec_position = SpecPosition(step.path, step.origin)
        match step:
            case UseNet(steps=steps):
                self._steps(steps, into)
            case Loop() | While():
                self._loop(step, spec_position, into)
            case If():
                self._if(step, spec_position, into)
            case Guard():
                into.then(self.block(step.steps, step.path), self.problems)
                self._touch(ACCESS_FINDER.of_step(step), spec_position, into)
            case Parallel():
                self._parallel(step, into)
            case Stop():
                self._touch(ACCESS_FINDER.of_step(step), spec_position, into)
                into.stop(step.target, into.end)
                into.dead = step.condition is None
            case Effect():
                self._touch(ACCESS_FINDER.of_step(step), spec_position, into)
            case _:
                assert_never(step)

    def _touch(self, access: Access, spec_position: SpecPosition, into: Summary) -> None:
        self.uses.note(access, spec_position)
        if access.reads:
            into.read(access.reads, spec_position, self.problems)
        if access.atomic:
            into.read(access.atomic, spec_position, self.problems)
        end = into.end
        for name in access.binds:
            end[name] = Status.SET
        for name in access.deletes:
            end[name] = Status.GONE

    def _loop(self, step: Loop | While, spec_position: SpecPosition, into: Summary) -> None:
        head = ACCESS_FINDER.of_step(step)
        self._touch(head, spec_position, into)
        body = Summary()
        self._steps(step.steps, body)
        again = (*body.needs.items(), *((name, spec_position) for name in head.reads))
        pass_states = self._passes(body, again)
        paths = [] if _is_endless(step) else pass_states
        if not _passes(step):
            paths.append({})
        stop_state = body.stops.pop(step.path, None)
        if stop_state is not None:
            paths.append(stop_state)
        if _is_endless(step) and stop_state is None and not body.stops and not body.dead:
            self.problems.append(FlowProblem("endless", "", spec_position))
        self._join(body, paths, into)

    def _passes(self, body: Summary, again: Iterable[tuple[str, SpecPosition]]) -> list[_State]:
        """Return what a loop's pass assigns; add a problem if the next reads a deleted name."""
        if body.dead:
            return []
        for name, where in again:
            if body.end.get(name) in (Status.GONE, Status.MAYBE):
                self.problems.append(FlowProblem("deleted", name, where))
        # A stop may come in a later iteration, after an earlier one has deleted something.
        gone = {name: Status.MAYBE for name, status in body.end.items() if status is not Status.SET}
        for state in body.stops.values():
            state.update({name: status for name, status in gone.items() if name not in state})
        return [body.end]

    def _if(self, step: If, spec_position: SpecPosition, into: Summary) -> None:
        self._touch(ACCESS_FINDER.of_step(step), spec_position, into)
        paths: list[_State] = []
        for branch in (*(then for _, then in step.branches), step.otherwise):
            summary = Summary()
            self._steps(branch, summary)
            self._join(summary, [], into, sets_end=False)
            if not summary.dead:
                paths.append(summary.end)
        self._end(paths, into)

    def _parallel(self, step: Parallel, into: Summary) -> None:
        summaries: list[Summary] = []
        all_uses: list[NameUses] = []
        outer = self.uses
        for index, branch in enumerate(step.branches):
            self.uses = NameUses()
            summaries.append(self.block(branch, f"{step.path}[{index}]"))
            all_uses.append(self.uses)
        self.uses = outer
        for summary in summaries:
            self._join(summary, [], into, sets_end=False)
        for summary in summaries:
            into.end.update(summary.end)
            into.dead = into.dead or summary.dead
        self.problems += _find_races(all_uses)
        for uses in all_uses:
            outer.add(uses)

    def _join(
        self, body: Summary, paths: list[_State], into: Summary, *, sets_end: bool = True
    ) -> None:
        """Merge an inner block's summary of assignments into the outer block's."""
        for name, where in body.needs.items():
            into.read((name,), where, self.problems)
        into.take_stops(body)
        if sets_end:
            self._end(paths, into)

    @staticmethod
    def _end(paths: list[_State], into: Summary) -> None:
        if not paths:
            into.dead = True
            return
        met = paths[0]
        for path_state in paths[1:]:
            met = meet(met, path_state)
        into.end.update(met)


def _find_races(branches: list[NameUses]) -> list[FlowProblem]:
    """Analyse assignments in ``parallel``: find names of one branch that another uses."""
    writers: dict[str, tuple[int, SpecPosition]] = {}
    counters: dict[str, tuple[int, SpecPosition]] = {}
    for index, uses in enumerate(branches):
        for name, where in uses.writes.items():
            writers.setdefault(name, (index, where))
        for name, where in uses.atomic.items():
            counters.setdefault(name, (index, where))
    problems: dict[str, FlowProblem] = {}
    for index, uses in enumerate(branches):
        for touches, others in (
            (uses.writes, writers),
            (uses.atomic, writers),
            (uses.reads, writers),
            (uses.reads, counters),
            (uses.writes, counters),
        ):
            for name, where in touches.items():
                index_of_other, other = others.get(name, (index, where))
                if index_of_other != index:
                    problems.setdefault(name, FlowProblem("race", name, other, where))
    return list(problems.values())


def _is_endless(step: Loop | While) -> bool:
    """Return whether a loop ends only by ``stop``: only assignments before it are definite."""
    if isinstance(step, Loop):
        return step.count is None
    return isinstance(step.condition, Const) and step.condition.value is True


def _passes(step: Loop | While) -> bool:
    """Return whether a loop runs at least once, so that it definitely assigns its names."""
    if _is_endless(step):
        return True
    if isinstance(step, Loop) and isinstance(step.count, Const):
        count = step.count.value
        # A faulty count is None; assume that the loop runs.
        return count is None or (isinstance(count, int) and count > 0)
    return False


_Flow = tuple[Summary, NameUses]
# For each use: the index of its name, and the index of its step.
_Numbers = tuple[tuple[int, int], ...]


class FlowShape(Struct):
    """The flow of the drafts of all tasks with steps that differ in names only.

    Attributes:
        make: Makes it from the names in the steps, and the position of each step; None if there has
            been no task yet, or if its flow has more than names and positions.
        is_tried: There has been one.
    """

    make: Callable[[Sequence[str], Sequence[SpecPosition]], _Flow] | None = None
    is_tried: bool = False


class RepeatedFlow(Struct, frozen=True):
    """The names and positions of the steps in a task's draft, from which its flow follows.

    Attributes:
        shape: What is known of the flow of other tasks with such steps.
        names: The words of the steps, in their order; a name may occur several times.
        positions: Those of the steps.
    """

    shape: FlowShape
    names: Sequence[str]
    positions: Sequence[SpecPosition]

    def find(self) -> _Flow | None:
        """Copy an equal task's definite-assignment analysis with new names; None without one."""
        make = self.shape.make
        return make(self.names, self.positions) if make is not None else None

    def learn(self, total: Summary, uses: NameUses) -> None:
        """Store a task's definite-assignment analysis, for tasks with other names."""
        if not self.shape.is_tried:
            self.shape.is_tried = True
            if not (total.stops or total.dead or uses.outputs):
                self.shape.make = _learn(total, uses, self.names, self.positions)


def _learn(
    total: Summary, uses: NameUses, names: Sequence[str], positions: Sequence[SpecPosition]
) -> Callable[[Sequence[str], Sequence[SpecPosition]], _Flow] | None:
    """Build the function that copies a definite-assignment analysis, with other names."""
    numbers = {name: names.index(name) for name in names}
    steps = {spec_position: number for number, spec_position in enumerate(positions)}
    kinds = (uses.reads, uses.writes, uses.atomic, uses.deletes, uses.called, uses.lent, uses.firm)
    if not numbers.keys() >= {*total.needs, *total.end}.union(*kinds):
        return None
    if not steps.keys() >= {*total.needs.values()}.union(*(kind.values() for kind in kinds)):
        return None

    def numbered(table: Mapping[str, SpecPosition]) -> _Numbers:
        return tuple((numbers[name], steps[spec_position]) for name, spec_position in table.items())

    needs, end_statuses = (
        numbered(total.needs),
        [(numbers[name], status) for name, status in total.end.items()],
    )
    reads, writes, atomic, deletes, called, lent, firm = map(numbered, kinds)
    functions, is_firm = uses.functions, firm == writes

    def make(names: Sequence[str], positions: Sequence[SpecPosition]) -> _Flow:
        def at_positions(pairs: _Numbers) -> dict[str, SpecPosition]:
            return {names[number]: positions[step] for number, step in pairs} if pairs else {}

        written = at_positions(writes)
        return Summary(
            at_positions(needs), {names[number]: status for number, status in end_statuses}
        ), NameUses(
            at_positions(reads),
            written,
            at_positions(atomic),
            at_positions(deletes),
            {},
            at_positions(called),
            at_positions(lent),
            written.copy() if is_firm else at_positions(firm),
            functions.copy(),
        )

    return make
