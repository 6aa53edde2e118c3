"""Analyse the queues between tasks: both ends present, the same fields, and no deadlock.

A writer ends when its last record has room in the queue, so its readers must run; a reader ends
when its writers have ended. ``needs`` adds that a task starts when others have ended. If these
form a cycle, the group never ends. The check is complete, so a run needs no deadlock detection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.task_order import sort_topologically
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, TaskDraft
from jobrun.graph.readers import Queue, ReadQueue, ReadRecords, WriteQueue
from jobrun.graph.types import GroupName


class QueueEnds(Struct):
    """The tasks that write to and read from a queue in one group, in the order of the spec."""

    queue: Queue
    writers: list[tuple[TaskDraft, WriteQueue, SpecPosition]] = field(default_factory=list)
    readers: list[tuple[TaskDraft, SpecPosition]] = field(default_factory=list)


def find_queue_ends(group: GroupDraft) -> dict[str, QueueEnds]:
    """Find for each queue of a group the tasks that write to it and the tasks that read it."""
    ends_by_queue: dict[str, QueueEnds] = {}
    for task in group.tasks:
        records = task.records
        for write, spec_position in zip(records.write, records.write_at, strict=True):
            ends_by_queue.setdefault(write.queue.name, QueueEnds(write.queue)).writers.append(
                (task, write, spec_position)
            )
        if isinstance(records.read, ReadQueue):
            queue = records.read.queue
            ends_by_queue.setdefault(queue.name, QueueEnds(queue)).readers.append(
                (task, records.read_at)
            )
    return ends_by_queue


def must_run_concurrently(group: GroupDraft, first: int, second: int) -> bool:
    """Return whether queues link two tasks so that both must run at the same time."""
    return second in _find_concurrent(first, _map_successors(find_queue_ends(group)))


def check_queues(
    groups: Mapping[GroupName, GroupDraft], queues: Sequence[Queue], faults: Faults
) -> None:
    """Check a job's queues: the tasks that write and read them, and possible deadlocks."""
    ends_by_group = {name: find_queue_ends(group) for name, group in groups.items()}
    used = {name for ends_by_queue in ends_by_group.values() for name in ends_by_queue}
    for queue in queues:
        if queue.name not in used:
            faults.error(
                "E192",
                f"no task writes to queue '{queue.name}' or reads from it",
                f"write to it with write: {{{queue.name}: [x]}} and read it with read: "
                f"{queue.name}, or remove it",
                queue,
            )
    for name, group in groups.items():
        elsewhere = {
            queue_name: other
            for other, ends_by_queue in ends_by_group.items()
            if other != name
            for queue_name in ends_by_queue
        }
        for queue_ends in ends_by_group[name].values():
            _check_ends(queue_ends, name, elsewhere, faults)
            _check_same_names(queue_ends, faults)
            _check_order(queue_ends, faults)
        _DeadlockCheck(group, ends_by_group[name], faults).check()
        for task in group.tasks:
            _check_on_error(task, faults)


def _check_ends(
    queue_ends: QueueEnds, group: GroupName, elsewhere: Mapping[str, GroupName], faults: Faults
) -> None:
    name = queue_ends.queue.name
    sides = [
        (
            "write",
            "writes to",
            "reads from",
            [(task, at) for task, _, at in queue_ends.writers],
            [task for task, _ in queue_ends.readers],
        ),
        (
            "read",
            "reads from",
            "writes to",
            queue_ends.readers,
            [task for task, _, _ in queue_ends.writers],
        ),
    ]
    for key, verb, missing, here, there in sides:
        if here and not there:
            task, spec_position = here[0]
            other = elsewhere.get(name)
            within = f" in '{group}'" if other else ""
            message = f"task '{task.name}' {verb} queue '{name}', and no task{within} {missing} it"
            mend = f"{_other_end(key, name)} in another task of '{group}'"
            if other:
                mend += f"; each group has its own queue, so '{other}' does not count"
            faults.error("E192", message, mend, spec_position)
        elif not queue_ends.queue.shared:
            _check_nodes(name, verb, missing, here, there, faults)


def _other_end(key: str, name: str) -> str:
    return f"add read: {name}" if key == "write" else f"add write: {{{name}: [x]}}"


