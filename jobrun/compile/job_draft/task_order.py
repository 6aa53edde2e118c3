"""Resolve the ``needs`` of a group's tasks, and tell which task runs before which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.core.text.names import did_you_mean

# Finds the spec position of a need by its index; called for faults only.
PositionOfNeed = Callable[[int], SpecPosition]


class TaskOrder:
    """The order of a group's tasks by their needs; tasks are given by position in the spec.

    Attributes:
        needs: For each task, the positions of the tasks that must have ended before it;
            without cycles.
        is_sound: No need was left out because of a fault.
    """

    def __init__(self, needs: Sequence[tuple[int, ...]], *, is_sound: bool = True) -> None:
        self.needs = needs
        self.is_sound = is_sound

    @cached_property
    def rank(self) -> list[int]:
        """Return each task's position in an order in which every task comes after its needs."""
        ranks = [0] * len(self.needs)
        for position, task in enumerate(sort_topologically(self.needs)[0]):
            ranks[task] = position
        return ranks

    @cached_property
    def reverse_rank(self) -> list[int]:
        """Return each task's rank in an order by ``needs`` that otherwise reverses the spec's.

        It differs from ``rank`` if ``needs`` permits more than one order.
        """
        last = len(self.needs) - 1
        mirrored = [tuple(last - need for need in self.needs[last - at]) for at in range(last + 1)]
        ranks = [0] * len(self.needs)
        for position, task in enumerate(sort_topologically(mirrored)[0]):
            ranks[last - task] = position
        return ranks

    @property
    def has_choice(self) -> bool:
        """Return whether the ``needs`` of a group's tasks permit more than one order."""
        return self.rank != self.reverse_rank

    @cached_property
    def _before(self) -> list[int]:
        """Build for each task the bit set of tasks that it needs, directly or through others.

        One bit operation unites thousands of tasks, so a chain of 10,000 takes milliseconds.
        """
        before = [0] * len(self.needs)
        for task in sort_topologically(self.needs)[0]:
            bits = 0
            for need in self.needs[task]:
                bits |= before[need] | (1 << need)
            before[task] = bits
        return before

    @cached_property
    def _after(self) -> list[int]:
        """Build for each task a bit set of the tasks that need it, directly or not."""
        after = [0] * len(self.needs)
        for task in reversed(sort_topologically(self.needs)[0]):
            for need in self.needs[task]:
                after[need] |= after[task] | (1 << task)
        return after

    def is_before(self, first: int, second: int) -> bool:
        """Return whether one task comes before another in the order by ``needs``."""
        # Most questions are about direct needs; the bits are built for the others.
        return first in self.needs[second] or bool(self._before[second] >> first & 1)

    def select_unordered(self, first: int, second: int) -> int:
        """Select from a bit set the tasks that ``needs`` puts neither before nor after a task.

        Args:
            first: The tasks, as bits.
            second: The position of the other task, which is not selected itself.
        """
        return first & ~(self._before[second] | self._after[second] | 1 << second)

    def select_concurrent(self, first: int, second: int) -> int:
        """Select from a bit set the tasks that a given task does not need, even indirectly."""
        return first & ~self._before[second]


def sort_topologically(needs: Sequence[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """Sort tasks so that each follows its needs; list those in cycles apart."""
    waiting = [len(set(task_needs)) for task_needs in needs]
    followers: list[list[int]] = [[] for _ in needs]
    for task, task_needs in enumerate(needs):
        for need in set(task_needs):
            followers[need].append(task)
    ready = [task for task, count in enumerate(waiting) if count == 0]
    ordered: list[int] = []
    for task in ready:  # grows while it is read
        ordered.append(task)
        for follower in followers[task]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                ready.append(follower)
    return ordered, [task for task, count in enumerate(waiting) if count > 0]


def resolve_needs(
    tasks: Mapping[str, tuple[tuple[str, ...], PositionOfNeed]],
    elsewhere: Mapping[str, str],
    faults: Faults,
) -> TaskOrder:
    """Resolve the ``needs`` of tasks to a ``TaskOrder``; add faults of wrong names, cycles.

    Args:
        tasks: For each task in spec order the names it needs, and what finds the position of one.
        elsewhere: Tasks of the other groups, and their groups.
        faults: Collects unknown names and cycles.

    Returns:
        The order; needs that are faulty are left out of it.
    """
    position = {name: index for index, name in enumerate(tasks)}
    resolved: list[tuple[int, ...]] = []
    is_sound = True
    for name, (needs, position_of) in tasks.items():
        needed = []
        for index, need in enumerate(needs):
            if need == name:
                faults.error("E171", f"task '{name}' needs itself", "remove it", position_of(index))
            elif need in position:
                needed.append(position[need])
            else:
                _note_unknown(need, position, elsewhere, position_of(index), faults)
        is_sound = is_sound and len(needed) == len(needs)
        resolved.append(tuple(dict.fromkeys(needed)))
    is_sound = _break_cycles(tasks, resolved, faults) and is_sound
    return TaskOrder(resolved, is_sound=is_sound)


def _note_unknown(
    need: str,
    known: Mapping[str, int],
    elsewhere: Mapping[str, str],
    spec_position: SpecPosition,
    faults: Faults,
) -> None:
    other = elsewhere.get(need)
    if other is not None:
        message = f"task '{need}' is in the group '{other}', but 'needs' orders tasks of one group"
        mend = "remove it: the groups run one after the other"
        faults.error("E172", message, mend, spec_position)
    else:
        faults.error("E170", f"unknown task '{need}'", did_you_mean(need, known), spec_position)


def _break_cycles(
    tasks: Mapping[str, tuple[tuple[str, ...], PositionOfNeed]],
    needs: list[tuple[int, ...]],
    faults: Faults,
) -> bool:
    """Remove ``needs`` until no cycle of tasks is left, with a fault for each."""
    names = list(tasks)
    is_sound = True
    while cyclic := set(sort_topologically(needs)[1]):
        is_sound = False
        cycle = _find_cycle(needs, cyclic)
        shown = " -> ".join(names[task] for task in cycle)
        first, second = cycle[0], cycle[1]
        written, position_of = tasks[names[first]]
        message = f"circular dependency: {shown}"
        mend = "remove one of these needs"
        faults.error("E173", message, mend, position_of(written.index(names[second])))
        needs[first] = tuple(need for need in needs[first] if need != second)
        # All other edges among these tasks are removed too: one fault per group of cycles.
        for task in cycle:
            needs[task] = tuple(need for need in needs[task] if need not in cycle)
    return is_sound


def _find_cycle(needs: Sequence[tuple[int, ...]], among: set[int]) -> list[int]:
    """Find a cycle of ``needs``: a list of tasks that begins and ends with the same task."""
    task = min(among)
    seen: dict[int, int] = {}
    cycle: list[int] = []
    # Each task in a cycle needs another one in it, so the walk comes back to a task seen before.
    while task not in seen:
        seen[task] = len(cycle)
        cycle.append(task)
        task = next(need for need in needs[task] if need in among)
    cycle = cycle[seen[task] :]
    start = cycle.index(min(cycle))
    cycle = cycle[start:] + cycle[:start]
    return [*cycle, cycle[0]]
