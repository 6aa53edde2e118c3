"""From a loaded spec to a checked job. Pure: no disk, no clock, no environment, no user code."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jobrun.compile.advice import give_advice
from jobrun.compile.analysis import Analysis, in_order, names_of
from jobrun.compile.context import Context
from jobrun.compile.faults import Faults, Place
from jobrun.compile.groups import GroupLowering
from jobrun.compile.layout import check_types, state_layouts
from jobrun.compile.midway import check_midway
from jobrun.compile.nets import net_table
from jobrun.compile.nodes import NodeNames, cluster
from jobrun.compile.pipelines import check_pipelines
from jobrun.compile.policy import checkpoint_policy, deadline_of, stop_conditions
from jobrun.compile.positions import (
    Finished,
    check_reading,
    keeping_nodes,
    with_first_positions,
    with_positions,
)
from jobrun.compile.probes import Probes, Readable
from jobrun.compile.queues import queue_table
from jobrun.compile.readers import reader_table
from jobrun.compile.settings import check_node_settings
from jobrun.compile.state import Left
from jobrun.compile.state_dirs import (
    StateDirs,
    check_state_dirs,
    state_dirs_of,
    with_empty_state_dirs,
    with_state_dirs,
)
from jobrun.core.errors import Fault
from jobrun.core.origin import Origin
from jobrun.graph.conditions import Probe
from jobrun.graph.types import Job, TaskGroup
from jobrun.spec.load import LoadedSpec


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
        self._faults = Faults(loaded.files)
        nets = net_table(loaded.spec, loaded.source, self._faults)
        queues = queue_table(loaded.spec, loaded.source, self._faults)
        self._cluster = cluster(loaded.spec, loaded.source)
        self._nodes = NodeNames(self._cluster)
        self._context = Context(
            loaded.source, loaded.params, self._faults, nets, queues, self._nodes
        )
        self._readers = reader_table(loaded.spec, self._context)
        self._lowering = GroupLowering(self._context, self._nodes, self._readers)
        self._groups = self._lowering.drafts(loaded.spec)
        self._analysis = Analysis(self._groups, loaded.params, self._faults)

    def run(self) -> Compiled:
        """All checks that need more than one task, then the graph."""
        check_node_settings(self._spec, self._loaded.source, self._faults)
        queues = tuple(self._context.queues.queues.values())
        check_pipelines(self._groups, queues, self._loaded.source, self._faults)
        analysis = self._analysis
        analysis.check_tasks()
        folders = state_dirs_of(self._groups)
        left = analysis.left_by_init({node: frozenset(one) for node, one in folders.items()})
        policy = checkpoint_policy(
            self._spec, self._context, self._nodes,
            keeping_nodes(self._groups, self._cluster, folders),
        )  # fmt: skip
        kept = with_positions(analysis.kept(left, policy), self._groups)
        kept = with_state_dirs(kept, folders)
        analysis.check_later(kept)
        check_reading(self._spec, self._context, self._groups, policy)
        check_state_dirs(folders, policy, self._at("checkpoint", "nodes"), self._faults)
        give_advice(self._context, self._spec, self._groups, kept, policy)
        layouts = state_layouts(self._spec, self._loaded.source, kept, self._faults)
        probed = self._probed(kept)
        deadline = deadline_of(self._spec, self._context)
        self._faults.raise_if_any()
        job = Job(
            name=self._spec.name, cluster=self._cluster,
            init=self._init(folders),
            epoch=analysis.assembled("epoch"),
            download=analysis.assembled("download"), exit=analysis.assembled("exit"),
            seed=self._spec.seed, description=self._spec.description,
            state=in_order(self._cluster, {node: one.state for node, one in kept.items()}),
            constants=in_order(self._cluster, {node: one.constants for node, one in kept.items()}),
            checkpoint=policy, exactness=analysis.exactness(),
            blas_threads=self._spec.blas_threads, params=tuple(self._loaded.params.items()),
            folder=self._loaded.folder, **probed,
            deadline=deadline, queues=queues, layouts=layouts,
        )  # fmt: skip
        every = Place("checkpoint.every", self._at("checkpoint", "every"))
        check_midway(job, every, self._faults)
        # What needs a data file's header is found in preflight.
        check_types(job, self._faults)
        self._faults.raise_if_any()
        return Compiled(job, self._faults.warnings())

    def _at(self, *path: str) -> Origin:
        return self._loaded.source.key(path)

    def _init(self, folders: StateDirs) -> TaskGroup:
        """Init, with what the runner makes before it."""
        init = with_first_positions(self._analysis.assembled("init"), self._groups)
        return with_empty_state_dirs(init, folders)

    def _probed(self, kept: Mapping[str, Left]) -> dict[str, Any]:
        """All that the runner looks at, by its field of the job."""
        names = names_of(kept)
        during = self._probes(Readable(names, ("init", "epoch")))
        at_end = self._probes(Readable(names, ("init", "epoch", "download", "exit")))
        metrics = [
            (name, during.probe(written, ("metrics", name), is_condition=False))
            for name, written in self._spec.metrics.items()
        ]
        return {
            "stop": stop_conditions(
                self._spec, self._context, during, Finished(self._context, self._groups)
            ),
            "metrics": tuple((name, probe) for name, probe in metrics if probe is not None),
            "fail_if": _conditions(during, "fail_if", self._spec.fail_if),
            "expect": _conditions(at_end, "expect", self._spec.expect),
        }

    def _probes(self, readable: Readable) -> Probes:
        return Probes(
            self._context, self._lowering.steps.read, self._nodes, readable, self._analysis.outputs,
            self._groups,
        )  # fmt: skip


def _conditions(probes: Probes, key: str, written: tuple[Any, ...]) -> tuple[Probe, ...]:
    found = [probes.probe(one, (key, i), is_condition=True) for i, one in enumerate(written)]
    return tuple(probe for probe in found if probe is not None)
