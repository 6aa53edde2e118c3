from __future__ import annotations

from jobrun.graph.drawing import diagrams as draw
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.text.notes import (
    QueueLink,
    find_queue_links,
    queue_notes,
    read_name,
    render_queue_link,
    task_notes,
)
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup

QUEUE = Queue("batches", 4, ordered=True, batch=2)
MAKE = Task("make", "n0", (), write=(WriteQueue(QUEUE, ("x", "y")),))
MORE = Task("more", "n0", (), write=(WriteQueue(QUEUE, ("x", "y")),))
USE = Task("use", "n0", (), read=ReadQueue(QUEUE, ("x", "y")), instances=3)
GROUP = TaskGroup("epoch", (MAKE, MORE, USE))
JOB = Job("j", Cluster((Node("n0"),)), TaskGroup("init"), GROUP)


def test_a_queue_joins_the_tasks_that_write_to_it_and_read_from_it():
    assert find_queue_links(GROUP) == (QueueLink(QUEUE, ("x", "y"), ("make", "more"), ("use",)),)


def test_a_task_on_many_nodes_stands_there_once():
    nodes = tuple(Task("make", f"n{i}", (), write=MAKE.write) for i in range(3))

    assert find_queue_links(TaskGroup("epoch", nodes))[0].writers == ("make",)


def test_what_is_special_about_a_queue_is_said_in_words():
    assert queue_notes(Queue("q")) == ["room for 100"]
    assert queue_notes(Queue("q", 1, shared=True)) == ["room for 1", "shared"]
    assert render_queue_link(find_queue_links(GROUP)[0]) == (
        "make, more => batches (room for 4, ordered, 2 at a time) => use"
    )


def test_a_task_says_what_it_reads_and_writes():
    assert task_notes(MAKE) == ["writes x, y to batches"]
    assert task_notes(USE) == ["3 instances", "reads batches"]
    assert (read_name(USE), read_name(MAKE)) == ("batches", None)


def test_pictures_show_queues_between_tasks():
    assert "|  == make, more => batches (room for 4, ordered, 2 at a time) => use\n" in (
        draw.ascii(JOB)
    )
    words = '"batches: room for 4, ordered, 2 at a time"'
    assert f"    epoch_0 == {words} ==> epoch_2\n" in draw.mermaid(JOB)
    assert f"    epoch_1 -> epoch_2 [label={words}, style=bold];\n" in draw.dot(JOB)
