"""What the tasks of a group must agree on to be joined by queues: two ends, one form, no circle.

A task that writes ends when its records have room, so tasks that read from it must run; a task
that reads ends when those that write to it have ended. ``needs`` adds that a task starts when
others have ended. Together these must not go round in a circle, or the group would never end;
that is proven here, so nothing has to be found out at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jobrun.compile.faults import Faults, Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.order import topological
from jobrun.compile.tasks import Draft
from jobrun.graph.data import Queue, ReadQueue, ReadRecords, WriteQueue
from jobrun.graph.types import GroupName
from jobrun.spec.source import SourceMap


@dataclass(slots=True)
class Ends:
    """The tasks at the two ends of one queue in one group, in the order of the spec."""

    queue: Queue
    writers: list[tuple[Draft, WriteQueue, Place]] = field(default_factory=list)
    readers: list[tuple[Draft, Place]] = field(default_factory=list)


def ends_of(group: GroupDraft) -> dict[str, Ends]:
    """The ends of all queues that a group uses, by name."""
    found: dict[str, Ends] = {}
    for task in group.tasks:
        records = task.records
        for one, place in zip(records.write, records.write_at, strict=True):
            found.setdefault(one.queue.name, Ends(one.queue)).writers.append((task, one, place))
        if isinstance(records.read, ReadQueue):
            queue = records.read.queue
            found.setdefault(queue.name, Ends(queue)).readers.append((task, records.read_at))
    return found


def check_pipelines(
    groups: Mapping[GroupName, GroupDraft], queues: Sequence[Queue], source: SourceMap,
    faults: Faults,
) -> None:  # fmt: skip
    """Note what is wrong with the queues of a job and the tasks at their ends."""
    ends = {name: ends_of(group) for name, group in groups.items()}
    used = {name for found in ends.values() for name in found}
    for queue in queues:
        if queue.name not in used:
            faults.error(
                "E192", f"no task writes to queue '{queue.name}' or reads from it",
                f"write to it with write: {{{queue.name}: [x]}} and read it with read: "
                f"{queue.name}, or take it out", Place(queue.path, queue.origin),
            )  # fmt: skip
    for name, group in groups.items():
        elsewhere = {one: other for other, found in ends.items() if other != name for one in found}
        for found in ends[name].values():
            _check_ends(found, name, elsewhere, faults)
            _check_forms(found, faults)
            _check_order(found, faults)
        _Circles(group, ends[name], source, faults).check()
        for task in group.tasks:
            _check_tolerance(task, faults)


def _check_ends(
    ends: Ends, group: GroupName, elsewhere: Mapping[str, GroupName], faults: Faults
) -> None:
    name = ends.queue.name
    sides = [
        ("write", "writes to", "reads from", [(task, at) for task, _, at in ends.writers],
         [task for task, _ in ends.readers]),
        ("read", "reads from", "writes to", ends.readers, [task for task, _, _ in ends.writers]),
    ]  # fmt: skip
    for key, verb, missing, here, there in sides:
        if here and not there:
            task, place = here[0]
            other = elsewhere.get(name)
            within = f" in '{group}'" if other else ""
            message = f"task '{task.name}' {verb} queue '{name}', and no task{within} {missing} it"
            mend = f"{_other_end(key, name)} in another task of '{group}'"
            if other:
                mend += f"; a queue ends with its group, so '{other}' has one of its own"
            faults.error("E192", message, mend, place)
        elif not ends.queue.shared:
            _check_nodes(name, verb, missing, here, there, faults)


def _other_end(key: str, name: str) -> str:
    return f"add read: {name}" if key == "write" else f"add write: {{{name}: [x]}}"


def _check_nodes(
    name: str, verb: str, missing: str, here: list[tuple[Draft, Place]], there: list[Draft],
    faults: Faults,
) -> None:  # fmt: skip
    nodes = {node for task in there for node in task.nodes}
    for task, place in here:
        alone = next((node for node in task.nodes if node not in nodes), None)
        if alone is not None:
            faults.error(
                "E192", f"task '{task.name}' {verb} queue '{name}' on node '{alone}', and no task "
                f"there {missing} it", f"put '{there[0].name}' on that node too, or give the queue "
                "shared: true, which makes it one for all nodes", place,
            )  # fmt: skip
            return


def _check_forms(ends: Ends, faults: Faults) -> None:
    """All writers of a queue send the same names."""
    if not ends.writers:
        return
    first, sent, at = ends.writers[0]
    for task, one, place in ends.writers[1:]:
        if one.names != sent.names:
            faults.error(
                "E193", f"task '{task.name}' sends {', '.join(one.names)} by queue "
                f"'{ends.queue.name}', and task '{first.name}' sends {', '.join(sent.names)}, at "
                f"{at.origin}", "send the same blobs in the same order, or use two queues", place,
            )  # fmt: skip

    for task, place in ends.readers:
        read = task.records.read
        if isinstance(read, ReadQueue) and read.names not in ((), sent.names):
            faults.error(
                "E193", f"task '{task.name}' reads {', '.join(read.names)} from queue "
                f"'{ends.queue.name}', and task '{first.name}' sends {', '.join(sent.names)}",
                "read what is sent, in the same order", place,
            )  # fmt: skip


def _check_order(ends: Ends, faults: Faults) -> None:
    """Records of an ordered queue need numbers, which one source gives out."""
    queue = ends.queue
    if not queue.ordered or not ends.writers:
        return
    task, _, place = ends.writers[-1]
    read = task.records.read
    if len(ends.writers) > 1:
        message = f"task '{ends.writers[0][0].name}' writes to it too"
        mend = "give each of them a queue of its own"
    elif queue.shared and len(task.nodes) > 1:
        message = f"task '{task.name}' writes to it from {len(task.nodes)} nodes"
        mend = "take shared or ordered from the queue"
    elif task.spec.instances > 1 and isinstance(read, ReadRecords) and (
        read.reader.shard == "instance"
    ):  # fmt: skip
        message = f"each instance of '{task.name}' reads rows of its own"
        mend = f"take 'shard: instance' from the reader '{read.reader.name}'"
    else:
        return
    faults.error(
        "E124", f"queue '{queue.name}' is ordered, and {message}: nothing says whose records come "
        "first", mend, place,
    )  # fmt: skip


def _check_tolerance(task: Draft, faults: Faults) -> None:
    records = task.records
    if task.spec.on_error != "warn":
        return
    names = [one.queue.name for one in records.write]
    if isinstance(records.read, ReadQueue):
        names.append(records.read.queue.name)
    if names:
        faults.error(
            "E122", f"task '{task.name}' has 'on_error: warn' and an end of queue '{names[0]}': "
            "after a failure the tasks at the other end would have worked on a part of the records",
            "take 'on_error' out: when one task of a pipeline fails, all of it does", task.place,
        )  # fmt: skip


class _Circles:
    """Looks for tasks of a group that wait for each other by way of queues."""

    def __init__(
        self, group: GroupDraft, ends: Mapping[str, Ends], source: SourceMap, faults: Faults
    ) -> None:
        self._group = group
        self._source = source
        self._faults = faults
        self._next: dict[int, list[int]] = {}
        self._queues: dict[tuple[int, int], str] = {}
        for name, one in ends.items():
            for writer, _, _ in one.writers:
                for reader, _ in one.readers:
                    pair = (writer.position, reader.position)
                    self._next.setdefault(pair[0], []).append(pair[1])
                    self._next.setdefault(pair[1], [])
                    self._queues.setdefault(pair, name)

    def check(self) -> None:
        """Note each kind of circle that there is."""
        if self._check_records() and self._group.order.is_sound:
            self._check_needs()

    def _check_records(self) -> bool:
        """Whether no record can come back to a task that it has been in."""
        positions = sorted(self._next)
        index = {position: number for number, position in enumerate(positions)}
        after = [tuple(index[one] for one in self._next[position]) for position in positions]
        left = topological(after)[1]
        if not left:
            return True
        way = self._way(positions[left[0]], {positions[one] for one in left})
        names = [self._group.tasks[one].name for one in way]
        task = self._group.tasks[way[0]]
        queue = self._queues[way[0], way[1]]
        if len(way) == 2:
            message = f"task '{names[0]}' reads from queue '{queue}', and writes to it"
        else:
            message = f"records go round in a circle: {' -> '.join(names)}"
        self._faults.error(
            "E173", f"{message}; a queue is closed when the tasks that write to it have ended, "
            "which would never be", "let the records end in the last task, or loop in its steps",
            task.records.read_at,
        )  # fmt: skip
        return False

    def _way(self, start: int, among: set[int]) -> list[int]:
        """A circle among tasks each of which leads to another of them."""
        way = [start]
        while way.count(way[-1]) < 2:
            way.append(next(one for one in self._next[way[-1]] if one in among))
        return way[way.index(way[-1]) :]

    def _check_needs(self) -> None:
        order = self._group.order
        positions = sorted(self._next)
        index = {position: number for number, position in enumerate(positions)}
        beside = {position: self._run_beside(position) for position in positions}
        waits: list[tuple[int, ...]] = []
        for second in positions:
            firsts = [one for one in positions if order.is_before(one, second)]
            direct = [one for one in firsts if second in beside[one]]
            if direct:
                self._report(direct[0], second)
            found = {one for first in firsts for one in (first, *beside[first])}
            waits.append(tuple(index[one] for one in found if not direct))
        for number in topological(waits)[1][:1]:
            self._report_way(self._group.tasks[positions[number]])

    def _run_beside(self, task: int) -> set[int]:
        """The tasks that must have started for this one to end."""
        before = {task, *self._reached(task, self._previous())}
        return {after for one in before for after in self._reached(one, self._next)} | before - {
            task
        }

    def _previous(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for one, after in self._next.items():
            for other in after:
                found.setdefault(other, []).append(one)
        return found

    @staticmethod
    def _reached(start: int, table: Mapping[int, list[int]]) -> Iterator[int]:
        seen = {start}
        ready = [start]
        for one in ready:  # grows while it is read
            for other in table.get(one, ()):
                if other not in seen:
                    seen.add(other)
                    ready.append(other)
        yield from ready[1:]

    def _report(self, first: int, second: int) -> None:
        one, two = self._group.tasks[first], self._group.tasks[second]
        name = self._queues.get((first, second)) or self._queues.get((second, first))
        joined = f"queue '{name}' joins them" if name else "queues join them"
        self._faults.error(
            "E173", f"task '{two.name}' starts when '{one.name}' has ended, and {joined}: they can "
            "only run at the same time", "take the need out; a task that reads a queue waits for "
            "records by itself", self._needs_of(two),
        )  # fmt: skip

    def _report_way(self, task: Draft) -> None:
        self._faults.error(
            "E173", f"task '{task.name}' waits for tasks that, by way of queues and needs, wait "
            "for it", "take one of the needs out", self._needs_of(task),
        )  # fmt: skip

    def _needs_of(self, task: Draft) -> Place:
        origin = self._source.key((*task.at, "needs"))
        return Place(task.path, origin) if origin.line else task.place
