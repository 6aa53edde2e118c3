"""Find the state and constants that init leaves, and check declared state and its layouts.

The state directories of programs (``state_dir``) are blobs of state, too, which init makes empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from jobrun.compile.analysis.scopes import NodeView
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.definite_assignment import Status
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, Groups, walk_readers
from jobrun.compile.types.job_types import Types, infer_job_types
from jobrun.core.errors import Origin
from jobrun.core.text.names import did_you_mean
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.expressions import Call, Const, Dtype, Sequence
from jobrun.graph.query import walk
from jobrun.graph.readers import POSITION_PREFIX
from jobrun.graph.steps import Assign, NameTarget, Net, RunProgram, Step
from jobrun.graph.types import (
    Cluster,
    GroupName,
    Job,
    NodeSetup,
    Scope,
    SetupNets,
    StateLayout,
    TaskGroup,
    step_lists_around,
)

NamesInOrder = tuple[tuple[str, tuple[str, ...]], ...]
# Node → blob of a state directory → the first step that uses it.
StateDirs = Mapping[str, Mapping[str, RunProgram]]
STATE_DIR_SETUP = "state_dirs"


class KeptNames(Struct, frozen=True):
    """The names of state and constants on one node at epoch boundaries.

    Attributes:
        callables: The constants that only callables make. One that is an object may be passed to
            a callable that changes it; whether it is an object is checked at the call.
        unsaved: What init makes and no later group gets, since the node is not checkpointed.
    """

    state: frozenset[str] = frozenset()
    constants: frozenset[str] = frozenset()
    callables: frozenset[str] = frozenset()
    unsaved: frozenset[str] = frozenset()


class _Name(Struct):
    """The status of one name after the steps of init that were walked through."""

    status: Status
    rebuilt_at: SpecPosition | None = None
    written_at: SpecPosition | None = None
    is_called: bool = True


def find_state(views: Mapping[str, NodeView], faults: Faults) -> dict[str, KeptNames]:
    """Find the state and constants that init leaves per node; refuse what may not exist."""
    return {node: _classify(view, faults) for node, view in views.items()}


def find_left_names(view: NodeView) -> frozenset[str]:
    """Find the blobs that certainly exist on a node after a group, as state or constants."""
    names = _walk_tasks(view)
    return frozenset(name for name, blob in names.items() if blob.status is Status.SET)


def names_of(names_by_node: Mapping[str, KeptNames]) -> dict[str, frozenset[str]]:
    """Map each node to the set of its state and constants, the blobs that outlast an epoch."""
    return {node: names.state | names.constants for node, names in names_by_node.items()}


def sort_by_node(nodes: Cluster, names: Mapping[str, frozenset[str]]) -> NamesInOrder:
    """Sort the state (or constants) of nodes in the cluster's order of nodes; omit empty ones."""
    return tuple(
        (node.name, tuple(sorted(names[node.name]))) for node in nodes if names.get(node.name)
    )


def find_state_nodes(
    groups: Groups, cluster: Cluster, others: Collection[str] = ()
) -> tuple[str, ...]:
    """List the nodes that hold state: those with tasks in init, readers, or other state."""
    used = dict.fromkeys(groups["init"].nodes())
    read_on = {node for _, task in walk_readers(groups) for node in task.nodes}
    late = read_on.union(others) - used.keys()
    return (*used, *(node.name for node in cluster if node.name in late))


def select_saved(
    names_by_node: Mapping[str, KeptNames], policy: CheckpointPolicy
) -> dict[str, KeptNames]:
    """Select the blobs that the groups after init start with: constants and saved state."""
    return {
        node: names
        if node in policy.nodes
        else replace(names, state=frozenset(), unsaved=names.state)
        for node, names in names_by_node.items()
    }


