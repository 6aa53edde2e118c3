"""Decide by liveness which names a block keeps in variables, and who else may see them.

Pure questions about a group of tasks, answered once before it runs. Both rest on one fact:
what no two steps can see at the same time, no step can distinguish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.core.partly_compared import PartlyCompared
from jobrun.graph.expressions import Call, Expr, Name
from jobrun.graph.query import expressions, walk
from jobrun.graph.readers import record_fields
from jobrun.graph.steps import CallPython, Net, Step
from jobrun.graph.types import Apart, NodeReport, NodeSetup, Scope, Scopes, Task, TaskGroup
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.ops.operator_table import OPERATORS
from jobrun.runtime.codegen.alias_analysis import aliased_leaves, permuted_names
from jobrun.runtime.codegen.meter_protocol import Instrumenter

Steps = tuple[Step, ...]


class Usage(Struct):
    """The names that some steps read, bind and change, with those of all steps inside them.

    Attributes:
        used: Every name.
        changed: Names whose array is changed in place.
        bound: Names that may get another value.
        deleted: Names that may have none afterwards.
    """

    used: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)

    def add(self, other: Usage) -> None:
        """Add the names that further steps use to those of a block, to compute their liveness."""
        self.used |= other.used
        self.changed |= other.changed
        self.bound |= other.bound
        self.deleted |= other.deleted

    @property
    def rebound(self) -> set[str]:
        """The names in this usage that may get another value, or none."""
        return self.bound | self.deleted


def collect_usage(steps: Steps) -> Usage:
    """Collect the names that a block's steps read, change and bind, to compute their liveness."""
    return usage_of_each(walk(steps))


def usage_of_each(steps: Iterable[Step]) -> Usage:
    """Collect the names that steps use, without the steps inside them, to compute liveness."""
    usage = Usage()
    for step in steps:
        access = ACCESS_FINDER.of_step(step)
        usage.used.update(access.reads, access.binds, access.atomic, access.deletes)
        usage.changed.update(access.changes, access.atomic)
        usage.bound.update(access.binds)
        usage.deleted.update(access.deletes)
        if isinstance(step, Net):
            # After a swap, a change through one name changes the array that the other name held.
            usage.changed.update(*map(permuted_names, step.ops))
        for expr in expressions(step):
            usage.changed.update(changed_views(expr))
    return usage


def names_bound_first(steps: Steps) -> set[str]:
    """Return names that steps bind before they read them: these are not live at the start."""
    seen: set[str] = set()
    first: set[str] = set()
    for step in steps:
        if not isinstance(step, Net):
            seen |= collect_usage((step,)).used
            continue
        for op in step.ops:
            access = ACCESS_FINDER.of_op(op)
            seen.update(access.reads, access.atomic)
            first.update(name for name in access.binds if name not in seen)
            seen.update(access.binds)
    return first


def collect_expression_usage(exprs: Iterable[Expr]) -> Usage:
    """Collect the names that expressions read and change, to compute their liveness."""
    usage = Usage()
    access = ACCESS_FINDER.of_expr(*exprs)
    usage.used.update(access.reads, access.atomic)
    usage.changed.update(access.changes, access.atomic)
    return usage


class BlockNames(PartlyCompared, frozen=True):
    """What the code of one block must know about its names: who else uses them, and when.

    Attributes:
        scopes: Which workspace holds a name; the task's own for those not listed.
        shared: Names that something else may use at the same time.
        elsewhere: Names that other blocks use, before or after.
        changed: Names whose array may be changed in place, by anyone on the node.
        meter: Measures the block's steps; None for code without any of that.
        objects: Names that callables may change only where they hold an object.
        apart: By the path of a ``call`` step: pairs of blobs that may not share memory after it.
        passing: Names of ``elsewhere`` of the task alone that only its records bind or send.
        racing: Names whose array something that runs at the same time may change in place.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("meter",)

    scopes: dict[str, Scope] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    meter: Instrumenter | None = None
    objects: frozenset[str] = frozenset()
    apart: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    passing: frozenset[str] = frozenset()
    racing: frozenset[str] = frozenset()

    def scope(self, name: str) -> Scope:
        """Look up, for liveness, the scope of a block's name; ``Scope.TASK`` if not listed."""
        return self.scopes.get(name, Scope.TASK)

    def is_outer(self, name: str) -> bool:
        """Return whether a name is live outside of its task: in a group's or node's workspace."""
        return self.scope(name) in {Scope.GROUP, Scope.NODE}

    def outlives(self, name: str) -> bool:
        """Return whether a name is live after its block ends, because other code may read it."""
        return name in self.elsewhere or self.is_outer(name)


