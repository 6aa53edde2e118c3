"""Compile a spec, or complete a job built in Python: the whole pipeline on one page.

Parse (``spec.load``), lower to a draft, analyse it, check it, give nodes to its conditions,
assemble the graph, infer types. Nothing here touches a disk, a clock, the environment or user
code.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from jobrun.compile.analyse_groups import (
    Views,
    assemble_groups,
    check_group,
    check_groups_after_init,
    check_tasks,
)
from jobrun.compile.analysis.conditions_and_metrics import (
    Conditions,
    check_conditions_change,
    check_readers_end,
    resolve_conditions,
    warn_of_idle_epochs,
)
from jobrun.compile.analysis.missing_blobs import MissingBlobs
from jobrun.compile.analysis.outputs import OutputTable
from jobrun.compile.analysis.queues import check_queues
from jobrun.compile.analysis.reader_positions import (
    add_position_setup,
    add_positions,
    check_reader_order,
    check_saved_positions,
)
from jobrun.compile.analysis.state import (
    KeptNames,
    StateDirs,
    add_state,
    add_state_dir_setup,
    check_layouts,
    check_state_dirs,
    check_types,
    find_state,
    find_state_dirs,
    find_state_nodes,
    names_of,
    select_saved,
    sort_by_node,
)
from jobrun.compile.checks.exactness import find_inexactness
from jobrun.compile.checks.mid_epoch_saves import check_mid_epoch_saves
from jobrun.compile.checks.warnings import warn_of_mistakes, warn_of_replaced_files
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.tasks_and_groups import JobDraft
from jobrun.compile.lowering.job import lower_spec
from jobrun.compile.types.job_types import Types
from jobrun.core.errors import Fault
from jobrun.core.interpreter import collector_paused
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.types import Job
from jobrun.spec.load import LoadedSpec


class Compiled(Struct, frozen=True):
    """A compiled job, the types of its blobs without data files, and the warnings about it."""

    job: Job
    types: Types
    warnings: tuple[Fault, ...] = ()


def compile_job(loaded: LoadedSpec) -> Compiled:
    """Compile a spec to a checked ``Job``: the pipeline lowers, analyses and checks it.

    The same spec gives an equal job, any number of times; the work grows with the size of
    the spec and of the graph.

    Raises:
        SpecError: The spec does not compile; with all faults.
    """
    faults = Faults(loaded.files)
    with collector_paused():
        return _compile(lower_spec(loaded, faults), faults)


def complete(job: Job) -> Compiled:
    """Run the compile pipeline on a ``Job`` built in Python; return the checked job.

    Filled in are the paths of tasks and steps, the workspace of every name, the node of every
    blob and output that is read, state and constants, the nodes to checkpoint, and whether the
    job is exact. The groups init and download are global, as in a spec that says nothing else.
    The same job gives an equal one, any number of times, and a completed job stays as it is.

    Raises:
        SpecError: The job is not sound; with all faults.
    """
    faults = Faults()
    # Not needed for jobs from specs.
    from jobrun.compile.python_jobs import lower_job, restore_task_order  # noqa: PLC0415

    compiled = _compile(lower_job(job, faults), faults)
    return replace(compiled, job=restore_task_order(compiled.job, job))


def _compile(draft: JobDraft, faults: Faults) -> Compiled:
    """Run the pipeline's stages on the draft of a job; raise their faults together."""
    analysed = _analyse(draft, faults)
    _check(draft, analysed, faults)
    conditions = _resolve_conditions(draft, analysed, faults)
    faults.raise_if_any()
    job = _assemble(draft, analysed, conditions)
    check_mid_epoch_saves(job, SpecPosition("checkpoint.every", draft.every_at), faults)
    # Types that need the header of a data file are checked in preflight.
    types = check_types(job, faults)
    faults.raise_if_any()
    return Compiled(job, types, faults.warnings())