def _check_nodes(
    name: str,
    verb: str,
    missing: str,
    here: list[tuple[TaskDraft, SpecPosition]],
    there: list[TaskDraft],
    faults: Faults,
) -> None:
    nodes = {node for task in there for node in task.nodes}
    for task, spec_position in here:
        alone = next((node for node in task.nodes if node not in nodes), None)
        if alone is not None:
            faults.error(
                "E192",
                f"task '{task.name}' {verb} queue '{name}' on node '{alone}', and no task "
                f"there {missing} it",
                f"run '{there[0].name}' on that node too, or set "
                f"'shared: true' to use one queue for all nodes",
                spec_position,
            )
            return


def _check_same_names(queue_ends: QueueEnds, faults: Faults) -> None:
    """Check that all tasks that write to or read from a queue use the same field names."""
    if not queue_ends.writers:
        return
    first, sent, at = queue_ends.writers[0]
    for task, write, spec_position in queue_ends.writers[1:]:
        if write.names != sent.names:
            faults.error(
                "E193",
                f"task '{task.name}' sends {', '.join(write.names)} to queue "
                f"'{queue_ends.queue.name}', and task '{first.name}' sends "
                f"{', '.join(sent.names)}, at "
                f"{at.origin}",
                "send the same blobs in the same order, or use two queues",
                spec_position,
            )

    for task, spec_position in queue_ends.readers:
        read = task.records.read
        if isinstance(read, ReadQueue) and read.names not in ((), sent.names):
            faults.error(
                "E193",
                f"task '{task.name}' reads {', '.join(read.names)} from queue "
                f"'{queue_ends.queue.name}', and task '{first.name}' sends {', '.join(sent.names)}",
                "read the blobs that are sent, in the same order",
                spec_position,
            )


def _check_order(queue_ends: QueueEnds, faults: Faults) -> None:
    """Check that an ordered queue has a single source, which numbers the queue's records."""
    queue = queue_ends.queue
    if not queue.ordered or not queue_ends.writers:
        return
    task, _, spec_position = queue_ends.writers[-1]
    read = task.records.read
    if len(queue_ends.writers) > 1:
        message = f"task '{queue_ends.writers[0][0].name}' also writes to it"
        mend = "use a separate queue for each of them"
    elif queue.shared and len(task.nodes) > 1:
        message = f"task '{task.name}' writes to it from {len(task.nodes)} nodes"
        mend = "remove 'shared' or 'ordered' from the queue"
    elif task.instances > 1 and isinstance(read, ReadRecords) and (read.reader.shard == "instance"):
        message = f"each instance of '{task.name}' reads different rows"
        mend = f"remove 'shard: instance' from the reader '{read.reader.name}'"
    else:
        return
    faults.error(
        "E124",
        f"queue '{queue.name}' is ordered, but {message}: the order of their records is undefined",
        mend,
        spec_position,
    )


def _check_on_error(task: TaskDraft, faults: Faults) -> None:
    if task.on_error != "warn":
        return
    records = task.records
    names = [write.queue.name for write in records.write]
    if isinstance(records.read, ReadQueue):
        names.append(records.read.queue.name)
    if names:
        faults.error(
            "E122",
            f"task '{task.name}' has 'on_error: warn' and uses queue '{names[0]}': "
            f"after a failure, the tasks at the other end would have processed only some "
            f"of the records",
            "remove 'on_error': if one task of a pipeline fails, all of it fails",
            task.spec_position,
        )


def _map_successors(ends_by_queue: Mapping[str, QueueEnds]) -> dict[int, list[int]]:
    """Map each task to the tasks that read what it writes to queues."""
    successors: dict[int, list[int]] = {}
    for queue_ends in ends_by_queue.values():
        for writer, _, _ in queue_ends.writers:
            for reader, _ in queue_ends.readers:
                successors.setdefault(writer.position, []).append(reader.position)
                successors.setdefault(reader.position, [])
    return successors


def _find_reachable(start: int, table: Mapping[int, list[int]]) -> list[int]:
    """Find the tasks that a task's records reach through queues, directly or by other tasks."""
    seen = {start}
    ready = [start]
    for task in ready:  # grows while it is read
        for other in table.get(task, ()):
            if other not in seen:
                seen.add(other)
                ready.append(other)
    return ready[1:]


def _find_concurrent(task: int, table: Mapping[int, list[int]]) -> set[int]:
    """Find the tasks that must run at the same time as a given one, by their queues."""
    previous: dict[int, list[int]] = {}
    for writer, after in table.items():
        for other in after:
            previous.setdefault(other, []).append(writer)
    before = {task, *_find_reachable(task, previous)}
    return {after for earlier in before for after in _find_reachable(earlier, table)} | before - {
        task
    }


