"""From the tasks of a spec to drafts: lowered and summed up, not yet put on nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jobrun.compile.context import FINDER, Context, Env
from jobrun.compile.faults import Place
from jobrun.compile.flow import FlowFinder, Ledger, Problem, Status, Summary
from jobrun.compile.nodes import NodeNames
from jobrun.compile.readers import ReaderTable, source_reads
from jobrun.compile.records import NO_RECORDS, Records
from jobrun.compile.settings import check_task_settings
from jobrun.compile.steps import StepLowering
from jobrun.graph.data import ReadRecords, record_path
from jobrun.graph.expr import ATTRIBUTES, Expr, Name
from jobrun.graph.steps import Step
from jobrun.graph.types import GroupName, Output, Report, SetupNets
from jobrun.spec.models import TaskSpec
from jobrun.spec.source import Path
from jobrun.spec.steps import ReportSpec

FAILED = "failed"


@dataclass(slots=True)
class TaskFlow:
    """What a task does with names, the same on every node.

    Attributes:
        total: The whole task, set-up and exit included, reports and outputs not.
        reports: What its reports need when the body starts, and where.
        outputs: What its outputs need when the task has ended.
        exit_needs: What the exit of its own set-up needs of instances.
        once: Touches of the set-up, which runs once.
        inner: Touches of the body and the set-up of instances, which run in every instance.
        reporting: Touches of reports.
        problems: What is wrong wherever the task runs.
        carried: Names that one record's steps leave to those of the next.
    """

    total: Summary
    reports: dict[str, Place]
    outputs: dict[str, Place]
    exit_needs: dict[str, Place]
    once: Ledger
    inner: Ledger
    reporting: Ledger
    problems: list[Problem]
    carried: dict[str, Place] = field(default_factory=dict)

    def made(self) -> set[str]:
        """Every name that the task writes."""
        return {*self.once.writes, *self.inner.writes, *self.reporting.writes}

    def names(self) -> set[str]:
        """Every name that the task touches."""
        return {name for ledger in self._ledgers for name in ledger.names()} | set(self.outputs)

    def lent(self) -> set[str]:
        """The names that callables may change in place."""
        return {name for ledger in self._ledgers for name in ledger.lent}

    def is_only(self, kind: Literal["called", "lent"], name: str) -> bool:
        """Whether nothing but callables writes the name: returning it, or changing it in place."""
        if any(name in ledger.firm or name in ledger.atomic for ledger in self._ledgers):
            return False
        called = any(name in ledger.called for ledger in self._ledgers)
        return called if kind == "called" else not called and name in self.lent()

    @property
    def _ledgers(self) -> tuple[Ledger, Ledger, Ledger]:
        return self.once, self.inner, self.reporting


@dataclass(slots=True, eq=False)
class Draft:
    """A task as declared, before it is put on nodes."""

    spec: TaskSpec
    at: Path
    place: Place
    group: GroupName
    position: int
    nodes: tuple[str, ...]
    is_global: bool
    steps: tuple[Step, ...]
    setup: tuple[SetupNets, ...] = ()
    instance_setup: tuple[SetupNets, ...] = ()
    node_setup: tuple[SetupNets, ...] = ()
    reports: tuple[Report, ...] = ()
    outputs: tuple[Output, ...] = ()
    used: dict[str, None] = field(default_factory=dict)
    records: Records = NO_RECORDS
    _flow: TaskFlow | None = None

    @property
    def name(self) -> str:
        """The task's name."""
        return self.spec.task

    @property
    def path(self) -> str:
        """``epoch/lloyd``."""
        return self.place.path

    @property
    def flow(self) -> TaskFlow:
        """What it does with names."""
        if self._flow is None:
            self._flow = _flow(self)
        return self._flow


