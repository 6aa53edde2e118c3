"""From a job built by hand to a checked one: what the compiler derives, derived from the graph.

Takes plain constructors' values; nothing about them is registered anywhere. The same job gives
an equal one, any number of times, and a completed job stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from jobrun.compile.analysis import Analysis, in_order, names_of
from jobrun.compile.collecting import check_collecting, with_manifests
from jobrun.compile.context import Context
from jobrun.compile.faults import Faults, Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.job import Compiled
from jobrun.compile.layout import check_layouts, check_types
from jobrun.compile.nodes import NodeNames
from jobrun.compile.order import check_needs
from jobrun.compile.pipelines import check_pipelines
from jobrun.compile.places import Placing
from jobrun.compile.policy import check_metric
from jobrun.compile.positions import (
    check_orders,
    keeping_nodes,
    with_first_positions,
    with_positions,
    without_first_positions,
)
from jobrun.compile.probes import Probes, Readable
from jobrun.compile.queues import vet_queues
from jobrun.compile.reading import Reading
from jobrun.compile.records import records_of
from jobrun.compile.remote import check_local
from jobrun.compile.settings import vet_settings
from jobrun.compile.state import Left
from jobrun.compile.state_dirs import (
    StateDirs,
    check_state_dirs,
    state_dirs_of,
    with_empty_state_dirs,
    with_state_dirs,
    without_empty_state_dirs,
)
from jobrun.compile.tasks import Draft
from jobrun.compile.upload import resolved_upload
from jobrun.compile.vetting import vet_name, vet_report, vet_steps, vet_stop, vet_task
from jobrun.graph.conditions import (
    CheckpointPolicy,
    Probe,
    StopCondition,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.expr import OutputRead
from jobrun.graph.rewrite import rewritten
from jobrun.graph.steps import NOWHERE
from jobrun.graph.types import (
    GROUPS,
    Cluster,
    GroupName,
    Job,
    NodeReport,
    NodeSetup,
    Task,
    TaskGroup,
)
from jobrun.spec.models import TaskSpec
from jobrun.spec.nodes import Mapping as Tree
from jobrun.spec.source import SourceMap

_SOURCE = SourceMap(Tree({}, {}, (NOWHERE.file, 0, 0, 1, 0)))


def complete(job: Job) -> Compiled:
    """Check a job that was built by hand, and fill in everything that can be derived.

    Filled in are the paths of tasks and steps, the workspace of every name, the node of every
    blob and output that is read, state and constants, the nodes to checkpoint, and whether the
    job is exact. The groups init and download are global, as in a spec that says nothing else.

    Raises:
        SpecError: The job is not sound; with all faults.
    """
    return _Completion(job).run()


class _Completion:
    """One completion. Every stage notes its faults and goes on; the last one raises them."""

    def __init__(self, job: Job) -> None:
        self._faults = Faults()
        job = self._job = replace(
            job,
            cluster=_with_families(job.cluster),
            init=without_empty_state_dirs(without_first_positions(job.init)),
        )
        self._params = dict(job.params)
        self._nodes = NodeNames(job.cluster)
        placing = Placing(self._faults)
        groups = dict(zip(GROUPS, job.groups, strict=True))
        self._groups = {
            name: _placed(group, name, job.cluster, placing) for name, group in groups.items()
        }
        self._vet()
        self._drafts = {name: self._draft(group, name) for name, group in self._groups.items()}
        self._order()
        self._analysis = Analysis(self._drafts, self._params, self._faults)

    def run(self) -> Compiled:
        """Check, and put together what was derived."""
        analysis = self._analysis
        queues = vet_queues(self._groups.values(), self._faults)
        check_pipelines(self._drafts, queues, _SOURCE, self._faults)
        # Faults of names and needs would have others follow from them.
        self._faults.raise_if_any()
        analysis.check_tasks()
        folders = state_dirs_of(self._drafts)
        left = analysis.left_by_init({node: frozenset(one) for node, one in folders.items()})
        policy = self._policy(folders)
        kept = with_positions(analysis.kept(left, policy), self._drafts)
        kept = with_state_dirs(kept, folders)
        analysis.check_later(kept)
        check_state_dirs(folders, policy, NOWHERE, self._faults)
        check_orders(self._drafts, self._faults)
        check_layouts(self._job.layouts, kept, self._faults)
        probed = self._probed(kept)
        self._faults.raise_if_any()
        job = replace(
            self._job,
            init=with_empty_state_dirs(
                with_first_positions(self._assembled("init"), self._drafts), folders
            ),
            epoch=self._assembled("epoch"),
            download=self._assembled("download"),
            exit=self._assembled("exit"),
            **probed,
            state=in_order(self._job.cluster, {node: one.state for node, one in kept.items()}),
            constants=in_order(
                self._job.cluster, {node: one.constants for node, one in kept.items()}
            ),
            checkpoint=policy,
            exactness=analysis.exactness(),
            queues=queues,
        )
        # What needs a data file's header is found in preflight.
        check_types(job, self._faults)
        self._faults.raise_if_any()
        return Compiled(job, self._faults.warnings())

    def _vet(self) -> None:
        faults = self._faults
        vet_name(self._job.name, "job", Place("name", NOWHERE), faults)
        seen: set[str] = set()
        for node in self._job.cluster:
            place = Place(f"nodes.{node.name}", node.origin)
            vet_name(node.name, "node", place, faults)
            if node.name in seen:
                faults.error("E197", f"there are two nodes '{node.name}'",
                             "give each node a name of its own", place)  # fmt: skip
            seen.add(node.name)
        if not self._groups["epoch"].tasks:
            faults.error("E139", "'epoch' has no task, so there is nothing to repeat",
                         "put the work of one epoch there", Place("epoch", NOWHERE))  # fmt: skip
        for group in self._groups.values():
            for task in group.tasks:
                place = Place(task.path, task.origin)
                vet_name(task.name, "task", place, faults)
                vet_task(task, self._params, faults)
                vet_settings(task, faults)
                if task.node not in self._nodes:
                    self._nodes.not_found(task.node, place, faults)
            self._vet_around(group)
        self._vet_task_names()

    def _vet_around(self, group: TaskGroup) -> None:
        nodes = {task.node for task in group.tasks}
        parts: tuple[NodeSetup | NodeReport, ...] = (*group.setup, *group.reports)
        for net in group.remote:
            if net.node not in self._nodes:
                self._nodes.not_found(net.node, Place(net.path, net.origin), self._faults)
            check_local(net, self._faults)
            vet_steps(net.steps, self._params, self._faults)
        for one in parts:
            if isinstance(one, NodeReport):
                vet_report(one.report, Place(one.report.path, NOWHERE), self._params, self._faults)
            else:
                vet_steps((*one.nets.init, *one.nets.exit), self._params, self._faults)
            if one.node not in nodes:
                path = one.report.path if isinstance(one, NodeReport) else one.nets.name
                message = f"this never runs: no task of '{group.name}' is on node '{one.node}'"
                self._faults.error("E169", message, "name a node of the group's tasks",
                                   Place(path, NOWHERE))  # fmt: skip

    def _vet_task_names(self) -> None:
        taken: dict[str, tuple[str, Task]] = {}
        for name, group in self._groups.items():
            nodes: set[str] = set()
            for task in group.tasks:
                place = Place(task.path, task.origin)
                other_group, other = taken.setdefault(task.name.casefold(), (name, task))
                if other_group != name or other.name != task.name or task.full_name in nodes:
                    where = f"in '{other_group}'" if other_group != name else "on this node"
                    self._faults.error(
                        "E174", f"'{task.name}' is a task already, {where} as '{other.name}'",
                        "give each task of the job a name of its own", place,
                    )  # fmt: skip
                elif _alike(task, other.node) != _alike(other, other.node):
                    message = f"task '{task.name}' on '{task.node}' is not that on '{other.node}'"
                    mend = "tasks that differ need names of their own"
                    self._faults.error("E197", message, mend, place)
                nodes.add(task.full_name)

    def _draft(self, group: TaskGroup, name: GroupName) -> GroupDraft:
        by_name: dict[str, list[Task]] = {}
        for task in group.tasks:
            by_name.setdefault(task.name, []).append(task)
        is_global = group.workspace == "global"
        drafts = tuple(
            _as_draft(tasks, name, position, is_global=is_global)
            for position, tasks in enumerate(by_name.values())
        )
        draft = GroupDraft(name, group.workspace, drafts, remote=group.remote)
        for setup in group.setup:
            draft.setups.setdefault(setup.node, []).append(setup.nets)
        for report in group.reports:
            draft.reports.setdefault(report.node, []).append(report.report)
        return draft

    def _order(self) -> None:
        owners = {task.name: name for name, one in self._drafts.items() for task in one.tasks}
        for name, group in self._drafts.items():
            table = {
                task.name: (task.spec.needs, [task.place] * len(task.spec.needs))
                for task in group.tasks
            }
            elsewhere = {task: owner for task, owner in owners.items() if owner != name}
            group.order = check_needs(name, table, elsewhere, self._faults)
        self._check_rebuilt()

    def _check_rebuilt(self) -> None:
        rebuilt = {task.name: task.rebuild for task in self._groups["init"].tasks}
        for group in self._groups.values():
            for task in group.tasks if group.name != "init" else ():
                if task.rebuild:
                    message = f"'rebuild' is for tasks of init, and this one is in '{group.name}'"
                    self._faults.error("E164", message, "leave it out, or move the task to init",
                                       Place(task.path, task.origin))  # fmt: skip
        for task in self._groups["init"].tasks:
            for need in task.needs if task.rebuild else ():
                if rebuilt.get(need) is False:
                    message = f"'{task.name}' runs again at a resume, and '{need}' does not"
                    mend = f"give '{need}' rebuild=True too, or take the need out"
                    self._faults.error("E140", message, mend, Place(task.path, task.origin))

    def _policy(self, folders: StateDirs) -> CheckpointPolicy:
        policy = self._job.checkpoint
        for index, node in enumerate(policy.nodes):
            if node not in self._nodes:
                place = Place(f"checkpoint.nodes[{index}]", NOWHERE)
                self._nodes.not_found(node, place, self._faults)
        metric = policy.keep_best[0]
        if metric:
            place = Place("checkpoint.keep_best", NOWHERE)
            check_metric(metric, dict(self._job.metrics), self._context(), place)
        if policy.upload is not None:
            place = Place("checkpoint.upload.to", NOWHERE)
            policy = replace(policy, upload=resolved_upload(policy.upload, place, self._faults))
        place, at = (Place(f"checkpoint.{one}", NOWHERE) for one in ("node_dir", "collect_to"))
        check_collecting(policy, place, at, self._faults)
        if policy.collect_to:
            policy = with_manifests(policy, NOWHERE)
        nodes = policy.nodes or keeping_nodes(self._drafts, self._job.cluster, folders)
        return replace(policy, nodes=nodes)

    def _context(self) -> Context:
        return Context(_SOURCE, {}, self._faults, {})

    def _probed(self, kept: Mapping[str, Left]) -> dict[str, Any]:
        """All that the runner looks at, by its field of the job."""
        job, names = self._job, names_of(kept)
        during = self._probes(Readable(names, ("init", "epoch")))
        at_end = self._probes(Readable(names, GROUPS))
        metrics = [(name, during.resolved(one, f"metrics.{name}")) for name, one in job.metrics]
        if not job.stop:
            self._faults.error("E137", "the job has no 'stop', so it would never end",
                               "give for example stop=(StopAfterEpochs(10),), or (Endless(),)",
                               Place("stop", NOWHERE))  # fmt: skip
        return {
            "stop": tuple(self._stop(one, index, during) for index, one in enumerate(job.stop)),
            "metrics": tuple((name, probe) for name, probe in metrics if probe is not None),
            "fail_if": _resolved(during, "fail_if", job.fail_if),
            "expect": _resolved(at_end, "expect", job.expect),
        }

    def _stop(self, condition: StopCondition, index: int, probes: Probes) -> StopCondition:
        path = condition.path or f"stop[{index}]"
        vet_stop(condition, path, self._faults)
        if isinstance(condition, StopWhen):
            probe = probes.resolved(condition.probe, f"{path}.when")
            return replace(condition, path=path, probe=probe or condition.probe)
        if isinstance(condition, StopWithoutImprovement):
            place = Place(path, NOWHERE)
            check_metric(condition.metric, dict(self._job.metrics), self._context(), place)
        return replace(condition, path=path)

    def _probes(self, readable: Readable) -> Probes:
        context = self._context()
        return Probes(
            context, Reading(context), self._nodes, readable, self._analysis.outputs, self._drafts
        )

    def _assembled(self, name: GroupName) -> TaskGroup:
        """The group with all that was derived, its tasks in the order they were given."""
        found = self._analysis.assembled(name)
        derived = {task.full_name: task for task in found.tasks}
        bind = self._analysis.outputs.bind
        tasks = tuple(
            replace(
                bind(task, task.node),
                scopes=derived[task.full_name].scopes,
                read=derived[task.full_name].read,
            )
            for task in self._groups[name].tasks
        )
        return replace(self._groups[name], tasks=tasks, setup=found.setup, reports=found.reports)


def _with_families(nodes: Cluster) -> Cluster:
    """A node that says nothing else is the only one of its family."""
    return Cluster(tuple(replace(node, family=node.family or node.name) for node in nodes))


def _placed(group: TaskGroup, name: GroupName, nodes: Cluster, placing: Placing) -> TaskGroup:
    # Which node's output is meant is derived anew: tasks may have moved since.
    group = rewritten(group, OutputRead, lambda read: replace(read, node=""))
    props = {node.name: node.props for node in nodes}
    return replace(
        group,
        name=name,
        tasks=tuple(placing.task(task, name) for task in group.tasks),
        setup=placing.node_setups(group.setup, name),
        reports=placing.node_reports(group.reports, name),
        workspace="global" if name in ("init", "download") else group.workspace,
        remote=tuple(
            replace(net, props=props.get(net.node, net.props))
            for net in placing.remote_nets(group.remote, name)
        ),
    )


def _alike(task: Task, node: str) -> Task:
    """What tasks of one name have in common: all but the node, and what follows from it."""
    return replace(task, node=node, scopes=())


def _as_draft(tasks: list[Task], group: GroupName, position: int, *, is_global: bool) -> Draft:
    """Tasks of one name as the one task that a spec would declare for several nodes."""
    task = tasks[0]
    spec = TaskSpec.model_construct(
        task=task.name, needs=task.needs, instances=task.instances, hogwild=task.hogwild,
        rebuild=task.rebuild, on_error=task.on_error,
    )  # fmt: skip
    return Draft(
        spec=spec, at=(group, position), place=Place(task.path, task.origin), group=group,
        position=position, nodes=tuple(one.node for one in tasks), is_global=is_global,
        steps=task.steps, setup=task.setup, instance_setup=task.instance_setup,
        reports=task.reports, outputs=task.outputs, records=records_of(task),
    )  # fmt: skip


def _resolved(probes: Probes, key: str, written: Iterable[Probe]) -> tuple[Probe, ...]:
    found = [probes.resolved(one, f"{key}[{index}]") for index, one in enumerate(written)]
    return tuple(probe for probe in found if probe is not None)
