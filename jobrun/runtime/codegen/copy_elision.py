"""Find assignments that may bind a view or move an array instead of copying it.

Static, and careful: where the text does not prove it, the value is copied.

Blobs are values, so ``u = U[1:-1]`` means a copy. It need not be one where neither of the two is
written while the other may still be read. The analysis begins with all assignments that could bind
views, follows through the control-flow graph which names may share memory because of them, and
looks at each write: where it would be seen through a name that is live, one of the assignments that
made the two share copies after all. So it continues until no write is seen.

What existed before the block, or was shown to a callable, is not written through a view either: a
checkpoint may be reading it. At the end of the block what lives on owns its memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct, field

from jobrun.core.interpreter import lazy_module
from jobrun.graph.expressions import (
    Attribute,
    Binary,
    Call,
    Compare,
    Conditional,
    Const,
    Expr,
    Index,
    LoopIndex,
    Name,
    Sequence,
    Slice,
    Text,
    Unary,
)
from jobrun.graph.query import expressions, op_expressions, walk
from jobrun.graph.steps import Assign, Augment, ItemTarget, NameTarget, Net, Op, Step
from jobrun.graph.traversal import children, walk_expr
from jobrun.graph.types import Scope
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.runtime.codegen.alias_analysis import (
    aliased_leaves,
    is_fresh,
    is_plain_view,
    permuted_names,
)
from jobrun.runtime.codegen.liveness import BlockNames

if TYPE_CHECKING:
    from jobrun.runtime.codegen import flow_graph
    from jobrun.runtime.codegen.flow_graph import Point
else:
    flow_graph = lazy_module("jobrun.runtime.codegen.flow_graph")

# The ``id`` of an assignment, and the index of one of its targets.
Site = tuple[int, int]
_Sites = frozenset[Site]
# Maps a name to the names that may share its memory, each with the sites that cause it.
_Sharing = dict[str, dict[str, _Sites]]

# Names memory that is visible outside of the block's names.
_OUTSIDE = ""
_NO_SITES: _Sites = frozenset()
# Limit of the analysis, in visits of names at points. A larger block copies everything.
_MOST_VISITS = 1_000_000

# Exact for real numbers only: a complex product may be computed in two ways.
_EXACT_SIGNS = frozenset("+-*/&|^")
_EXACT_CALLS = frozenset({
    "abs", "absolute", "add", "bitwise_and", "bitwise_or", "bitwise_xor", "ceil", "divide", "equal",
    "floor", "greater", "greater_equal", "invert", "isfinite", "isinf", "isnan", "len", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "multiply", "negative",
    "not_equal", "ones_like", "rint", "sign", "signbit", "sqrt", "square", "subtract",
    "true_divide", "trunc", "where", "zeros_like",
})  # fmt: skip
_FACTS = frozenset({"shape", "size", "ndim", "dtype"})


class MovePlan(Struct, frozen=True):
    """The assignments that move an array instead of copying it, and where temporaries end.

    Attributes:
        ops: ``id`` of each such ``Assign``.
        names: All names concerned; what they hold must be their own, never a view.
        ends: By ``id`` of an operator the names that nothing uses after it, whose memory is
            free from there on.
    """

    ops: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()
    last_used: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


NO_MOVE_PLAN = MovePlan()


def find_moves(steps: tuple[Step, ...], temporaries: frozenset[str]) -> MovePlan:
    """Find assignments that can move an array from name to name instead of copying it.

    Args:
        steps: The block.
        temporaries: Names that nothing outside of the block's code ever uses.
    """
    ops: set[int] = set()
    moved_names: set[str] = set()
    last_used: dict[int, tuple[str, ...]] = {}
    for net, names_of_net in _nets_with_own_names(steps):
        last = _last_uses(net, names_of_net & temporaries)
        for op in _handed_on(net, last) + _swaps(net):
            ops.add(id(op))
            moved_names |= _concerned(op)
        for name, user in sorted(last.items()):
            last_used[id(user)] = (*last_used.get(id(user), ()), name)
    return MovePlan(frozenset(ops), frozenset(moved_names), last_used)


def _nets_with_own_names(steps: tuple[Step, ...]) -> Iterator[tuple[Net, set[str]]]:
    """Yield each ``Net`` (list of assignments), and which names it alone uses, to elide copies."""
    uses: Counter[str] = Counter()
    nets: list[tuple[Net, set[str]]] = []
    for step in walk(steps):
        access = ACCESS_FINDER.of_step(step)
        used = {*access.reads, *access.binds, *access.atomic, *access.deletes}
        uses.update(used)
        if isinstance(step, Net):
            nets.append((step, used))
    for net, used in nets:
        yield net, {name for name in used if uses[name] == 1}


def _last_uses(net: Net, names: set[str]) -> dict[str, Op]:
    """Find the last assignment of a ``Net`` that uses each name: its copy may be elided."""
    if len({id(op) for op in net.ops}) < len(net.ops):
        # In a tree built by hand an operator may occur twice, and then has no last use.
        return {}
    bound: set[str] = set()
    carried: set[str] = set()
    last: dict[str, Op] = {}
    for op in net.ops:
        access = ACCESS_FINDER.of_op(op)
        touched = {*access.reads, *access.atomic, *access.deletes}
        # Read before it is bound: it carries a value from one pass to the next.
        carried.update(touched - bound, access.deletes)
        bound.update(access.binds)
        last.update(dict.fromkeys((*touched, *access.binds), op))
    return {name: op for name, op in last.items() if name in names and name not in carried}


def _handed_on(net: Net, last: Mapping[str, Op]) -> list[Assign]:
    """Find assignments ``blob = name`` whose copy is elided: nothing reads ``name`` later."""
    return [
        op
        for op in net.ops
        if isinstance(op, Assign)
        and len(op.targets) == 1
        and isinstance(op.value, Name)
        and last.get(op.value.name) is op
        and isinstance(op.targets[0], NameTarget)
        and op.targets[0].name != op.value.name
    ]


def _swaps(net: Net) -> list[Assign]:
    return [op for op in net.ops if isinstance(op, Assign) and permuted_names(op)]


def _concerned(op: Assign) -> set[str]:
    names = {target.name for target in op.targets}
    return names | ({op.value.name} if isinstance(op.value, Name) else set())


class Views(Struct, frozen=True):
    """Assignments that bind views.

    Attributes:
        gaps: By site, whether the view may have gaps; without them it is like its copy.
        at_end: Names that may hold views at the end of the block and live on, each with those
            that may then hold the same array.
    """

    gaps: Mapping[Site, bool] = field(default_factory=dict)
    at_end: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


NO_VIEWS = Views()


def find_views(
    steps: tuple[Step, ...],
    path: str,
    inlined: Collection[int],
    names: BlockNames,
    private: Collection[str],
    handed: Collection[str],
    move_plan: MovePlan,
) -> Views:
    """Find a block's assignments whose copy can be elided, as no later write shows the difference.

    Args:
        steps: The block.
        path: Its path.
        inlined: ``id`` of each step that is part of the block's own code.
        names: What is known of its names.
        private: Names that are variables of the code.
        handed: Names that functions outside of the code see.
        move_plan: Assignments that hand a value on.
    """
    block = _Block(names, private, handed, move_plan)
    parts = {
        id(op): tuple(block.parts(op))
        for step in walk(steps)
        if id(step) in inlined and isinstance(step, Net)
        for op in step.ops
        if isinstance(op, Assign)
    }
    targets = {
        part.site: part for part in chain.from_iterable(parts.values()) if part.site is not None
    }
    if not targets:
        return NO_VIEWS
    points = flow_graph.build_flow(steps, path, inlined)
    always = frozenset(filter(names.outlives, private))
    analysis = _Analysis(points, parts, frozenset(private), always, targets)
    if not analysis.settle():
        return NO_VIEWS
    visible = _visible_layouts(steps, chain.from_iterable(parts.values()))
    return Views(
        {
            site: targets[site].is_plain and targets[site].target not in visible
            for site in analysis.sites
        },
        analysis.at_end(),
    )


def is_never_changed(
    expr: Expr, target: str, names: BlockNames, shareable: Collection[str], move_plan: MovePlan
) -> bool:
    """Return whether an assignment's copy can be elided to a view, as neither name ever changes.

    Only for names that die with the task, and so before anything else can change.

    Args:
        expr: The value.
        target: The name that gets it.
        names: What is known of the block's names.
        shareable: Variables of the code that no function outside of it sees.
        move_plan: Assignments that hand a value on; it must be one of its own.
    """
    if target not in shareable or target in names.changed or target in move_plan.names:
        return False
    if names.scope(target) not in {Scope.TASK, Scope.INSTANCE}:
        return False
    return all(
        isinstance(leaf, Name)
        and leaf.name not in names.changed
        and leaf.name not in move_plan.names
        for leaf in aliased_leaves(expr)
    )


class _Part(Struct, frozen=True):
    """What one name gets in an assignment.

    Attributes:
        target: The name.
        sources: Names with which the value may share memory, unless it is copied.
        site: If that is this analysis's to decide.
        is_plain: The value is a part or the transpose of a name.
    """

    target: str
    sources: frozenset[str] = frozenset()
    site: Site | None = None
    is_plain: bool = False


class _Block:
    """What is known of a block's names."""

    def __init__(
        self,
        names: BlockNames,
        private: Collection[str],
        handed: Collection[str],
        move_plan: MovePlan,
    ) -> None:
        self._names = names
        self._private = frozenset(private)
        self._shareable = self._private - frozenset(handed)
        self._moves = move_plan

    def parts(self, op: Assign) -> Iterator[_Part]:
        """Yield each target of an assignment whose copy may be elided, with the value it gets."""
        values = op.value.items if isinstance(op.value, Sequence) else ()
        with_items = any(isinstance(target, ItemTarget) for target in op.targets)
        for number, target in enumerate(op.targets):
            if not isinstance(target, NameTarget):
                continue
            whole = len(op.targets) == 1 or len(values) != len(op.targets)
            value = op.value if whole else values[number]
            # Items are assigned after all values. A name must not see that change.
            yield self._part(op, number, target.name, value, may_share=not with_items)

    def _part(self, op: Assign, number: int, target: str, value: Expr, *, may_share: bool) -> _Part:
        # A fresh value is an array of its own, or a tuple, which is copied.
        leaves = () if is_fresh(value) else tuple(aliased_leaves(value))
        sources = frozenset(leaf.name for leaf in leaves if isinstance(leaf, Name))
        is_shared = id(op) in self._moves.ops or (
            (len(op.targets) == 1 or value is not op.value)
            and is_never_changed(value, target, self._names, self._shareable, self._moves)
        )
        if is_shared:
            return _Part(target, sources)
        may_share = may_share and target in self._shareable and target not in self._moves.names
        if (
            may_share
            and sources
            and len(sources) == len(set(leaves))
            and all(map(self._is_steady, sources))
        ):
            return _Part(target, sources, (id(op), number), is_plain_view(value))
        return _Part(target)

    def _is_steady(self, name: str) -> bool:
        """Return whether copies of a name's array can be elided, as only this block changes it."""
        return name in self._private or name not in self._names.changed


