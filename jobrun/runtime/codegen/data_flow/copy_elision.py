"""Find assignments that may move an array instead of copying it, since its old name is dead.

Static, and careful: where the text does not prove it, the value is copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field

from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.expressions import Name
from jobrun.graph.step_traversal import walk
from jobrun.graph.steps import Assign, NameTarget, Net, Op, Step
from jobrun.runtime.codegen.liveness import access_finder
from jobrun.runtime.codegen.optimize.alias_analysis import permuted_names


@dataclass(frozen=True, slots=True)
class Moves:
    """The assignments that move an array instead of copying it, and where temporaries end.

    Attributes:
        ops: ``id`` of each such ``Assign``.
        names: All names concerned; what they hold must be their own, never a view.
        ends: By ``id`` of an operator the names that nothing uses after it, whose memory is
            free from there on.
    """

    ops: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()
    ends: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


NO_MOVES = Moves()


def find_moves(steps: tuple[Step, ...], temporaries: frozenset[str]) -> Moves:
    """Find the assignments of a block whose copy is elided: an array moves, its old name is dead.

    Args:
        steps: The block.
        temporaries: Names that nothing outside of the block's code ever uses.
    """
    found: set[int] = set()
    names: set[str] = set()
    ends: dict[int, tuple[str, ...]] = {}
    for net, own in _nets_with_own_names(steps):
        last = _last_uses(net, own & temporaries)
        for op in _handed_on(net, last) + _swaps(net):
            found.add(id(op))
            names |= _concerned(op)
        for name, user in sorted(last.items()):
            ends[id(user)] = (*ends.get(id(user), ()), name)
    return Moves(frozenset(found), frozenset(names), ends)


def _nets_with_own_names(steps: tuple[Step, ...]) -> Iterator[tuple[Net, set[str]]]:
    """List nets with the names that no other step uses, whose copies may be elided."""
    uses: Counter[str] = Counter()
    nets: list[tuple[Net, set[str]]] = []
    look = access_finder()
    for step in walk(steps):
        access = look.of_step(step)
        used = {*access.reads, *access.binds, *access.atomic, *access.deletes}
        uses.update(used)
        if isinstance(step, Net):
            nets.append((step, used))
    for net, used in nets:
        yield net, {name for name in used if uses[name] == 1}


def _last_uses(net: Net, names: set[str]) -> dict[str, Op]:
    """Find each name's last use in a net, where the copy of its array may be elided."""
    if len({id(op) for op in net.ops}) < len(net.ops):
        # Made by hand: an operator that occurs twice has no last use.
        return {}
    look = access_finder()
    bound: set[str] = set()
    kept: set[str] = set()
    last: dict[str, Op] = {}
    for op in net.ops:
        access = look.of_op(op)
        touched = {*access.reads, *access.atomic, *access.deletes}
        # Read before it is bound: it carries a value from one pass to the next.
        kept.update(touched - bound, access.deletes)
        bound.update(access.binds)
        last.update(dict.fromkeys((*touched, *access.binds), op))
    return {name: op for name, op in last.items() if name in names and name not in kept}


def _handed_on(net: Net, last: Mapping[str, Op]) -> list[Assign]:
    """Find assignments ``blob = name`` whose copy is elided, as the name is dead after them."""
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
    names = {one.name for one in op.targets}
    return names | ({op.value.name} if isinstance(op.value, Name) else set())