def _classify(view: NodeView, faults: Faults) -> KeptNames:
    state: set[str] = set()
    constants: set[str] = set()
    names = _walk_tasks(view)
    for name, blob in names.items():
        spec_position = blob.written_at or blob.rebuilt_at
        if blob.status is Status.MAYBE and spec_position is not None:
            faults.error(
                "E179",
                f"'{name}' may not exist after init, but state must always exist",
                "make it on every path: in each branch, and before a loop that may have no "
                "iteration; or set 'workspace: private' on the task if it is not state",
                spec_position,
            )
        elif (
            blob.status is Status.SET
            and blob.rebuilt_at is not None
            and blob.written_at is not None
        ):
            message = (
                f"'{name}' is made by a 'rebuild' task, at {blob.rebuilt_at.path}, but "
                f"written by another one, so it is neither a constant nor state"
            )
            faults.error("E175", message, "use another blob name", blob.written_at)
        if blob.status is not Status.GONE:
            # A name that is both has a fault already; dropping it would cause further faults.
            (constants if blob.written_at is None else state).add(name)
    called = frozenset(name for name in constants if names[name].is_called)
    return KeptNames(frozenset(state), frozenset(constants), called)


def _walk_tasks(view: NodeView) -> dict[str, _Name]:
    """Find the blobs that a group may leave on a node, from which its state is chosen."""
    names: dict[str, _Name] = {}
    _walk_setup(view, view.init.end, names)
    for position in sorted(view.tasks, key=view.group.order.rank.__getitem__):
        task = view.tasks[position]
        for name in sorted(task.flow.written_names() | task.flow.inner.atomic.keys()):
            # A blob that exists before init is state already.
            if view.shared_scope(name) is not Scope.NODE or name in view.start:
                continue
            if task.flow.is_only("lent", name) and _is_made_by_callables(names.get(name)):
                # A callable that only changes an object does not make it.
                continue
            blob = _touch(names, name, task.flow.total.end.get(name))
            blob.is_called = blob.is_called and task.flow.is_only("called", name)
            if task.rebuild:
                blob.rebuilt_at = blob.rebuilt_at or task.find_write_position(name)
            else:
                blob.written_at = blob.written_at or task.find_write_position(name)
    _walk_setup(view, view.exit.end, names)
    return names


def _walk_setup(view: NodeView, end: Mapping[str, Status], names: dict[str, _Name]) -> None:
    for name, spec_position in view.setup_uses.writes.items():
        if name in end and view.shared_scope(name) is Scope.NODE:
            blob = _touch(names, name, end[name])
            blob.written_at = blob.written_at or spec_position


def _is_made_by_callables(known: _Name | None) -> bool:
    """Return whether only callables of ``rebuild`` tasks make a blob: it is no state."""
    return known is not None and known.is_called and known.written_at is None


def _touch(names: dict[str, _Name], name: str, status: Status | None) -> _Name:
    known = names.get(name)
    if known is None:
        # Written, but not on every path: it may exist.
        known = names[name] = _Name(status or Status.MAYBE)
    elif status is not None:
        known.status = status
    return known


def check_layouts(
    layouts: tuple[StateLayout, ...], names_by_node: Mapping[str, KeptNames], faults: Faults
) -> None:
    """Check that init leaves each blob that a spec declares under ``state``.

    Args:
        layouts: The declarations.
        names_by_node: State and constants, by node.
        faults: Collects what is wrong.
    """
    names = {
        name
        for node_names in names_by_node.values()
        for name in node_names.state | node_names.constants
        if not name.startswith(POSITION_PREFIX)
    }
    for layout in layouts:
        if layout.name not in names:
            mend = did_you_mean(layout.name, names) if names else "make it in init, or remove it"
            message = f"'{layout.name}' is not state: no task of init makes it, or it is not saved"
            faults.error("E044", message, mend, layout)