class TaskLowering:
    """Lowers tasks."""

    def __init__(
        self, context: Context, steps: StepLowering, nodes: NodeNames, readers: ReaderTable
    ) -> None:
        self._context = context
        self._steps = steps
        self._nodes = nodes
        self._readers = readers

    def draft(
        self, spec: TaskSpec, at: Path, group: GroupName, position: int, *, is_global: bool
    ) -> Draft:
        """Lower one task of a group, by its position in it."""
        path = f"{group}/{spec.task}"
        place = self._context.place(path, *at)
        self._check(spec, at, place, group)
        nodes = self._nodes.find(spec.node)
        if not nodes:
            node_place = self._context.place(path, *at, "node")
            self._nodes.not_found(spec.node, node_place, self._context.faults)
        used: dict[str, None] = {}
        records = self._records(spec, at, path, group)
        blocks: tuple[tuple[str, str], ...] = (("task", path),)
        if records.is_loop:
            blocks = (*blocks, ("", record_path(path)))
        body = Env(blocks, used=used)
        steps = self._steps.steps(spec.steps, (*at, "steps"), f"{path}/steps", body)
        reports = tuple(
            self.report(report, (*at, "report", i), f"{path}/report[{i}]", used)
            for i, report in enumerate(spec.report)
        )
        setups = self._setups(spec, at, path, used)
        return Draft(
            spec=spec, at=at, place=place, group=group, position=position, nodes=nodes,
            is_global=is_global, steps=steps, setup=setups["task"],
            instance_setup=setups["instance"], node_setup=setups["node"], reports=reports,
            outputs=self._outputs(spec, at, path), used=used, records=records,
        )  # fmt: skip

    def _records(self, spec: TaskSpec, at: Path, path: str, group: GroupName) -> Records:
        context, queues = self._context, self._context.queues
        write, places = queues.written(spec, at, path, context.source, context.faults)
        sent = queues.sent_places(spec, at, path, context.source)
        if spec.read is None:
            return Records(write=write, write_at=places, sent_at=sent)
        place = context.place(f"{path}/read", *at, "read")
        queues.check_read(spec.read, place, context.faults)
        read = self._readers.read(spec.read) or queues.read(spec.read, group)
        return Records(read, place, write, places, sent, is_loop=True)

    def report(self, spec: ReportSpec, at: Path, path: str, used: dict[str, None]) -> Report:
        """Lower a report."""
        if spec.every <= 0:
            place = self._context.place(path, *at, "every")
            self._context.faults.error("E163", "a report's interval must be longer than 0",
                                       "give for example 1s", place)  # fmt: skip
        env = Env((("", path),), used=used)
        steps = self._steps.steps(spec.steps, (*at, "steps"), f"{path}.steps", env)
        return Report(spec.every, steps, path)

    def _setups(
        self, spec: TaskSpec, at: Path, path: str, used: dict[str, None]
    ) -> dict[str, tuple[SetupNets, ...]]:
        """The task's own set-up by level, and behind it what its nets bring."""
        env = Env((), used=used)
        own = {
            str(level): self._steps.setup(
                declared, (*at, "setup", level), f"{path}/setup.{level}", env
            )
            for level, declared in spec.setup.items()
        }
        # After all own set-up is lowered: that may use nets too.
        return {
            level: (*((own[level],) if level in own else ()), *self._steps.net_setups(used, level))
            for level in ("node", "task", "instance")
        }

    def _check(self, spec: TaskSpec, at: Path, place: Place, group: str) -> None:
        check_task_settings(spec, at, place.path, self._context.source, self._context.faults)
        if spec.rebuild and group != "init":
            where = Place(place.path, self._context.source.key((*at, "rebuild")))
            self._context.faults.error(
                "E164", f"'rebuild' is for tasks of init, and this one is in '{group}'",
                "leave it out, or move the task to init", where,
            )  # fmt: skip
        for index, report in enumerate(spec.report):
            if report.node is not None:
                where = Place(place.path, self._context.source.key((*at, "report", index, "node")))
                self._context.faults.error(
                    "E165", "the report of a task runs where the task runs, and takes no 'node'",
                    "leave it out, or make it a report of the group", where,
                )  # fmt: skip

    def _outputs(self, spec: TaskSpec, at: Path, path: str) -> tuple[Output, ...]:
        found: dict[str, Output] = {}
        env = Env(())
        for index, written in enumerate(spec.outputs):
            pairs = {written: written} if isinstance(written, str) else written
            where = (*at, "outputs", index)
            for name, value in pairs.items():
                self._check_output(
                    name, spec.task, name in found, self._context.place(path, *where)
                )
                expr: Expr = Name(name)
                if isinstance(written, dict):
                    expr = self._steps.read.expression(value, (*where, name), path, env)
                elif name in self._context.params:
                    expr = self._steps.read.expression(name, where, path, env)
                found[name] = Output(name, expr)
        return tuple(found.values())

    def _check_output(self, name: str, task: str, is_taken: bool, place: Place) -> None:
        if name in ATTRIBUTES:
            message = f"'{task}.{name}' would be the {name} of a blob '{task}'"
            self._context.faults.error("E191", message, f"write for example {{{name}_: …}}", place)
        if is_taken:
            message = f"there is an output '{name}' already"
            self._context.faults.error("E166", message, "give it another name", place)


