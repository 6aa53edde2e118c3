"""From a loaded spec to a checked job. Pure: no disk, no clock, no environment, no user code."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jobrun.compile.advice import give_advice
from jobrun.compile.assemble import assembled
from jobrun.compile.context import Context
from jobrun.compile.exactness import exactness
from jobrun.compile.faults import Faults
from jobrun.compile.groups import GroupLowering
from jobrun.compile.missing import Missing
from jobrun.compile.nets import net_table
from jobrun.compile.nodes import NodeNames, cluster
from jobrun.compile.outputs import OutputTable
from jobrun.compile.pending import check_pending
from jobrun.compile.policy import checkpoint_policy, stop_conditions
from jobrun.compile.probes import Probes, Readable
from jobrun.compile.races import check_races
from jobrun.compile.scopes import NodeView, node_views
from jobrun.compile.state import Left, left_by, state_of
from jobrun.compile.visible import Owned, Visibility, report_problems
from jobrun.core.errors import Fault
from jobrun.graph.types import CheckpointPolicy, Cluster, GroupName, Job, Probe, TaskGroup
from jobrun.spec.load import LoadedSpec

_Names = Mapping[str, frozenset[str]]
_Views = dict[GroupName, dict[str, NodeView]]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A job, and what is probably not meant in its spec."""

    job: Job
    warnings: tuple[Fault, ...] = ()


def compile_job(loaded: LoadedSpec) -> Compiled:
    """Check a spec as a whole and turn it into a graph.

    The same spec gives an equal job, any number of times; the work grows with the size of
    the spec and of the graph.

    Raises:
        SpecError: The spec does not compile; with all faults.
    """
    with _without_collection():
        return _Compilation(loaded).run()


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause the search for reference cycles.

    A compilation makes millions of small values and no cycles among them; searching them
    again and again takes as long as making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Compilation:
    """One compilation. Every stage notes its faults and goes on; the last one raises them."""

    def __init__(self, loaded: LoadedSpec) -> None:
        self._spec = loaded.spec
        self._loaded = loaded
        self._faults = Faults()
        nets = net_table(loaded.spec, loaded.source, self._faults)
        self._context = Context(loaded.source, loaded.params, self._faults, nets)
        self._cluster = cluster(loaded.spec, loaded.source)
        self._nodes = NodeNames(self._cluster)
        self._lowering = GroupLowering(self._context, self._nodes)
        self._groups = self._lowering.drafts(loaded.spec)
        self._outputs = OutputTable(self._groups, self._faults)
        self._missing = Missing(self._groups, loaded.params, self._faults)

    def run(self) -> Compiled:
        check_pending(self._spec, self._loaded.source, self._faults)
        self._check_tasks()
        init = self._checked_views("init", {}, {})
        left = state_of(init, self._faults)
        policy = checkpoint_policy(
            self._spec, self._context, self._nodes, self._groups["init"].nodes()
        )
        kept = self._kept(left, policy)
        views: _Views = {"init": init, **self._later_views(kept)}
        give_advice(self._context, self._spec, self._groups, kept, policy)
        probed = self._probed(kept)
        self._faults.raise_if_any()
        job = Job(
            name=self._spec.name, cluster=self._cluster,
            init=self._assembled("init", views), epoch=self._assembled("epoch", views),
            download=self._assembled("download", views), exit=self._assembled("exit", views),
            seed=self._spec.seed, description=self._spec.description,
            state=_in_order(self._cluster, {node: one.state for node, one in kept.items()}),
            constants=_in_order(self._cluster, {node: one.constants for node, one in kept.items()}),
            checkpoint=policy, exactness=exactness(self._groups, views),
            blas_threads=self._spec.blas_threads, params=tuple(self._loaded.params.items()),
            folder=self._loaded.folder, **probed,
        )  # fmt: skip
        return Compiled(job, self._faults.warnings())

    def _assembled(self, name: GroupName, views: _Views) -> TaskGroup:
        return assembled(self._groups[name], views[name], self._outputs)

    def _check_tasks(self) -> None:
        for group in self._groups.values():
            for task in group.tasks:
                report_problems(task.flow.problems, self._faults, hogwild=task.spec.hogwild)
                if self._outputs.reads_outputs(task):
                    self._outputs.check_reads(task, task.nodes)

    def _checked_views(
        self, name: GroupName, start: _Names, owned: Mapping[str, Owned]
    ) -> dict[str, NodeView]:
        views = node_views(self._groups[name], start)
        for node, view in views.items():
            Visibility(view, owned.get(node, Owned()), self._faults, self._missing).check()
            check_races(view, self._missing.unordered, self._faults)
        return views

    def _kept(self, left: Mapping[str, Left], policy: CheckpointPolicy) -> dict[str, Left]:
        """What is there at each epoch boundary: state only where it is checkpointed."""
        kept = {}
        saved = set(policy.nodes)
        for node, one in left.items():
            if node in saved:
                kept[node] = one
            else:
                kept[node] = Left((), one.constants)
                self._missing.dropped[node] = frozenset(one.state)
        return kept

    def _later_views(self, kept: Mapping[str, Left]) -> _Views:
        names = {node: frozenset((*one.state, *one.constants)) for node, one in kept.items()}
        owned = {
            node: Owned(frozenset(one.state), frozenset(one.constants))
            for node, one in kept.items()
        }
        epoch = self._checked_views("epoch", names, owned)
        download = self._checked_views("download", names, owned)
        after = dict(names)
        for node, view in download.items():
            after[node] = names.get(node, frozenset()) | left_by(view)
        return {
            "epoch": epoch,
            "download": download,
            "exit": self._checked_views("exit", after, owned),
        }

    def _probed(self, kept: Mapping[str, Left]) -> dict[str, Any]:
        """All that the runner looks at, by its field of the job."""
        names = {node: frozenset((*one.state, *one.constants)) for node, one in kept.items()}
        during = self._probes(Readable(names, ("init", "epoch")))
        at_end = self._probes(Readable(names, ("init", "epoch", "download", "exit")))
        metrics = [
            (name, during.probe(written, ("metrics", name), is_condition=False))
            for name, written in self._spec.metrics.items()
        ]
        return {
            "stop": stop_conditions(self._spec, self._context, during),
            "metrics": tuple((name, probe) for name, probe in metrics if probe is not None),
            "fail_if": _conditions(during, "fail_if", self._spec.fail_if),
            "expect": _conditions(at_end, "expect", self._spec.expect),
        }

    def _probes(self, readable: Readable) -> Probes:
        return Probes(
            self._context, self._lowering.steps.read, self._nodes, readable, self._outputs,
            self._groups,
        )  # fmt: skip


def _conditions(probes: Probes, key: str, written: tuple[Any, ...]) -> tuple[Probe, ...]:
    found = [probes.probe(one, (key, i), is_condition=True) for i, one in enumerate(written)]
    return tuple(probe for probe in found if probe is not None)


def _in_order(
    nodes: Cluster, names: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((node.name, names[node.name]) for node in nodes if names.get(node.name))
