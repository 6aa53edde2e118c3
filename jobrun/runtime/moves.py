"""Assignments that may hand an array on instead of copying it, since its old name ends there.

Static, and careful: where the text does not prove it, the value is copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from jobrun.graph.expr import Name
from jobrun.graph.query import walk
from jobrun.graph.steps import Assign, NameTarget, Net, Op, Step
from jobrun.runtime.alias import permuted
from jobrun.runtime.usage import finder


@dataclass(frozen=True, slots=True)
class Moves:
    """Which assignments hand on, and which names give or take.

    Attributes:
        ops: ``id`` of each such ``Assign``.
        names: All names concerned; what they hold must be their own, never a view.
    """

    ops: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()


NO_MOVES = Moves()


def moves(steps: tuple[Step, ...], temporaries: frozenset[str]) -> Moves:
    """The moves of a block.

    Args:
        steps: The block.
        temporaries: Names that nothing outside of the block's code ever uses.
    """
    found: set[int] = set()
    names: set[str] = set()
    for net, own in _nets_with_own_names(steps):
        for op in _ending(net, own & temporaries) + _swaps(net):
            found.add(id(op))
            names |= _concerned(op)
    return Moves(frozenset(found), frozenset(names))


def _nets_with_own_names(steps: tuple[Step, ...]) -> Iterator[tuple[Net, set[str]]]:
    """Each net, with the names that no other step of the block uses."""
    uses: Counter[str] = Counter()
    nets: list[tuple[Net, set[str]]] = []
    look = finder()
    for step in walk(steps):
        access = look.of_step(step)
        used = {*access.reads, *access.binds, *access.atomic, *access.deletes}
        uses.update(used)
        if isinstance(step, Net):
            nets.append((step, used))
    for net, used in nets:
        yield net, {name for name in used if uses[name] == 1}


def _ending(net: Net, names: set[str]) -> list[Assign]:
    """``blob = name`` where the name is bound before it in the net, and never used after it."""
    look = finder()
    bound: set[str] = set()
    last: dict[str, Op] = {}
    for op in net.ops:
        access = look.of_op(op)
        touched = {*access.reads, *access.atomic, *access.deletes}
        # Read before it is bound: it carries a value from one pass to the next.
        names -= touched - bound
        bound.update(access.binds)
        last.update(dict.fromkeys((*touched, *access.binds), op))
    found = []
    for op in net.ops:
        if isinstance(op, Assign) and len(op.targets) == 1 and isinstance(op.value, Name):
            given, target = op.value.name, op.targets[0]
            if given in names and last[given] is op and isinstance(target, NameTarget):
                found.append(op)
    return found


def _swaps(net: Net) -> list[Assign]:
    return [op for op in net.ops if isinstance(op, Assign) and permuted(op)]


def _concerned(op: Assign) -> set[str]:
    names = {one.name for one in op.targets}
    return names | ({op.value.name} if isinstance(op.value, Name) else set())