class _DeadlockCheck:
    """Searches for deadlocks: tasks of a group that wait for each other through queues."""

    def __init__(
        self, group: GroupDraft, ends_by_queue: Mapping[str, QueueEnds], faults: Faults
    ) -> None:
        self._group = group
        self._faults = faults
        self._next = _map_successors(ends_by_queue)
        self._queues: dict[tuple[int, int], str] = {}
        for name, queue_ends in ends_by_queue.items():
            for writer, _, _ in queue_ends.writers:
                for reader, _ in queue_ends.readers:
                    pair = (writer.position, reader.position)
                    self._queues.setdefault(pair, name)

    def check(self) -> None:
        """Check that a group's queues cannot deadlock, alone or together with ``needs``."""
        if self._next and self._check_records() and self._group.order.is_sound:
            self._check_needs()

    def _check_records(self) -> bool:
        """Add a fault if queues bring a task's records back to it; return whether none do."""
        positions = sorted(self._next)
        index = {position: number for number, position in enumerate(positions)}
        after = [
            tuple(index[successor] for successor in self._next[position]) for position in positions
        ]
        cyclic = sort_topologically(after)[1]
        if not cyclic:
            return True
        way = self._find_cycle(positions[cyclic[0]], {positions[number] for number in cyclic})
        names = [self._group.tasks[position].name for position in way]
        task = self._group.tasks[way[0]]
        queue = self._queues[way[0], way[1]]
        if len(way) == 2:
            message = f"task '{names[0]}' reads from queue '{queue}', and writes to it"
        else:
            message = f"queues form a cycle: {' -> '.join(names)}"
        self._faults.error(
            "E173",
            f"{message}; a queue is closed when all tasks that write to it have ended, "
            f"which would never happen",
            "do not write to the queue in the last task, or use a loop in its steps",
            task.records.read_at,
        )
        return False

    def _find_cycle(self, start: int, among: set[int]) -> list[int]:
        """Return the tasks of a circle that wait for each other at queues, or by ``needs``."""
        way = [start]
        while way.count(way[-1]) < 2:
            way.append(next(successor for successor in self._next[way[-1]] if successor in among))
        return way[way.index(way[-1]) :]

    def _check_needs(self) -> None:
        if self._can_end():
            return
        order = self._group.order
        positions = sorted(self._next)
        index = {position: number for number, position in enumerate(positions)}
        concurrent = {position: _find_concurrent(position, self._next) for position in positions}
        waits: list[tuple[int, ...]] = []
        for second in positions:
            firsts = [first for first in positions if order.is_before(first, second)]
            direct = [first for first in firsts if second in concurrent[first]]
            if direct:
                self._report_need(direct[0], second)
            preceding = {position for first in firsts for position in (first, *concurrent[first])}
            waits.append(tuple(index[position] for position in preceding if not direct))
        for number in sort_topologically(waits)[1][:1]:
            self._report_cycle(self._group.tasks[positions[number]])

    def _can_end(self) -> bool:
        """Return whether all tasks of a group can end, given its queues and needs.

        Sorted are, for each task, its start, its end, and two sets: the tasks at queues from which
        records reach it, and those which its records reach. A start comes after the ends of the
        needs; an end after the starts of all that must run beside it, which are those reached from
        the first set.
        """
        size = len(self._group.tasks)
        start, end, above, below = (range(part * size, (part + 1) * size) for part in range(4))
        after: list[list[int]] = [[] for _ in range(4 * size)]
        for task in range(size):
            after[start[task]] += [end[need] for need in self._group.order.needs[task]]
            after[end[task]] += [start[task], above[task]]
            after[above[task]].append(below[task])
            after[below[task]].append(start[task])
        for writer, readers in self._next.items():
            after[below[writer]] += [below[reader] for reader in readers]
            for reader in readers:
                after[above[reader]].append(above[writer])
        return not sort_topologically([tuple(predecessors) for predecessors in after])[1]

    def _report_need(self, first: int, second: int) -> None:
        first_task, second_task = self._group.tasks[first], self._group.tasks[second]
        name = self._queues.get((first, second)) or self._queues.get((second, first))
        joined = f"queue '{name}' connects them" if name else "queues connect them"
        self._faults.error(
            "E173",
            f"task '{second_task.name}' starts when '{first_task.name}' has ended, but {joined}: "
            f"they must run concurrently",
            "remove the need: a task that reads a queue waits for records",
            second_task.find_needs(),
        )

    def _report_cycle(self, task: TaskDraft) -> None:
        message = f"task '{task.name}' waits for tasks that wait for it through queues and needs"
        self._faults.error("E173", message, "remove one of these needs", task.find_needs())
