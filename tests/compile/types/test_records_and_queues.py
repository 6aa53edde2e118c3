from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrun.compile.pipeline import compile_job
from jobrun.compile.types.job_types import infer_job_types
from jobrun.compile.types.records_and_queues import sort_tasks
from jobrun.core.errors import SpecError
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import Job, Task
from jobrun.ops.abstract_values import Known
from jobrun.spec.load import load_spec

HEAD = """
jobrun: 1
name: t
init: [{task: start, steps: [w = zeros(3), n = 0]}]
stop: [{epochs: 2}]
queues: {q: {QUEUE}MORE}
epoch:
"""
NODES = """
jobrun: 1
name: t
nodes: {a: {}, b: {}, c: {}}
init: [{task: start, node: "*", steps: [w = zeros(3)]}]
stop: [{epochs: 2}]
queues: {q: {shared: true}, p: {shared: true}}
epoch:
"""


@pytest.fixture
def job(tmp_path: Path):
    def of(*tasks: str, queue: str = "", head: str = HEAD) -> Job:
        path = tmp_path / "t.yaml"
        more = ", p: {}" if any("p" in task.split("read: ")[-1][:1] for task in tasks) else ""
        lines = "".join(f"  - {{{task}}}\n" for task in tasks)
        path.write_text(head.replace("QUEUE", queue).replace("MORE", more) + lines)
        return compile_job(load_spec(str(path))).job

    return of


def read_by(job: Job, task: str, name: str = "x") -> Known:
    return infer_job_types(job).task_blobs[f"epoch/{task}", name]


MAKE = 'task: make, steps: ["x = zeros((4, 3))"], write: {q: [x]}'
USE = "task: use, read: q, steps: [y = x * 1]"


def test_a_reader_knows_what_the_writer_sends(job):
    assert read_by(job(MAKE, USE), "use") == Known("float64", (4, 3))


def test_the_order_of_the_tasks_does_not_count(job):
    assert read_by(job(USE, MAKE), "use") == Known("float64", (4, 3))


def test_impossible_reads_are_reported_before_anything_runs(job):
    with pytest.raises(SpecError, match=r"\(4, 3\).*\(4,\)") as caught:
        job(MAKE, 'task: use, read: q, steps: ["y = x @ zeros(4)"]')
    assert caught.value.faults[0].code == "E290"


def test_a_record_goes_through_a_chain_of_tasks(job):
    chain = 'task: middle, read: q, steps: ["z = sum(x, axis=1)"], write: {p: [z]}'
    end = "task: end, read: p, steps: [y = z * 1]"
    assert read_by(job(end, chain, MAKE), "end", "z") == Known("float64", (4,))


def test_each_record_of_a_reader_is_known_by_its_writer_too(job):
    text = HEAD.replace(
        "queues:", "readers: {r: {counter: {start: 0, stop: 9}, fields: {i: value}}}\nqueues:"
    )
    counter = "task: make, read: r, steps: [x = i * 0.5], write: {q: [x]}"
    assert read_by(job(counter, USE, head=text), "use") == Known("float64", (), weak=True)


def test_records_of_several_writers_may_have_several_lengths(job):
    other = 'task: other, steps: ["x = zeros((7, 3))"], write: {q: [x]}'
    assert read_by(job(MAKE, other, USE), "use") == Known("float64", (None, 3))


@pytest.mark.parametrize("value", ["zeros((4, 3), dtype=float32)", "zeros(4)", "0.0", "'text'"])
def test_writers_that_disagree_are_refused_with_both_places(job, value):
    other = f'task: other, steps: ["x = {value}"], write: {{q: [x]}}'
    with pytest.raises(SpecError) as caught:
        job(MAKE, other, USE)
    (fault,) = caught.value.faults
    assert fault.code == "E294"
    assert fault.path == "epoch/other/write.q"
    assert fault.where is not None
    assert fault.where.line == 9
    assert "t.yaml:8:" in fault.message


def test_lengths_behind_the_first_count_where_records_are_joined(job):
    other = 'task: other, steps: ["x = zeros((4, 5))"], write: {q: [x]}'
    assert read_by(job(MAKE, other, USE), "use") == Known("float64", (4, None))
    with pytest.raises(SpecError, match="queue 'q' gets 'x'"):
        job(MAKE, other, USE, queue="batch: 2")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("zeros((4, 3))", Known("float64", (None, 3))), ("n + 1", Known("int64", (None,))),
     ("'text'", Known())],
)  # fmt: skip
def test_records_that_are_read_together_are_joined(job, value, expected):
    make = f'task: make, steps: ["x = {value}"], write: {{q: [x]}}'
    assert read_by(job(make, USE, queue="batch: 8"), "use") == expected


def test_what_a_callable_makes_is_not_known_behind_a_queue_either(job):
    make = 'task: make, steps: [{call: "m:f", out: x}], write: {q: [x]}'
    assert read_by(job(make, USE), "use") == Known()


def test_one_writer_of_unknown_type_makes_the_record_unknown(job):
    other = 'task: other, steps: [{call: "m:f", out: x}], write: {q: [x]}'
    assert read_by(job(MAKE, other, USE), "use") == Known()


def test_a_branch_may_send_either(job):
    make = (
        "task: make, steps: [{if: rng.random() < 0.5, then: ['x = zeros(3)'], "
        "else: ['x = zeros(3, dtype=float32)']}], write: {q: [x]}"
    )
    assert read_by(job(make, USE), "use") == Known(None, (3,))


def test_a_queue_that_nodes_share_carries_what_is_known(job):
    make = 'task: make, node: c, steps: ["x = zeros((4, 3))"], write: {q: [x]}'
    middle = "task: middle, node: b, read: q, steps: [x = x.T], write: {p: [x]}"
    end = "task: end, node: a, read: p, steps: [y = x * 1]"
    pipeline = job(end, middle, make, head=NODES)
    assert read_by(pipeline, "end") == Known("float64", (3, 4))


def test_writers_come_before_readers_unless_they_wait_for_each_other():
    queue = Queue("q")
    reader = Task("reader", "local", (), read=ReadQueue(queue, ("x",)))
    writer = Task("writer", "local", (), write=(WriteQueue(queue, ("x",)),))
    late = replace(writer, needs=("reader",))

    assert sort_tasks((reader, writer)) == [writer, reader]
    assert sort_tasks((late, reader)) == [reader, late]