def check_types(job: Job, faults: Faults) -> Types:
    """Check the types of a job's blobs, and return them: a ``layout: rows`` needs an array."""
    types = infer_job_types(job)
    owned = types.owned
    for layout in job.layouts:
        flat = [
            node
            for (node, name), known in owned.items()
            if layout.layout == "rows" and name == layout.name and known.shape == ()
        ]
        if flat:
            message = f"'{layout.name}' on node '{flat[0]}' is a scalar, which has no rows"
            mend = "declare it replicated if all nodes have the same value, or keep it in an array"
            faults.error("E045", message, mend, layout)
    faults.extend(types.faults)
    return types


def find_state_dirs(groups: Mapping[GroupName, GroupDraft]) -> StateDirs:
    """Map each node to the state blobs that hold the ``state_dir`` of its ``run`` steps."""
    state_dirs: dict[str, dict[str, RunProgram]] = {}
    for nodes, steps in _walk_job(groups):
        for step in walk(steps):
            if isinstance(step, RunProgram) and step.state_dir:
                for node in nodes:
                    state_dirs.setdefault(node, {}).setdefault(step.folders[0], step)
    return state_dirs


def add_state(
    names_by_node: Mapping[str, KeptNames], more: Mapping[str, Iterable[str]]
) -> dict[str, KeptNames]:
    """Add names, such as the ``state_dir`` blobs of programs, to the state that each node keeps."""
    extended = dict(names_by_node)
    for node, names in more.items():
        node_names = extended.get(node, KeptNames())
        extended[node] = replace(node_names, state=node_names.state.union(names))
    return extended


def add_state_dir_setup(init: TaskGroup, state_dirs: StateDirs) -> TaskGroup:
    """Add to init the steps that make the state of each ``state_dir``, empty at first."""
    first_values = {
        node: tuple(_build_empty(blob, program) for blob, program in blobs.items())
        for node, blobs in state_dirs.items()
    }
    return add_setup(init, STATE_DIR_SETUP, first_values)


def add_setup(
    init: TaskGroup, name: str, first_values: Mapping[str, tuple[Assign, ...]]
) -> TaskGroup:
    """Add to init a set-up on each node that gives blobs of its state their first values."""
    setups = tuple(
        NodeSetup(
            node,
            SetupNets((Net(assigns),), (), name),
            tuple((target.name, Scope.NODE) for op in assigns for target in op.targets),
        )
        for node, assigns in first_values.items()
    )
    return replace(init, setup=(*setups, *init.setup))


def remove_setups(init: TaskGroup, *names: str) -> TaskGroup:
    """Remove from init the set-ups by which ``add_setup`` gave state its first values."""
    return replace(init, setup=tuple(setup for setup in init.setup if setup.nets.name not in names))


def check_state_dirs(
    state_dirs: StateDirs, policy: CheckpointPolicy, saved_at: Origin, faults: Faults
) -> None:
    """Check that nodes whose ``run`` steps keep state in a ``state_dir`` are checkpointed."""
    for node, blobs in state_dirs.items():
        if node not in policy.nodes:
            name = next(iter(blobs.values())).state_dir
            message = f"'{node}' holds the 'state_dir' {name} of a program, but is not checkpointed"
            mend = f"add '{node}'"
            faults.error("E120", message, mend, SpecPosition("checkpoint.nodes", saved_at))


def _build_empty(blob: str, step: RunProgram) -> Assign:
    value = Call("zeros", (Sequence((Const(0),)),), (("dtype", Dtype("uint8")),))
    return Assign((NameTarget(blob),), value, step.path, step.origin)


def _walk_job(
    groups: Mapping[GroupName, GroupDraft],
) -> Iterator[tuple[tuple[str, ...], tuple[Step, ...]]]:
    """Yield all steps of a job with their nodes, to find the state in each ``state_dir``."""
    for group in groups.values():
        for task in group.tasks:
            for steps in task.step_lists():
                yield task.nodes, steps
        for node in {**group.setups, **group.reports}:
            setups, reports = group.setups.get(node, ()), group.reports.get(node, ())
            for steps in step_lists_around(setups, reports):
                yield (node,), steps
