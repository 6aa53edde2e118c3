"""Lower the tasks and reports of a spec to drafts, which are not yet put on nodes."""

from __future__ import annotations

from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.draft import TaskDraft
from jobrun.compile.job_draft.records import NO_RECORDS, Records
from jobrun.compile.lowering.context import Context, Env
from jobrun.compile.lowering.readers import ReaderTable
from jobrun.compile.lowering.steps_and_nets import StepLowering
from jobrun.graph.expressions import ATTRIBUTES, Expr, Name
from jobrun.graph.readers import record_path
from jobrun.graph.types import GroupName, Output, Report, Retry, SetupNets
from jobrun.spec.models.job import TaskSpec
from jobrun.spec.models.steps import ReportSpec
from jobrun.spec.yaml.source_map import Path, SourceMap


class TaskLowering:
    """Lowers the tasks and reports of a spec."""

    def __init__(self, context: Context, steps: StepLowering, readers: ReaderTable) -> None:
        self._context = context
        self._steps = steps
        self._nodes = context.nodes
        self._readers = readers

    def draft(
        self, spec: TaskSpec, at: Path, group: GroupName, position: int, *, is_global: bool
    ) -> TaskDraft:
        """Lower one task of a group to a draft; ``position`` is its number in the group."""
        path = f"{group}/{spec.task}"
        place = self._context.place(path, *at)
        self._check(spec, at, place, group)
        nodes = self._nodes.find(spec.node)
        if not nodes:
            node_place = self._context.place(path, *at, "node")
            self._nodes.note_unknown(spec.node, node_place, self._context.faults)
        used: dict[str, None] = {}
        records = self._records(spec, at, path, group)
        blocks: tuple[tuple[str, str], ...] = (("task", path),)
        if records.is_loop:
            blocks = (*blocks, ("", record_path(path)))
        body = Env(blocks, used=used)
        steps = self._steps.steps(spec.steps, (*at, "steps"), f"{path}/steps", body)
        reports = tuple(
            [
                self.report(report, (*at, "report", i), f"{path}/report[{i}]", used)
                for i, report in enumerate(spec.report)
            ]
        )
        setups = self._setups(spec, at, path, used)
        return TaskDraft(
            name=spec.task,
            place=place,
            find_needs=lambda: Place(path, self._context.source.key((*at, "needs"))),
            group=group,
            position=position,
            nodes=nodes,
            is_global=is_global,
            steps=steps,
            needs=spec.needs,
            instances=spec.instances,
            hogwild=spec.hogwild,
            rebuild=spec.rebuild,
            on_error=spec.on_error,
            timeout_s=spec.timeout or 0.0,
            retry=lower_retry(spec),
            setup=setups["task"],
            instance_setup=setups["instance"],
            node_setup=setups["node"],
            reports=reports,
            outputs=self._outputs(spec, at, path),
            records=records,
        )

    def _records(self, spec: TaskSpec, at: Path, path: str, group: GroupName) -> Records:
        context, queues = self._context, self._context.queues
        if spec.read is None and not spec.write:
            return NO_RECORDS
        write, places = queues.lower_writes(spec, at, path, context.source, context.faults)
        sent = queues.find_sent_places(spec, at, path, context.source)
        if spec.read is None:
            return Records(write=write, write_at=places, sent_at=sent)
        place = context.place(f"{path}/read", *at, "read")
        queues.check_read(spec.read, place, context.faults)
        read = self._readers.read(spec.read) or queues.read(spec.read, group)
        return Records(read, place, write, places, sent, is_loop=True)

    def report(self, spec: ReportSpec, at: Path, path: str, used: dict[str, None]) -> Report:
        """Lower a ``report`` of a spec, as tasks are lowered: steps that run at an interval."""
        if spec.every <= 0:
            place = self._context.place(path, *at, "every")
            self._context.faults.error(
                "E163",
                "a report's interval must be longer than 0",
                "use a duration such as 1s",
                place,
            )
        env = Env((("", path),), used=used)
        steps = self._steps.steps(spec.steps, (*at, "steps"), f"{path}.steps", env)
        return Report(spec.every, steps, path)

    def _setups(
        self, spec: TaskSpec, at: Path, path: str, used: dict[str, None]
    ) -> dict[str, tuple[SetupNets, ...]]:
        """Lower the ``setup`` of a task, level by level, and add that of the nets it uses."""
        if not spec.setup and not used:
            return {"node": (), "task": (), "instance": ()}
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
                "E164",
                f"'rebuild' is only for tasks of init, but this one is in '{group}'",
                "remove it, or move the task to init",
                where,
            )
        for index, report in enumerate(spec.report):
            if report.node is not None:
                where = Place(place.path, self._context.source.key((*at, "report", index, "node")))
                self._context.faults.error(
                    "E165",
                    "the report of a task runs on its node, and takes no 'node'",
                    "remove it, or make it a report of the group",
                    where,
                )

    def _outputs(self, spec: TaskSpec, at: Path, path: str) -> tuple[Output, ...]:
        if not spec.outputs:
            return ()
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
            message = f"'{task}.{name}' would mean the {name} of a blob '{task}'"
            self._context.faults.error("E191", message, f"write for example {{{name}_: …}}", place)
        if is_taken:
            message = f"duplicate output '{name}'"
            self._context.faults.error("E166", message, "rename it", place)


def check_task_settings(
    task: TaskSpec, at: Path, path: str, source: SourceMap, faults: Faults
) -> None:
    """Check settings of a task before it is lowered: its time limit, and its retry."""
    if task.timeout is not None and task.timeout <= 0:
        faults.error(
            "E123",
            "a time limit must be longer than 0",
            "use a duration such as 30m, or remove it",
            Place(path, source.at((*at, "timeout"))),
        )
    if task.retry is not None and task.on_error == "warn":
        faults.error(
            "E124",
            "'retry' has no effect with 'on_error: warn', which never fails the group",
            "remove one of the two",
            Place(path, source.key((*at, "retry"))),
        )


def lower_retry(task: TaskSpec) -> Retry | None:
    """Lower ``retry`` of a task in the spec; zero retries are none."""
    if task.retry is None or task.retry.max == 0:
        return None
    return Retry(task.retry.max, task.retry.backoff)