class _Analysed(Struct, frozen=True):
    """The results of the analysis stage.

    Attributes:
        outputs: All outputs of the job's tasks.
        views: Each group on its nodes.
        names_by_node: Per node, the names that exist at each epoch boundary.
        policy: The checkpoint policy, with its nodes.
    """

    outputs: OutputTable
    views: Views
    names_by_node: Mapping[str, KeptNames]
    state_dirs: StateDirs
    policy: CheckpointPolicy


def _analyse(draft: JobDraft, faults: Faults) -> _Analysed:
    """Run the compile pipeline's analysis: of groups, state, and nodes to checkpoint."""
    groups = draft.groups
    outputs = OutputTable(groups, faults)
    check_tasks(groups, outputs, faults)
    missing = MissingBlobs(groups, draft.params, faults)
    state_dirs = find_state_dirs(groups)
    before_init = {node: frozenset(blobs) for node, blobs in state_dirs.items()}
    init = check_group(groups["init"], before_init, {}, missing, faults)
    nodes = draft.saved_nodes
    if nodes is None:
        nodes = find_state_nodes(groups, draft.job.cluster, state_dirs)
    policy = replace(draft.job.checkpoint, nodes=nodes)
    names_by_node = add_positions(select_saved(find_state(init, faults), policy), groups)
    names_by_node = add_state(names_by_node, state_dirs)
    views = check_groups_after_init(groups, names_by_node, missing, faults)
    return _Analysed(outputs, {"init": init, **views}, names_by_node, state_dirs, policy)


def _check(draft: JobDraft, analysed: _Analysed, faults: Faults) -> None:
    """Run the compile pipeline's checks: of queues, readers, state, and probable mistakes."""
    policy, saved_at = analysed.policy, draft.saved_nodes_at
    check_queues(draft.groups, draft.job.queues, faults)
    check_reader_order(draft.groups, faults)
    check_saved_positions(draft.groups, policy, saved_at, faults)
    check_state_dirs(analysed.state_dirs, policy, saved_at, faults)
    check_layouts(draft.job.layouts, analysed.names_by_node, faults)
    warn_of_mistakes(draft, analysed.names_by_node, policy, faults)
    warn_of_replaced_files(draft.groups, faults)


def _resolve_conditions(draft: JobDraft, analysed: _Analysed, faults: Faults) -> Conditions:
    """Run the compile pipeline's stage for conditions, and check that they end the job."""
    names = names_of(analysed.names_by_node)
    conditions = resolve_conditions(draft, names, analysed.outputs, faults)
    check_readers_end(draft.groups, conditions.stop, faults)
    if draft.stop_is_whole and len(conditions.stop) == len(draft.job.stop):
        warn_of_idle_epochs(draft.groups, conditions.stop, faults)
        check_conditions_change(draft.groups, conditions.stop, conditions.fail_if, faults)
    return conditions


def _assemble(draft: JobDraft, analysed: _Analysed, conditions: Conditions) -> Job:
    """Run the pipeline's last stage: assemble the ``Job`` from its draft and the analysis."""
    cluster, views, names_by_node = draft.job.cluster, analysed.views, analysed.names_by_node
    groups = assemble_groups(draft.groups, views, analysed.outputs, names_by_node)
    init = add_position_setup(groups["init"], draft.groups)
    measured = (*(probe for _, probe in conditions.metrics), *conditions.fail_if)
    return replace(
        draft.job,
        init=add_state_dir_setup(init, analysed.state_dirs),
        epoch=groups["epoch"],
        download=groups["download"],
        exit=groups["exit"],
        stop=conditions.stop,
        metrics=conditions.metrics,
        fail_if=conditions.fail_if,
        expect=conditions.expect,
        state=sort_by_node(cluster, {node: names.state for node, names in names_by_node.items()}),
        constants=sort_by_node(
            cluster, {node: names.constants for node, names in names_by_node.items()}
        ),
        checkpoint=analysed.policy,
        exactness=find_inexactness(draft.groups, views, conditions.stop, *measured),
    )
