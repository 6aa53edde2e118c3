"""Which names a block may keep in variables, and which copies it may leave out.

Pure questions about a group of tasks, answered once before it runs. Both rest on one fact:
whatever nobody can see at the same time, nobody can tell apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from jobrun.graph.access import AccessFinder
from jobrun.graph.data import ReadQueue, ReadRecords
from jobrun.graph.expr import Call, Expr, Name
from jobrun.graph.query import expressions, op_expressions, walk
from jobrun.graph.steps import Net, Step
from jobrun.graph.types import Scope, Scopes, Task, TaskGroup
from jobrun.ops.table import OPERATORS
from jobrun.runtime.alias import leaves, permuted
from jobrun.runtime.lapping import Metering

Steps = tuple[Step, ...]


@dataclass(slots=True)
class Usage:
    """The names of some steps, with those of all steps inside them.

    Attributes:
        used: Every name.
        changed: Names whose array is changed in place.
        bound: Names that may get another value, or none.
    """

    used: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)

    def add(self, other: Usage) -> None:
        """Take in the names of other steps."""
        self.used |= other.used
        self.changed |= other.changed
        self.bound |= other.bound


@cache
def finder() -> AccessFinder:
    """The finder of names that knows the registered operators."""
    mutating = {name: known.mutates for name, known in OPERATORS.items() if known.mutates}
    return AccessFinder(mutating, {name for name in mutating if OPERATORS[name].atomic})


def usage(steps: Steps) -> Usage:
    """The names of the steps."""
    found, look = Usage(), finder()
    for step in walk(steps):
        access = look.of_step(step)
        found.used.update(access.reads, access.binds, access.atomic, access.deletes)
        found.changed.update(access.changes, access.atomic)
        found.bound.update(access.binds, access.deletes)
        if isinstance(step, Net):
            # What is swapped changes hands: who changes one name, changes what had the other.
            found.changed.update(*map(permuted, step.ops))
        for expr in _all_expressions(step):
            found.changed.update(_changed_views(expr))
    return found


def usage_of(exprs: Iterable[Expr]) -> Usage:
    """The names of expressions."""
    found, look = Usage(), finder()
    access = look.of_expr(*exprs)
    found.used.update(access.reads, access.atomic)
    found.changed.update(access.changes, access.atomic)
    return found


@dataclass(frozen=True, slots=True)
class BlockNames:
    """What the code of one block must know about its names.

    Attributes:
        scopes: Which workspace holds a name; the task's own for those not listed.
        shared: Names that something else may use at the same time.
        elsewhere: Names that other blocks use, before or after.
        changed: Names whose array may be changed in place, by anyone on the node.
        meter: Measures the block's steps; None for code without any of that.
        objects: Names that callables may change only where they hold an object.
    """

    scopes: dict[str, Scope] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    meter: Metering | None = field(default=None, compare=False)
    objects: frozenset[str] = frozenset()

    def scope(self, name: str) -> Scope:
        """Which workspace holds the name."""
        return self.scopes.get(name, Scope.TASK)

    def outer(self, name: str) -> bool:
        """Whether the name's workspace is that of the group run, or of the node."""
        return self.scope(name) in {Scope.GROUP, Scope.NODE}

    def outlives(self, name: str) -> bool:
        """Whether anyone may look for the name once the block has ended."""
        return name in self.elsewhere or self.outer(name)


