"""The order that ``needs`` gives the tasks of a group: checked, and then asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from jobrun.compile.faults import Faults, Place
from jobrun.core.names import did_you_mean


class Order:
    """The tasks of one group, by their position in the spec.

    Args:
        needs: For each task, the positions of the tasks that must have ended before it;
            without cycles.
        is_sound: No need was left out because of a fault.
    """

    def __init__(self, needs: Sequence[tuple[int, ...]], *, is_sound: bool = True) -> None:
        self._needs = needs
        self.is_sound = is_sound

    @cached_property
    def rank(self) -> list[int]:
        """For each task its place in an order in which every task comes after its needs."""
        ranks = [0] * len(self._needs)
        for position, task in enumerate(topological(self._needs)[0]):
            ranks[task] = position
        return ranks

    @cached_property
    def _before(self) -> list[int]:
        """For each task, as bits, all tasks that certainly have ended when it starts.

        One bit operation joins thousands of tasks, so a chain of 10,000 takes milliseconds.
        """
        before = [0] * len(self._needs)
        for task in topological(self._needs)[0]:
            bits = 0
            for need in self._needs[task]:
                bits |= before[need] | (1 << need)
            before[task] = bits
        return before

    def is_before(self, first: int, second: int) -> bool:
        """Whether ``first`` has certainly ended when ``second`` starts."""
        # Most questions are about direct needs; the bits are built for the others.
        return first in self._needs[second] or bool(self._before[second] >> first & 1)

    def not_before(self, first: int, second: int) -> int:
        """Of the tasks in the bits ``first``, those that may run beside ``second``."""
        return first & ~self._before[second]


def topological(needs: Sequence[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """Tasks after their needs, ties in spec order; and those that no order has room for."""
    waiting = [len(set(one)) for one in needs]
    followers: list[list[int]] = [[] for _ in needs]
    for task, one in enumerate(needs):
        for need in set(one):
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


def check_needs(
    group: str,
    tasks: Mapping[str, tuple[tuple[str, ...], Sequence[Place]]],
    elsewhere: Mapping[str, str],
    faults: Faults,
) -> Order:
    """Resolve the ``needs`` of a group's tasks.

    Args:
        group: Its name.
        tasks: For each task in spec order the names it needs and the place of each.
        elsewhere: Tasks of the other groups, and their groups.
        faults: Where to note names that are not known and cycles.

    Returns:
        The order; needs that are faulty are left out of it.
    """
    position = {name: index for index, name in enumerate(tasks)}
    resolved: list[tuple[int, ...]] = []
    is_sound = True
    for name, (needs, places) in tasks.items():
        found = []
        for need, place in zip(needs, places, strict=True):
            if need == name:
                faults.error("E171", f"task '{name}' needs itself", "leave it out", place)
            elif need in position:
                found.append(position[need])
            else:
                _unknown(need, group, position, elsewhere, place, faults)
        is_sound = is_sound and len(found) == len(needs)
        resolved.append(tuple(dict.fromkeys(found)))
    is_sound = _cut_cycles(tasks, resolved, faults) and is_sound
    return Order(resolved, is_sound=is_sound)


def _unknown(
    need: str, group: str, known: Mapping[str, int], elsewhere: Mapping[str, str], place: Place,
    faults: Faults,
) -> None:  # fmt: skip
    other = elsewhere.get(need)
    if other is not None:
        message = f"task '{need}' is in the group '{other}', and 'needs' orders tasks of one group"
        mend = f"leave it out: the groups run one after the other, '{group}' among them"
        faults.error("E172", message, mend, place)
    else:
        faults.error("E170", f"unknown task '{need}'", did_you_mean(need, known), place)


def _cut_cycles(
    tasks: Mapping[str, tuple[tuple[str, ...], Sequence[Place]]],
    needs: list[tuple[int, ...]],
    faults: Faults,
) -> bool:
    """Leave needs out until no cycle is left, with a fault for each; whether there was none."""
    names = list(tasks)
    is_sound = True
    while left := set(topological(needs)[1]):
        is_sound = False
        way = _cycle(needs, left)
        shown = " -> ".join(names[task] for task in way)
        first, second = way[0], way[1]
        written, places = tasks[names[first]]
        faults.error("E173", f"these tasks wait for each other: {shown}",
                     "take one of the needs out", places[written.index(names[second])])  # fmt: skip
        needs[first] = tuple(need for need in needs[first] if need != second)
        # Every other edge among the tasks of this cycle goes too: one fault per knot.
        for task in way:
            needs[task] = tuple(need for need in needs[task] if need not in way)
    return is_sound


def _cycle(needs: Sequence[tuple[int, ...]], among: set[int]) -> list[int]:
    """One cycle, from its first task in spec order back to it."""
    task = min(among)
    seen: dict[int, int] = {}
    way: list[int] = []
    # Every task that is left needs one that is left, so the walk comes back to itself.
    while task not in seen:
        seen[task] = len(way)
        way.append(task)
        task = next(need for need in needs[task] if need in among)
    cycle = way[seen[task] :]
    start = cycle.index(min(cycle))
    cycle = cycle[start:] + cycle[:start]
    return [*cycle, cycle[0]]
