"""Analyse aliasing by callables: find blobs to which one must not give the same memory.

A callable may return its argument, a view of it, a part of an object, or one array twice. In plain
Python the names then share memory; in jobrun each blob is a value of its own. The difference can
be observed only if one of the two is changed in place while they share memory, and the other is
read before it is bound again. This is decided for each call and each pair of its blobs, on the
control-flow graph of all steps of a node; whether they do share memory is checked when the
callable returns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations

from msgspec import Struct, field

from jobrun.compile.analysis.scopes import NodeView
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, TaskDraft
from jobrun.graph.blob_access import Access
from jobrun.graph.control_flow import FlowBuilder, link
from jobrun.graph.expressions import Call, Expr, Name
from jobrun.graph.query import expressions, op_expressions, walk
from jobrun.graph.readers import ReadRecords, record_path, source_expressions
from jobrun.graph.steps import CallPython, Op, Step
from jobrun.graph.traversal import walk_expr
from jobrun.graph.types import GroupName, Report, Scope, SetupNets, step_lists_around
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.ops.operator_table import OPERATORS

# Two names, sorted.
Pair = tuple[str, str]
# Path of a ``call`` step → its pairs.
UnsharedPairs = Mapping[str, tuple[Pair, ...]]

_NO_NAMES: frozenset[str] = frozenset()
# The limit of visited points for one node; sharing of further pairs counts as observable.
_MOST_VISITS = 2_000_000


class _Point(Struct, eq=False):
    """A point of the control-flow graph: one operator or step, and what may run after it.

    Attributes:
        reads: Names whose values are read.
        changes: Names whose values are changed in place.
        binds: Names that get another value, or none.
        call: The callable, if it is one: it may read its arguments while it changes them.
        takes: Objects into which the callable may put other blobs.
        drops: Names that no longer exist after this point.
        keeps: If not None: only these names exist after this point.
    """

    reads: frozenset[str] = _NO_NAMES
    changes: frozenset[str] = _NO_NAMES
    binds: frozenset[str] = _NO_NAMES
    call: CallPython | None = None
    takes: frozenset[str] = _NO_NAMES
    drops: frozenset[str] = _NO_NAMES
    keeps: frozenset[str] | None = None
    after: list[_Point] = field(default_factory=list)

    def is_over(self, name: str) -> bool:
        """Return whether a step rebinds or drops a blob, which ends aliases by callables."""
        if self.keeps is not None and name not in self.keeps:
            return True
        return name in self.binds or name in self.drops


def find_unshareable_blobs(
    groups: Mapping[GroupName, GroupDraft],
    views: Mapping[GroupName, Mapping[str, NodeView]],
    node: str,
    boundary_names: Collection[str],
    objects: frozenset[str],
) -> UnsharedPairs:
    """Find for each ``call`` on a node the pairs of blobs that it must not make aliases.

    Args:
        groups: All of the job.
        views: The same groups on their nodes.
        node: The node.
        boundary_names: Names that exist at each epoch boundary: state, constants and objects.
        objects: Those of them that may be objects, which can refer to memory of other blobs.
    """
    if not any(_has_calls(groups[name], view.get(node)) for name, view in views.items()):
        return {}
    pairs_by_path: dict[str, set[Pair]] = {}
    # Tasks without an order may run in either order, so both are analysed.
    for is_reversed in (False, True):
        graph = _ControlFlow(objects, is_reversed=is_reversed)
        predecessors = graph.group(groups["init"], views["init"].get(node), [])
        boundary = graph.point(Access(reads=list(boundary_names)), predecessors)
        boundary.keeps = frozenset(boundary_names)
        predecessors = [boundary]
        for name in ("epoch", "download"):
            predecessors = graph.group(groups[name], views[name].get(node), predecessors)
        link(predecessors, boundary)
        graph.group(groups["exit"], views["exit"].get(node), [boundary])
        for path, pairs in graph.find_pairs():
            pairs_by_path.setdefault(path, set()).update(pairs)
        if not any(group.order.has_choice for group in groups.values()):
            break
    return {path: tuple(sorted(pairs)) for path, pairs in pairs_by_path.items()}


def _has_calls(group: GroupDraft, view: NodeView | None) -> bool:
    """Return whether a group calls Python callables on a node, whose results may be aliases."""
    if view is None:
        return False
    setups, reports = group.setups.get(view.node, ()), group.reports.get(view.node, ())
    step_lists = chain(
        step_lists_around(setups, reports), *(task.step_lists() for task in view.tasks.values())
    )
    return any(isinstance(step, CallPython) for steps in step_lists for step in walk(steps))


class _ControlFlow(FlowBuilder[_Point]):
    """The control-flow graph of a node, built part by part.

    Args:
        objects: Names that may be objects.
        is_reversed: Put tasks without an order in the reverse order of the spec.
    """

    def __init__(self, objects: frozenset[str], *, is_reversed: bool) -> None:
        super().__init__()
        self._objects = objects
        self._is_reversed = is_reversed
        # Names that reports may read at any time.
        self._watched: frozenset[str] = _NO_NAMES

    def point(self, access: Access, predecessors: Iterable[_Point]) -> _Point:
        """Add a point that is no step of its own, such as the outputs of a task."""
        return self.add(self._build_point(access), predecessors)

    def point_of_op(self, op: Op) -> _Point:
        return self._build_point(ACCESS_FINDER.of_op(op), op_expressions(op))

    def point_of_step(self, step: Step) -> _Point:
        call = step if isinstance(step, CallPython) else None
        return self._build_point(ACCESS_FINDER.of_step(step), expressions(step), call)

    def _build_point(
        self, access: Access, exprs: Iterable[Expr] = (), call: CallPython | None = None
    ) -> _Point:
        return _Point(
            self._watched.union(access.reads, access.atomic),
            frozenset((*access.changes, *access.atomic, *_changed_views(exprs))),
            frozenset((*access.binds, *access.deletes)),
            call,
            self._objects.intersection(access.lent),
        )

    def group(
        self, group: GroupDraft, view: NodeView | None, predecessors: list[_Point]
    ) -> list[_Point]:
        """Add one run of a group to the control-flow graph for analysing callables' aliases."""
        if view is None:
            return predecessors
        setups = group.setups.get(view.node, ())
        reports = group.reports.get(view.node, ())
        predecessors = self._setup(setups, "init", predecessors)
        rank = group.order.reverse_rank if self._is_reversed else group.order.rank
        for position in sorted(view.tasks, key=rank.__getitem__):
            add = partial(self._task, view.tasks[position], view)
            predecessors = self._add_reports(reports, add, predecessors)
        return self._setup(setups, "exit", predecessors)

    def _task(self, task: TaskDraft, view: NodeView, predecessors: list[_Point]) -> list[_Point]:
        predecessors = self._setup(task.setup, "init", predecessors)
        predecessors = self._add_reports(task.reports, partial(self._instance, task), predecessors)
        predecessors = self._setup(task.setup, "exit", predecessors)
        last = self.point(
            ACCESS_FINDER.of_expr(*(output.value for output in task.outputs)), predecessors
        )
        local_names = (name for name in task.flow.names() if _is_own(view.scope(task, name)))
        last.drops = frozenset(local_names)
        return [last]

    def _instance(self, task: TaskDraft, predecessors: list[_Point]) -> list[_Point]:
        begin = self.point(Access(), predecessors)
        predecessors = self._setup(task.instance_setup, "init", [begin])
        predecessors = self._body(task, predecessors)
        predecessors = self._setup(task.instance_setup, "exit", predecessors)
        if task.instances > 1:
            link(predecessors, begin)
        return predecessors

    def _body(self, task: TaskDraft, predecessors: list[_Point]) -> list[_Point]:
        records = task.records
        if not records.is_loop:
            return [*self.steps(task.steps, predecessors), *self.exits_of(task.path)]
        source = records.read.reader if isinstance(records.read, ReadRecords) else None
        access = ACCESS_FINDER.of_expr(*(source_expressions(source) if source is not None else ()))
        access.binds += records.fields
        head = self.point(access, predecessors)
        predecessors = self.steps(task.steps, [head])
        sent = Access(reads=[name for write in records.write for name in write.names])
        predecessors = [
            self.point(sent, predecessors),
            *self.exits_of(record_path(task.path)),
        ]
        link(predecessors, head)
        return [head, *predecessors, *self.exits_of(task.path)]

    def _setup(
        self, setups: Iterable[SetupNets], part: str, predecessors: list[_Point]
    ) -> list[_Point]:
        for setup in setups if part == "init" else reversed(list(setups)):
            steps = setup.init if part == "init" else setup.exit
            path = f"{setup.name}.{part}"
            predecessors = [*self.steps(steps, predecessors), *self.exits_of(path)]
        return predecessors

    def _add_reports(
        self,
        reports: Sequence[Report],
        add: Callable[[list[_Point]], list[_Point]],
        predecessors: list[_Point],
    ) -> list[_Point]:
        """Add periodic reports to the control-flow graph: they may read callables' aliases."""
        if not reports:
            return add(predecessors)
        outer = self._watched
        alone = _ControlFlow(self._objects, is_reversed=False)
        for report in reports:
            alone.steps(report.steps, [])
        self._watched = outer.union(*(point.reads for point in alone.points))
        hub = self.point(Access(), add(predecessors))
        for report in reports:
            link(self.steps(report.steps, [hub]), hub)
            link(self.exits_of(report.path), hub)
        self._watched = outer
        return [hub]

    def find_pairs(self) -> Iterator[tuple[str, set[Pair]]]:
        """Yield each ``call`` step's path, and pairs of blobs it must not make aliases."""
        calls = [call for call in self.points if call.call is not None]
        relevant = self._relevant_names(calls)
        visits = 0
        for call in calls:
            pairs: set[Pair] = set()
            aliases = _alias_names(call)
            for pair in combinations(sorted(_touched(call)), 2):
                if aliases.isdisjoint(pair) or relevant.isdisjoint(pair):
                    continue
                # If the search would take too long, the sharing counts as observable.
                seen, count = (True, 0) if visits > _MOST_VISITS else _is_observable(call, pair)
                visits += count
                if seen:
                    pairs.add(pair)
            if pairs and call.call is not None:
                yield call.call.path, pairs

    def _relevant_names(self, calls: list[_Point]) -> set[str]:
        """Find the blobs whose aliases by callables matter: they may be changed in place.

        Those are the blobs that are changed in place, and the inputs of calls that make such blobs.
        """
        relevant = set[str]().union(*(point.changes for point in self.points))
        size = -1
        while size != len(relevant):
            size = len(relevant)
            for call in calls:
                if not relevant.isdisjoint(_alias_names(call)):
                    relevant |= call.reads
        return relevant