class _Analysis:
    """Removes from a set of sites those that a write would make visible.

    Args:
        points: The block's control-flow graph.
        parts: By ``id`` of an assignment, what its names get.
        private: Names that are variables of the code; others may be read by anything.
        always: Names that something outside of the block may read, whenever it ends.
        targets: What a name gets in each assignment that could bind a view.

    Attributes:
        sites: The assignments that bind views, of which ``settle`` removes some.
    """

    def __init__(
        self,
        points: list[Point],
        parts: Mapping[int, tuple[_Part, ...]],
        private: frozenset[str],
        always: frozenset[str],
        targets: Mapping[Site, _Part],
    ) -> None:
        self._points = points
        self._parts = parts
        self._all_parts = tuple(chain.from_iterable(parts.values()))
        self._private = private
        self._always = always
        self._targets = targets
        self.sites = set(targets)
        self._before: dict[int, _Sharing] = {}
        self._relevant = self._find_relevant()
        self._visits = 0

    def settle(self) -> bool:
        """Undo elided copies until no view sees a write; return False for too large a block."""
        while True:
            if not self._propagate():
                return False
            seen = {site for point in self._points for site in self._seen_at(point)}
            if not seen:
                return True
            self.sites -= seen

    def at_end(self) -> dict[str, tuple[str, ...]]:
        """Map each name that an elided copy leaves as a view to names that may hold its array.

        These are the ones that may hold the same array at some point.
        """
        views = {part.target for part in self._all_parts if part.site in self.sites}
        shared = [part for part in self._all_parts if part.site is None]
        _close(views, [(part.sources, (part.target,)) for part in shared])
        sharers: dict[str, set[str]] = {name: set() for name in views & self._always}
        for state in self._before.values():
            for name in sharers.keys() & state.keys():
                sharers[name] |= state[name].keys() & self._always
        return {name: tuple(sorted(sharers[name])) for name in sorted(sharers)}

    def _propagate(self) -> bool:
        """Find which names hold one array before each operator because copies are elided.

        Return False if the block is too large for that.
        """
        first = self._points[0]
        entry = {name: {_OUTSIDE: _NO_SITES} for name in self._relevant}
        self._before = {id(first): entry}
        waiting = [first]
        while waiting:
            point = waiting.pop()
            self._visits += 1 + len(self._before[id(point)])
            if self._visits > _MOST_VISITS:
                return False
            sharing = self._after(point, self._before[id(point)])
            waiting += [after for after in point.after if self._join(after, sharing)]
        return True

    def _find_relevant(self) -> frozenset[str]:
        """Return the names that may share memory with another name because a copy is elided."""
        relevant = {
            name for part in self._targets.values() for name in (part.target, *part.sources)
        }
        bound = [(part.sources, (part.target,)) for part in self._all_parts]
        _close(relevant, [*bound, *((point.reads, point.makes) for point in self._points)])
        return frozenset(relevant)

    def _join(self, point: Point, more: _Sharing) -> bool:
        """Add names that share an array by elided copies to a flow point; return if any is new."""
        known = self._before.get(id(point))
        if known is None:
            self._before[id(point)] = {name: dict(others) for name, others in more.items()}
            return True
        is_new = False
        for name, others in more.items():
            mine = known.setdefault(name, {})
            for other, sites in others.items():
                if other not in mine or not sites <= mine[other]:
                    mine[other] = mine.get(other, _NO_SITES) | sites
                    is_new = True
        return is_new

    def _after(self, point: Point, before: _Sharing) -> _Sharing:
        """Return which names hold the same array after an operator, because copies were elided."""
        live = point.live | self._always
        gone = {name for name in before if name not in live or name in point.binds}
        sharing = {
            name: {other: sites for other, sites in others.items() if other not in gone}
            for name, others in before.items()
            if name not in gone
        }
        if point.keeps:
            self._let_out(sharing, point, before)
        elif isinstance(point.op, Assign):
            self._bind(sharing, self._parts.get(id(point.op), ()), before, gone, live)
        return sharing

    def _bind(
        self,
        sharing: _Sharing,
        parts: Iterable[_Part],
        before: _Sharing,
        gone: set[str],
        live: Collection[str],
    ) -> None:
        """Record which names share an assignment's array if its copy is elided."""
        sharers = [
            (part.target, self._shared_by(part, before))
            for part in parts
            if part.target in live and (part.site is None or part.site in self.sites)
        ]
        for number, (target, others) in enumerate(sharers):
            for other, sites in others.items():
                if other == _OUTSIDE or (other not in gone and other in live):
                    _add(sharing, target, other, sites)
            for second, thirds in sharers[:number]:
                # The memory may be disjoint, but indices are rarely known here.
                common = (others.keys() & thirds.keys()) - {_OUTSIDE}
                for name in common if second != target else ():
                    _add(sharing, target, second, others[name] | thirds[name])

    def _shared_by(self, part: _Part, before: _Sharing) -> dict[str, _Sites]:
        """Return the names with which an assigned value may share memory if its copy is elided."""
        site = frozenset((part.site,)) if part.site is not None else _NO_SITES
        sharers: dict[str, _Sites] = {}
        for source in part.sources:
            others = before.get(source, {})
            if source not in self._private:
                others = {_OUTSIDE: _NO_SITES}
            for other, sites in ((source, _NO_SITES), *others.items()):
                sharers[other] = sharers.get(other, _NO_SITES) | sites | site
        return sharers

    def _let_out(self, sharing: _Sharing, point: Point, before: _Sharing) -> None:
        """Mark arrays with elided copies as shared with a called step, which may keep them."""
        reads, makes = point.reads & self._relevant, point.makes & self._relevant
        self._visits += len(reads) * len(makes)
        for name in reads:
            for other, sites in before.get(name, {}).items():
                if other in sharing:
                    _add(sharing, other, _OUTSIDE, sites)
        for name in reads | makes:
            _add(sharing, name, _OUTSIDE, _NO_SITES)
        for result in makes:
            for name in reads - {result}:
                _add(sharing, result, name, _NO_SITES)
                for other, sites in before.get(name, {}).items():
                    if other in sharing and other != result:
                        _add(sharing, result, other, sites)

    def _seen_at(self, point: Point) -> Iterator[Site]:
        """Yield assignments whose copy cannot be elided: a write at ``point`` would show it."""
        if not point.changes:
            return
        state = self._before.get(id(point), {})
        live = point.live | self._always
        if point.keeps or _reads_while_writing(point.op):
            live = live | point.reads
        for name in point.changes & state.keys():
            for other, sites in state[name].items():
                present = sites & self.sites
                if present and (other == _OUTSIDE or other in live):
                    yield self._chosen(name, other, present)

    def _chosen(self, written: str, other: str, sites: _Sites) -> Site:
        """Choose which elided copy to make after all, where a write would change another name."""

        def rank(site: Site) -> tuple[int, Site]:
            target = self._targets[site].target
            return ((written, other).index(target) if target in {written, other} else 2, site)

        return min(sites, key=rank)


