"""Derive the flow of drafted tasks whose steps differ in names only from that of the first.

What steps do to names does not depend on what these are, but on which of them are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jobrun.compile.faults import Place
from jobrun.compile.job_draft.definite_assignment import NameUses, Summary
from jobrun.core.lazy_dataclass import dataclass

_Made = tuple[Summary, NameUses]
# The name and the step of each use, by their numbers in the steps.
_Numbers = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class FlowShape:
    """The flow of the drafts of all tasks with steps that differ in names only.

    Attributes:
        make: Makes it from the names in the steps, and the place of each step; None if there has
            been no task yet, or if its flow has more than names and places.
        is_tried: There has been one.
    """

    make: Callable[[Sequence[str], Sequence[Place]], _Made] | None = None
    is_tried: bool = False


@dataclass(frozen=True, slots=True)
class RepeatedFlow:
    """The names and places of the steps in a task's draft, from which its flow follows.

    Attributes:
        shape: What is known of the flow of other tasks with such steps.
        names: The words of the steps, in their order; a name may occur several times.
        places: Those of the steps.
    """

    shape: FlowShape
    names: Sequence[str]
    places: Sequence[Place]

    def find(self) -> _Made | None:
        """Return the flow of the drafted task, if there was another one with such steps."""
        make = self.shape.make
        return make(self.names, self.places) if make is not None else None

    def learn(self, total: Summary, uses: NameUses) -> None:
        """Take the flow of the drafted task as that of all others with such steps."""
        if not self.shape.is_tried:
            self.shape.is_tried = True
            if not (total.stops or total.dead or uses.outputs):
                self.shape.make = _learn(total, uses, self.names, self.places)


def _learn(
    total: Summary, uses: NameUses, names: Sequence[str], places: Sequence[Place]
) -> Callable[[Sequence[str], Sequence[Place]], _Made] | None:
    """Return the function that makes the flow of a task's draft from names and places of steps."""
    numbers = {name: names.index(name) for name in names}
    steps = {place: number for number, place in enumerate(places)}
    kinds = (uses.reads, uses.writes, uses.atomic, uses.deletes, uses.called, uses.lent, uses.firm)
    if not numbers.keys() >= {*total.needs, *total.end}.union(*kinds):
        return None
    if not steps.keys() >= {*total.needs.values()}.union(*(one.values() for one in kinds)):
        return None

    def numbered(found: Mapping[str, Place]) -> _Numbers:
        return tuple((numbers[name], steps[place]) for name, place in found.items())

    needs, ends = numbered(total.needs), [(numbers[name], one) for name, one in total.end.items()]
    reads, writes, atomic, deletes, called, lent, firm = map(numbered, kinds)
    functions, is_firm = uses.functions, firm == writes

    def make(names: Sequence[str], places: Sequence[Place]) -> _Made:
        def placed(found: _Numbers) -> dict[str, Place]:
            return {names[one]: places[step] for one, step in found} if found else {}

        written = placed(writes)
        return Summary(placed(needs), {names[one]: status for one, status in ends}), NameUses(
            placed(reads),
            written,
            placed(atomic),
            placed(deletes),
            {},
            placed(called),
            placed(lent),
            written.copy() if is_firm else placed(firm),
            functions.copy(),
        )

    return make