class GroupUsage:
    """The names of all blocks of a group, asked block by block."""

    def __init__(self, group: TaskGroup, meter: Metering | None = None) -> None:
        self._meter = meter
        self._tasks = {task.full_name: _task_usage(task) for task in group.tasks}
        # By node: how many tasks and reports use a name, and what anyone changes in place.
        self._users: dict[str, Counter[str]] = {}
        self._changed: dict[str, set[str]] = {}
        for task in group.tasks:
            self._note(task.node, _outer_part(self._tasks[task.full_name], task.scopes))
        for setup in group.setup:
            # Setup does not overlap with tasks, but what it changes in place counts.
            whole = usage(setup.nets.init + setup.nets.exit)
            self._note(setup.node, Usage(set(), whole.changed))
        for report in group.reports:
            self._note(report.node, usage(report.report.steps))

    def _note(self, node: str, seen: Usage) -> None:
        self._users.setdefault(node, Counter()).update(seen.used)
        self._changed.setdefault(node, set()).update(seen.changed)

    def changed(self, node: str) -> frozenset[str]:
        """The names of blobs that several tasks of the node may see changed in place."""
        return frozenset(self._changed.get(node, ()))

    def task_block(self, task: Task, block: Steps, beside: Iterable[Steps] = ()) -> BlockNames:
        """The names of one block of a task.

        Args:
            task: The task.
            block: The block's steps, one of the task's own tuples.
            beside: Blocks of the task that run at the same time.
        """
        scopes = dict(task.scopes)
        whole = self._tasks[task.full_name]
        outer = _outer_part(whole, task.scopes).used
        users = self._users[task.node]
        shared = {name for name in outer if users[name] > 1}
        for steps in beside:
            shared |= usage(steps).used
        if task.instances > 1:
            own = usage(block).used
            shared |= {n for n in own if scopes.get(n, Scope.TASK) is not Scope.INSTANCE}
        elsewhere = usage_of(one.value for one in task.outputs).used | _carried(task)
        for steps in _without(block, _blocks(task)):
            elsewhere |= usage(steps).used
        changed = whole.changed | self._changed[task.node]
        return BlockNames(
            scopes,
            frozenset(shared),
            frozenset(elsewhere),
            frozenset(changed),
            self._meter,
            frozenset(task.objects),
        )

    def node_block(self, node: str, block: Steps, scopes: Scopes) -> BlockNames:
        """The names of a block that belongs to a whole node: all of them are shared."""
        found = usage(block)
        changed = found.changed | self._changed.get(node, set())
        return BlockNames(
            dict(scopes), frozenset(found.used), frozenset(found.used), frozenset(changed),
            self._meter,
        )  # fmt: skip


def _without(block: Steps, blocks: Iterable[Steps]) -> Iterator[Steps]:
    """All but one occurrence of ``block``."""
    met = False
    for steps in blocks:
        if steps is block and not met:
            met = True
        else:
            yield steps


def _blocks(task: Task) -> Iterator[Steps]:
    for setup in task.setup + task.instance_setup:
        yield setup.init
        yield setup.exit
    yield task.steps
    for report in task.reports:
        yield report.steps


def _carried(task: Task) -> set[str]:
    """Names that records put there, or take from there, outside of the task's code."""
    names = {name for one in task.write for name in one.names}
    match task.read:
        case ReadRecords(reader=reader):
            return names | {field.name for field in reader.fields}
        case ReadQueue(names=fields):
            return names | set(fields)
        case None:
            return names


def _task_usage(task: Task) -> Usage:
    found = usage_of(one.value for one in task.outputs)
    found.used |= _carried(task)
    for steps in _blocks(task):
        found.add(usage(steps))
    return found


def _outer_part(found: Usage, scopes: Scopes) -> Usage:
    """What other tasks of the node can see of a task's names."""
    outer = {name for name, scope in scopes if scope in {Scope.GROUP, Scope.NODE}}
    return Usage(found.used & outer, found.changed & outer)


def _all_expressions(step: Step) -> Iterator[Expr]:
    if isinstance(step, Net):
        for op in step.ops:
            yield from op_expressions(op)
    else:
        yield from expressions(step)


def _changed_views(expr: Expr) -> set[str]:
    """Blobs that a mutating operator changes through a view of them: ``add_at(M[0], …)``."""
    if not isinstance(expr, Call) or expr.function not in OPERATORS:
        return set()
    found: set[str] = set()
    for position in OPERATORS[expr.function].mutates:
        if position < len(expr.args):
            views = leaves(expr.args[position])
            found |= {leaf.name for leaf in views if isinstance(leaf, Name)}
    return found