def _add(sharing: _Sharing, first: str, second: str, sites: _Sites) -> None:
    ways = ((first, second),) if second == _OUTSIDE else ((first, second), (second, first))
    for name, other in ways:
        others = sharing.setdefault(name, {})
        others[other] = others.get(other, _NO_SITES) | sites


def _reads_while_writing(op: Op | None) -> bool:
    """Return whether an operator would read and write the same memory if a copy were elided."""
    match op:
        case Assign(targets=targets):
            if len(targets) > 1:
                return True
            (target,) = targets
            return isinstance(target, ItemTarget) and not has_basic_index(target.index)
        case Augment(operator=sign, target=target):
            # Elementwise: numpy reads overlapping operands before it writes.
            whole = not isinstance(target, ItemTarget) or has_basic_index(target.index)
            return sign == "@" or not whole
        case _:
            return True


def _close(names: set[str], pairs: list[tuple[Collection[str], Collection[str]]]) -> None:
    """Add to names the second part of each pair whose first has one of them, until none is new."""
    size = -1
    while size != len(names):
        size = len(names)
        for causes, effects in pairs:
            if not names.isdisjoint(causes):
                names.update(effects)


def _visible_layouts(steps: tuple[Step, ...], parts: Iterable[_Part]) -> set[str]:
    """Collect all names whose copies cannot be elided, as memory layout changes results."""
    visible: set[str] = set()
    for step in walk(steps):
        if isinstance(step, Net):
            for op in step.ops:
                visible.update(names_with_visible_layout(op, op_expressions(op)))
        else:
            visible.update(names_with_visible_layout(None, expressions(step)))
    _close(visible, [((part.target,), part.sources) for part in parts if part.site is None])
    return visible