class GroupUsage:
    """The names that all blocks of a group use, asked block by block."""

    def __init__(self, group: TaskGroup, meter: Instrumenter | None = None) -> None:
        self._meter = meter
        self._tasks = {task.full_name: _task_usage(task) for task in group.tasks}
        # By node: how many tasks and reports use each name, and the names changed in place.
        self._users: dict[str, Counter[str]] = {}
        self._changed: dict[str, set[str]] = {}
        self._is_hogwild = any(task.hogwild for task in group.tasks)
        self._by_reports: dict[str, set[str]] = {}
        for task in group.tasks:
            self._note(task.node, _outer_part(self._tasks[task.full_name], task.scopes))
        for setup in group.setup:
            # Setup does not overlap with tasks, but what it changes in place counts.
            whole = collect_usage(setup.nets.init + setup.nets.exit)
            self._note(setup.node, Usage(set(), whole.changed))
        for report in group.reports:
            seen = collect_usage(report.report.steps)
            self._note(report.node, seen)
            self._by_reports.setdefault(report.node, set()).update(seen.changed)

    def _note(self, node: str, seen: Usage) -> None:
        self._users.setdefault(node, Counter()).update(seen.used)
        self._changed.setdefault(node, set()).update(seen.changed)

    def changed(self, node: str) -> frozenset[str]:
        """Return which live blobs of a node its tasks, setup or reports change in place."""
        return frozenset(self._changed.get(node, ()))

    def task_block(self, task: Task, block: Steps, concurrent: Iterable[Steps] = ()) -> BlockNames:
        """Return which names in a task's block are live after it, or used by other code.

        Args:
            task: The task.
            block: The block's steps, one of the task's own tuples.
            concurrent: Blocks of the task that run at the same time.
        """
        scopes = dict(task.scopes)
        whole = self._tasks[task.full_name]
        outer = _outer_part(whole, task.scopes).used
        users = self._users[task.node]
        shared = {name for name in outer if users[name] > 1}
        meanwhile = set(self._by_reports.get(task.node, ()))
        for steps in concurrent:
            usage = collect_usage(steps)
            shared |= usage.used
            meanwhile |= usage.changed
        if task.instances > 1:
            used_here = collect_usage(block).used
            shared |= {n for n in used_here if scopes.get(n, Scope.TASK) is not Scope.INSTANCE}
        elsewhere = collect_expression_usage(output.value for output in task.outputs).used
        for steps in _without(block, task.step_lists()):
            elsewhere |= collect_usage(steps).used
        carried = _carried(task)
        # Only the task's names: the node may have a number of names in proportion to its tasks.
        touched = whole.used | whole.changed | scopes.keys()
        changed = whole.changed | (touched & self._changed[task.node])
        # Races are faults, except those of ``hogwild`` tasks, and of reports, which only read.
        is_report = any(block is report.steps for report in task.reports)
        return BlockNames(
            scopes,
            frozenset(shared),
            frozenset(elsewhere | carried),
            frozenset(changed),
            self._meter,
            frozenset(task.objects),
            _by_path(task.apart),
            frozenset(carried - elsewhere - outer),
            frozenset(changed if self._is_hogwild or is_report else changed & meanwhile),
        )

    def node_block(self, part: NodeSetup | NodeReport, block: Steps) -> BlockNames:
        """Return the liveness of names in a node's setup or report: all outlive the block."""
        usage = collect_usage(block)
        changed = usage.changed | self._changed.get(part.node, set())
        return BlockNames(
            dict(part.scopes),
            frozenset(usage.used),
            frozenset(usage.used),
            frozenset(changed),
            self._meter,
            apart=_by_path(part.apart),
            racing=frozenset(changed),
        )