def _is_own(scope: Scope) -> bool:
    return scope in {Scope.TASK, Scope.INSTANCE}


def _alias_names(point: _Point) -> frozenset[str]:
    """Return the blobs that a callable may alias: its results and writable arguments."""
    return point.binds | point.changes


def _touched(point: _Point) -> frozenset[str]:
    return point.reads | _alias_names(point)


def _is_observable(call: _Point, start: Pair) -> tuple[bool, int]:
    """Return whether steps after a ``call`` read a blob that changed under its other name.

    Returns:
        Whether there is such a path, and the number of visited points.
    """
    seen: set[tuple[int, Pair, str]] = set()
    # At each point: the blobs that share memory, and the one that would have changed, if any.
    unvisited = [(after, start, "") for after in call.after]
    while unvisited:
        point, pair, stale = unvisited.pop()
        key = (id(point), pair, stale)
        if key in seen:
            continue
        seen.add(key)
        was, stale = stale, stale or _find_stale(point, pair)
        # A callable may read its arguments after it has changed one.
        looking = stale if point.call is not None else was
        if looking and looking in point.reads | point.changes:
            return True, len(seen)
        if not stale:
            ways = [
                (after, alias, "") for alias in _propagate(point, pair) for after in point.after
            ]
            unvisited += ways
        if any(map(point.is_over, (stale,) if stale else pair)):
            continue
        unvisited += ((after, pair, stale) for after in point.after)
    return False, len(seen)


def _find_stale(point: _Point, pair: Pair) -> str:
    """Return the blob whose alias, made by a callable, a step changes in place, or ""."""
    first, second = pair
    if first in point.changes:
        return second
    return first if second in point.changes else ""


def _propagate(point: _Point, pair: Pair) -> Iterator[Pair]:
    """Yield further aliases that a callable makes if it returns one blob of a pair."""
    if point.call is None:
        return
    for ours, other in (pair, pair[::-1]):
        if ours in point.reads and not point.is_over(other):
            for name in (point.binds | point.takes) - {ours, other}:
                yield (name, other) if name < other else (other, name)


def _changed_views(exprs: Iterable[Expr]) -> Iterator[str]:
    """Yield the blobs that operators change in place, where callables' aliases matter."""
    for whole in exprs:
        for expr in walk_expr(whole):
            known = OPERATORS.get(expr.function) if isinstance(expr, Call) else None
            if isinstance(expr, Call) and known is not None:
                for position in known.mutates:
                    if position < len(expr.args):
                        part = walk_expr(expr.args[position])
                        yield from (
                            expression.name for expression in part if isinstance(expression, Name)
                        )