def names_with_visible_layout(op: Op | None, exprs: Iterable[Expr]) -> Iterator[str]:
    """Yield names whose copies cannot be elided, as memory layout changes an operator's result.

    Args:
        op: The operator; None for a condition.
        exprs: Its expressions.
    """
    for expr in exprs:
        for part in walk_expr(expr):
            if not _is_exact(part):
                for operand in children(part):
                    yield from _names(operand)
    if isinstance(op, Augment) and op.operator not in _EXACT_SIGNS:
        yield op.target.name
        yield from _names(op.value)


def has_basic_index(index: Expr) -> bool:
    """Return whether an index of integers and slices gives a view, so that a copy can be elided."""
    match index:
        case Const(value=value, ellipsis=ellipsis):
            return ellipsis or value is None or type(value) is int
        case Slice() | LoopIndex():
            return True
        case Unary(operator="-", operand=operand):
            return has_basic_index(operand)
        case Binary(left=lhs, right=rhs):
            return _is_integer(lhs) and _is_integer(rhs)
        case Sequence(kind="tuple", items=items):
            return all(map(has_basic_index, items))
        case _:
            return False


def part_of_array(expr: Expr) -> str:
    """Return the name ``U`` in a slice ``U[1:]``, whose copy can be elided if it is an array.

    Empty text for any other value.
    """
    match expr:
        case Index(value=Name(name=name), index=index) if has_basic_index(index):
            parts = index.items if isinstance(index, Sequence) else (index,)
            return name if any(isinstance(part, Slice) for part in parts) else ""
        case _:
            return ""


