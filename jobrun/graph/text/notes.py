"""Write notes: describe the options of a task, a node, a reader or a queue in a few words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.expression_text import render_expr, render_text
from jobrun.graph.query import tasks_by_name
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Queue,
    Reader,
    ReadQueue,
    ReadRecords,
    Source,
    ZipSource,
    readers_in,
)
from jobrun.graph.types import Job, Node, Task, TaskGroup


def task_notes(task: Task) -> list[str]:
    """Describe in short notes the options of a task, without its needs and nodes."""
    return [*work_notes(task), *limit_notes(task)]


def work_notes(task: Task) -> list[str]:
    """Describe in short notes the options of a task that affect its results."""
    notes = [f"{task.instances} instances"] if task.instances > 1 else []
    notes += [word for word in ("rebuild", "hogwild") if getattr(task, word)]
    notes += [f"reads {name}" for name in [read_name(task)] if name]
    written = [f"{', '.join(one.names)} to {one.queue.name}" for one in task.write]
    return notes + ([f"writes {' and '.join(written)}"] if written else [])


def read_name(task: Task) -> str | None:
    """Return for a note the name of the reader or queue that a task reads, or None."""
    match task.read:
        case ReadRecords(reader=reader):
            return reader.name
        case ReadQueue(queue=queue):
            return queue.name
        case None:
            return None


def limit_notes(task: Task) -> list[str]:
    """Describe in short notes a task's options for a task that takes too long or fails."""
    return list(_limit_notes(task))


def node_notes(node: Node) -> list[str]:
    """Describe in short notes the host and the resources that a node requests."""
    notes = [f"host {node.host}"] if node.host else []
    return notes + [f"{name} {amount:g}" for name, amount in node.resources]


def _limit_notes(task: Task) -> Iterator[str]:
    if task.timeout_s:
        yield f"at most {task.timeout_s:g} s"
    if task.retry is not None:
        times = "retry" if task.retry.most == 1 else "retries"
        wait = f" after {task.retry.backoff_s:g} s" if task.retry.backoff_s else ""
        yield f"{task.retry.most} {times}{wait}"
    if task.on_error == "warn":
        yield "a failure is only reported"


_SHARES = {
    "none": "",
    "node": "each node reads a part of the rows; other nodes divide",
    "instance": "each instance reads a part of the rows; other instances divide",
}
_DIVIDED_AGAIN = {"epoch": "them again in the next pass", "never": "what is left of the pass"}


def used_readers(job: Job) -> tuple[Reader, ...]:
    """List the readers that tasks of a job use, directly or by ``zip``, to be described."""
    found: dict[str, Reader] = {}
    for group in job.groups:
        for task in group.tasks:
            if isinstance(task.read, ReadRecords):
                for reader in readers_in(task.read.reader):
                    found.setdefault(reader.name, reader)
    return tuple(found.values())


def reader_notes(reader: Reader) -> tuple[str, ...]:
    """Describe in short notes a reader: its records, then batches, order and limits."""
    fields = ", ".join(_field(one) for one in reader.fields)
    return (f"{fields} from {_source(reader.source)}", *_notes(reader))


def _field(field: Field) -> str:
    if field.lengths is not None:
        return f"{field.name} = {field.member} cut by {field.lengths}"
    return field.name if field.member in ("", field.name) else f"{field.name} = {field.member}"


def _source(source: Source) -> str:
    match source:
        case FileSource(path=path):
            return render_text(path)
        case BlobSource(values=values):
            return "blobs " + ", ".join(render_expr(value) for _, value in values)
        case CounterSource(start=start, stop=stop, step=step):
            end = "without end" if stop is None else f"to {stop}"
            return f"numbers from {start} {end}" + (f" by {step}" if step != 1 else "")
        case CallSource(target=target):
            return target
        case ZipSource(readers=readers):
            return " beside ".join(one.name for one in readers)
        case _:
            assert_never(source)


def _notes(reader: Reader) -> Iterator[str]:
    if reader.batch:
        yield f"batches of {reader.batch}" + (", full ones only" if reader.drop_last else "")
    if reader.shuffle:
        yield "shuffled by seed and pass"
    if reader.restart == "never":
        yield "continues where the last epoch ended"
    if reader.limit is not None:
        yield f"at most {reader.limit} records an epoch"
    if reader.time_limit_s:
        yield f"at most {reader.time_limit_s:g} s an epoch"
    if reader.delay_s:
        yield f"{reader.delay_s:g} s before each record"
    if reader.shard != "none":
        yield f"{_SHARES[reader.shard]} {_DIVIDED_AGAIN[reader.restart]}"


@dataclass(frozen=True, slots=True)
class QueueLink:
    """A queue in one group, with its writers and readers.

    Attributes:
        names: The names in its records.
        writers: Names of the tasks that write to it, in the order of the spec.
        readers: Names of the tasks that read from it.
    """

    queue: Queue
    names: tuple[str, ...]
    writers: tuple[str, ...]
    readers: tuple[str, ...]


def find_queue_links(group: TaskGroup) -> tuple[QueueLink, ...]:
    """Find which tasks of a group are linked by queues, to write notes about the queues."""
    queues: dict[str, tuple[Queue, tuple[str, ...]]] = {}
    writers: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    for task, _ in tasks_by_name(group):
        for one in task.write:
            queues.setdefault(one.queue.name, (one.queue, one.names))
            writers.setdefault(one.queue.name, []).append(task.name)
        if isinstance(task.read, ReadQueue):
            queues.setdefault(task.read.queue.name, (task.read.queue, task.read.names))
            readers.setdefault(task.read.queue.name, []).append(task.name)
    return tuple(
        QueueLink(queue, names, tuple(writers.get(name, ())), tuple(readers.get(name, ())))
        for name, (queue, names) in queues.items()
    )


def queue_notes(queue: Queue) -> list[str]:
    """Describe in short notes the options of a queue between tasks."""
    notes = [f"room for {queue.capacity}"]
    notes += [word for word in ("ordered", "shared") if getattr(queue, word)]
    return notes + ([f"{queue.batch} at a time"] if queue.batch else [])


def render_queue_link(link: QueueLink) -> str:
    """Render the note about a queue between tasks: ``prep => batches (room for 100) => sgd``."""
    notes = ", ".join(queue_notes(link.queue))
    ends = ", ".join(link.writers), ", ".join(link.readers)
    return f"{ends[0]} => {link.queue.name} ({notes}) => {ends[1]}"
