"""Which source and which sinks a task has: from what it declares to what runs it. No loop here."""

from __future__ import annotations

from jobrun.graph.data import ReadQueue, ReadRecords
from jobrun.graph.types import Task
from jobrun.runtime.frame import Frame
from jobrun.runtime.queues import QueueSource, sink_plans
from jobrun.runtime.reading import ReaderPlan
from jobrun.runtime.records import RecordPlan, RecordSource, Streams, field_levels
from jobrun.runtime.usage import BlockNames


def record_plan(task: Task, names: BlockNames) -> RecordPlan | None:
    """How the task reads and writes records; None when it does neither."""
    if task.read is None and not task.write:
        return None
    reader = None
    if isinstance(task.read, ReadRecords):
        reader = ReaderPlan(task.read, task.instances, names)
    queue = task.read if isinstance(task.read, ReadQueue) else None
    sinks = sink_plans(task, names)

    def streams(frame: Frame) -> Streams:
        source: RecordSource | None = None
        if queue is not None:
            source = QueueSource(queue, task, frame)
        elif reader is not None:
            source = reader.source(frame)
        return Streams(source, tuple(plan.sink(frame) for plan in sinks))

    return RecordPlan(streams, field_levels(task, names), shares_records(task), task.path)


def shares_records(task: Task) -> bool:
    """Whether it is a matter of timing which of the task's instances gets a record."""
    if task.instances <= 1:
        return False
    return not (isinstance(task.read, ReadRecords) and task.read.reader.shard == "instance")