def _is_integer(expr: Expr) -> bool:
    match expr:
        case Const(value=value):
            return type(value) is int
        case LoopIndex():
            return True
        case Unary(operator="-", operand=operand):
            return _is_integer(operand)
        case Binary(left=lhs, right=rhs):
            return _is_integer(lhs) and _is_integer(rhs)
        case _:
            return False


def _is_exact(expr: Expr) -> bool:
    """Return whether an expression gives the same bits if an operand's copy is elided."""
    match expr:
        case Binary(operator="**", right=Const(value=int(exponent))):
            return exponent == 2
        case Binary(operator=sign):
            return sign in _EXACT_SIGNS
        case Unary() | Compare() | Conditional() | Slice() | Text():
            return True
        case Call(function=name, kwargs=kwargs):
            return name in _EXACT_CALLS and not kwargs
        case Attribute(name=name):
            return name == "T" or name in _FACTS
        case Index(index=index):
            return has_basic_index(index)
        case Sequence():
            # As a blob it is copied, and copies keep the order of axes.
            return True
        case _:
            return not children(expr)


def _names(expr: Expr) -> Iterator[str]:
    """Yield the names of blobs whose memory a value would share if its copy were elided."""
    if not is_fresh(expr):
        yield from (leaf.name for leaf in aliased_leaves(expr) if isinstance(leaf, Name))