def _flow(draft: Draft) -> TaskFlow:
    once, inner, reporting = FlowFinder(), FlowFinder(), FlowFinder()
    inits = _in_turn(once, draft.setup, "init")
    instance = _in_turn(inner, draft.instance_setup, "init")
    begun = _at_begin(draft, once)
    at_start = Summary()
    at_start.then(inits, [])
    at_start.then(instance, [])
    instance.then(inner.body(draft.steps, draft.path, draft.records), inner.problems)
    instance.then(_in_turn(inner, draft.instance_setup, "exit"), inner.problems)
    exits = _in_turn(once, draft.setup, "exit")
    total = Summary()
    problems: list[Problem] = []
    for part in (inits, begun, instance, exits):
        total.then(part, problems)
    exit_needs = {
        name: place for name, place in exits.needs.items()
        if name in instance.end and name not in inits.end
    }  # fmt: skip
    needs = Summary(end=dict(at_start.end))
    for report in draft.reports:
        needs.then(Summary(reporting.block(report.steps, report.path).needs), problems)
    ends = Summary(end=dict(total.end))
    for output in draft.outputs:
        access = FINDER.of_expr(output.value)
        place = Place(f"{draft.path}.{output.name}", draft.place.origin)
        once.ledger.outputs |= {(read.task, read.output): place for read in access.outputs}
        ends.read(access.reads, place, problems)
    problems = [*once.problems, *inner.problems, *reporting.problems, *problems]
    return TaskFlow(
        total, needs.needs, ends.needs, exit_needs, once.ledger, inner.ledger, reporting.ledger,
        problems, inner.carried,
    )  # fmt: skip


def _at_begin(draft: Draft, once: FlowFinder) -> Summary:
    """What the source of records looks at when its run begins, after the task's set-up."""
    summary = Summary()
    read = draft.records.read
    if isinstance(read, ReadRecords):
        access = FINDER.of_expr(*source_reads(read.reader))
        once.ledger.note(access, draft.records.read_at)
        summary.read((*access.reads, *access.atomic), draft.records.read_at, once.problems)
    return summary


def _in_turn(finder: FlowFinder, setups: tuple[SetupNets, ...], part: str) -> Summary:
    """All inits in order, or all exits in reverse."""
    summary = Summary()
    for setup in setups if part == "init" else reversed(setups):
        steps = setup.init if part == "init" else setup.exit
        if part == "exit":
            # Put there by whoever runs the exit.
            summary.end.setdefault(FAILED, Status.SET)
        summary.then(finder.block(steps, f"{setup.name}.{part}"), finder.problems)
    summary.end.pop(FAILED, None)
    return summary