def _by_path(apart: Apart) -> dict[str, tuple[tuple[str, str], ...]]:
    pairs_by_path: dict[str, list[tuple[str, str]]] = {}
    for path, first, second in apart:
        pairs_by_path.setdefault(path, []).append((first, second))
    return {path: tuple(pairs) for path, pairs in pairs_by_path.items()}


def _without(block: Steps, blocks: Iterable[Steps]) -> Iterator[Steps]:
    """Yield a task's blocks except ``block``: the names that they use are live after it."""
    met = False
    for steps in blocks:
        if steps is block and not met:
            met = True
        else:
            yield steps


def _carried(task: Task) -> set[str]:
    """Collect names that a task receives or sends in records, which are live beyond its blocks."""
    names = {name for write in task.write for name in write.names}
    return names.union(record_fields(task.read))


def _task_usage(task: Task) -> Usage:
    usage = collect_expression_usage(output.value for output in task.outputs)
    usage.used |= _carried(task)
    for steps in task.step_lists():
        usage.add(collect_usage(steps))
    return usage


def _outer_part(usage: Usage, scopes: Scopes) -> Usage:
    """Select, of the names that a task uses, blobs of its group or node: live after the task."""
    outer = {name for name, scope in scopes if scope in {Scope.GROUP, Scope.NODE}}
    return Usage(usage.used & outer, usage.changed & outer)


def changed_views(expr: Expr) -> set[str]:
    """Collect, for liveness, blobs that an operator changes through a view: ``add_at(M[0])``."""
    if not isinstance(expr, Call) or expr.function not in OPERATORS:
        return set()
    names: set[str] = set()
    for position in OPERATORS[expr.function].mutates:
        if position < len(expr.args):
            views = aliased_leaves(expr.args[position])
            names |= {leaf.name for leaf in views if isinstance(leaf, Name)}
    return names


def add_moved_names(task: Task, names: BlockNames) -> BlockNames:
    """Add the names whose arrays move into queues to the changed names in a block's liveness.

    They count as changed, so that no other name of the body shares memory with them.
    """
    moved = find_moved_names(task, names)
    return replace(names, changed=names.changed | moved) if moved else names


def find_moved_names(task: Task, names: BlockNames) -> frozenset[str]:
    """Find names that are not live once a record is sent: a queue gets their arrays uncopied.

    A name that only the body knows has certainly got another value there before the body looks
    at it again: that nothing is read before it is made, the compiler has proven.

    Args:
        task: The task.
        names: What is known of the names of its body.
    """
    sent = Counter(name for write in task.write for name in write.names)
    if not sent:
        return frozenset()
    private_scopes = {Scope.INSTANCE} if task.instances > 1 else {Scope.INSTANCE, Scope.TASK}
    return frozenset(
        name for name in names.passing if sent[name] == 1 and names.scope(name) in private_scopes
    )


def find_opaque_names(group: TaskGroup) -> dict[str, frozenset[str]]:
    """Find names that always count as live, as callables or ``hogwild`` tasks may change them."""
    blocks: list[tuple[str, tuple[Steps, ...]]] = [
        (setup.node, (setup.nets.init, setup.nets.exit)) for setup in group.setup
    ]
    blocks += [(report.node, (report.report.steps,)) for report in group.reports]
    blocks += [(task.node, task.step_lists()) for task in group.tasks]
    opaque: dict[str, set[str]] = {}
    for node, step_lists in blocks:
        opaque.setdefault(node, set()).update(*map(_handed_out, step_lists))
    for task in group.tasks:
        if task.hogwild:
            for steps in task.step_lists():
                opaque[task.node].update(collect_usage(steps).changed)
    return {node: frozenset(names) for node, names in opaque.items()}


def _handed_out(steps: Steps) -> Iterator[str]:
    for step in walk(steps):
        if isinstance(step, CallPython):
            yield from ACCESS_FINDER.of_step(step).changes
