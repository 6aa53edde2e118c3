from __future__ import annotations

import pytest

from jobrun.compile.faults import Faults
from jobrun.compile.lowering.queues import collect_queues
from jobrun.core.errors import SpecError
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import Task, TaskGroup
from tests.support.compiling import fault_of, faults_of, job_of, task_of

SOUND = """\
queues: {batches: {capacity: 7, ordered: true, batch: 3}}
epoch:
  - {task: make, steps: [x = 1.0, y = 2.0], write: {batches: [x, y]}}
  - {task: use, read: batches, steps: [w = w + x * y]}
"""


def test_a_task_that_reads_a_queue_gets_the_names_that_are_sent_in_their_order(tmp_path):
    job = job_of(tmp_path, SOUND)

    queue = Queue("batches", 7, ordered=True, batch=3, path="queues.batches")
    assert job.queues == (queue,)
    assert task_of(job, "make").write == (WriteQueue(queue, ("x", "y")),)
    assert task_of(job, "use").read == ReadQueue(queue, ("x", "y"))


def test_a_queue_has_room_for_a_hundred_records_unless_it_says_otherwise(tmp_path):
    text = SOUND.replace("{capacity: 7, ordered: true, batch: 3}", "{}")

    assert job_of(tmp_path, text).queues == (Queue("batches", path="queues.batches"),)


@pytest.mark.parametrize(
    ("old", "new", "code", "message", "mend", "line"),
    [
        ("read: batches", "read: batchs", "E192", "unknown reader or queue 'batchs'",
         "did you mean 'batches'?", 4),
        ("write: {batches", "write: {batchs", "E192", "unknown queue 'batchs'",
         "did you mean 'batches'?", 3),
        ("write: {batches: [x, y]}", "write: {batches: []}", "E193", "would be empty",
         "batches: [x]", 3),
        ("[x, y]}", "[x, y, x]}", "E193", "'x' would be sent twice", "name it once", 3),
    ],
)  # fmt: skip
def test_an_unknown_name_is_reported_with_its_position(
    tmp_path, old, new, code, message, mend, line
):
    faults = [fault for fault in _faults(tmp_path, SOUND.replace(old, new)) if fault.code == code]

    assert message in faults[0].message
    assert mend in faults[0].mend
    # Two keys precede those of the text.
    assert faults[0].where.line == line + 2 + 2


def test_without_any_queue_the_fault_says_how_to_declare_one(tmp_path):
    text = "epoch: [{task: t, steps: [x = 1], write: {q: [x]}}]"

    assert fault_of(tmp_path, text).mend == "declare it at the top of the spec: queues: {q: {}}"


def test_a_reader_is_not_written_to(tmp_path):
    text = """\
        readers: {numbers: {counter: {stop: 5}}}
        epoch: [{task: t, steps: [x = 1], write: {numbers: [x]}}]
        """

    assert "'numbers' is a reader" in _of_code(tmp_path, text, "E192").message


def test_a_name_is_that_of_a_reader_or_of_a_queue(tmp_path):
    text = SOUND + "readers: {batches: {counter: {stop: 5}}}\n"

    assert "is also a reader, at" in _of_code(tmp_path, text, "E192").message


@pytest.mark.parametrize("capacity", [0, -3])
def test_a_queue_has_room_for_a_record(tmp_path, capacity):
    with pytest.raises(SpecError, match="capacity"):
        job_of(tmp_path, SOUND.replace("capacity: 7", f"capacity: {capacity}"))


@pytest.mark.parametrize(
    ("queue", "other", "message"),
    [
        (Queue("q", 0), Queue("q", 0), "a capacity of 0"),
        (Queue("q", batch=-1), Queue("q", batch=-1), "a batch of -1"),
        (Queue("q", 1), Queue("q", 2), "two different queues 'q'"),
    ],
)
def test_queues_built_in_python_are_checked_too(queue, other, message):
    faults = Faults()
    group = TaskGroup(
        "epoch",
        (
            Task("a", "n", (), write=(WriteQueue(queue, ("x",)),)),
            Task("b", "n", (), read=ReadQueue(other, ("x",))),
        ),
    )

    collect_queues([group], faults)

    with pytest.raises(SpecError, match=message):
        faults.raise_if_any()


def _faults(folder, text):
    with pytest.raises(SpecError) as caught:
        job_of(folder, text)
    return caught.value.faults


def _of_code(folder, text, code):
    return next(fault for fault in _faults(folder, text) if fault.code == code)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [("[x, y]}}", "[x, z]}}", "E180"), ("y = 2.0", "{if: x > 0, then: [y = 2.0]}", "E181")],
)
def test_a_sent_name_that_is_not_there_is_pointed_at_itself(tmp_path, old, new, code):
    assert old in SOUND
    fault = faults_of(tmp_path, SOUND.replace(old, new))[0]
    line = (tmp_path / "job.yaml").read_text().splitlines()[fault.where.line - 1]

    assert fault.code == code
    assert line[fault.where.column - 1 :].startswith(("z]", "y]"))
