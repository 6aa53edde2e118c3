"""Cases about queues, and about the tasks that they join."""

from __future__ import annotations

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.context.bounded_queue import FifoQueue
from jobrun.runtime.context.cancel import CancelScope
from tests.support.compiling import faults_of

_THREE_STAGES = """
readers: {data: {blobs: {uid: uids, value: values}}}
queues: {doubled: {}, zeroed: {}}
init: [{task: start, steps: ["uids = array([1, 2, 6])", "values = array([1.4, 1.6, 1.7])"]}]
epoch:
  - {task: double, read: data, steps: [uid *= 2], write: {doubled: [uid, value]}}
  - {task: zero, read: doubled, steps: [value = value - value], write: {zeroed: [uid, value]}}
  - task: store
    read: zeroed
    setup: {task: {init: ["uids_out = zeros(0, dtype=int64)", "values_out = zeros(0)"]}}
    steps:
      - uids_out = concatenate([uids_out, [uid]])
      - values_out = concatenate([values_out, [value]])
    outputs: [uids_out, values_out]
stop: [{epochs: 1}]
"""


def test_case_042_fail_unblocks_queue_reader(stage):
    """By rule 7: the error is raised to the caller, and waiting readers are woken."""
    # Of capacity 1: the second record waits until the reader has begun.
    job = stage("""
        readers: {data: {counter: {stop: 3}, fields: [x]}}
        queues: {q: {capacity: 1}}
        init: [{task: start, steps: [a = 1]}]
        epoch:
          - {task: bad, read: data, steps: [{assert: x < 2, message: broken}], write: {q: [x]}}
          - {task: reader, read: q, setup: {task: {exit: [{log: woken}]}}}
        stop: [{epochs: 1}]
        """)

    with pytest.raises(TaskFailedError, match="broken") as caught:
        job.run("init", "epoch")

    assert [fault.path for fault in caught.value.faults] == ["epoch/bad/steps[0]"]
    assert job.messages == ["woken"]


def test_case_088_three_stage_pipeline(stage):
    outputs = stage(_THREE_STAGES).run("init", "epoch")

    assert outputs["store.uids_out"].tolist() == [2, 4, 12]
    assert outputs["store.values_out"].tolist() == [0.0, 0.0, 0.0]


def test_case_089_dequeue_many(stage):
    outputs = stage("""
        readers: {data: {counter: {stop: 17}, fields: [n]}}
        queues: {q: {capacity: 11, batch: 3}}
        init: [{task: start, steps: [a = 1]}]
        epoch:
          - {task: make, read: data, steps: [uid = 2 * n, value = 0.0], write: {q: [uid, value]}}
          - task: store
            read: q
            setup: {task: {init: [reads = 0, "uids = zeros(0, dtype=int64)", "values = zeros(0)"]}}
            steps:
              - reads = reads + 1
              - uids = concatenate([uids, uid])
              - values = concatenate([values, value])
            outputs: [reads, uids, values]
        stop: [{epochs: 1}]
        """).run("init", "epoch")

    assert outputs["store.reads"] == 6
    assert outputs["store.uids"].tolist() == list(range(0, 34, 2))
    assert outputs["store.values"].tolist() == [0.0] * 17


def test_case_099_queue_close_semantics():
    """By rule 23: a write after the close is refused, with or without room."""
    scope = CancelScope()
    line = FifoQueue(4, writers=1, readers=1)
    before = [line.put(0, (value,), scope) for value in (1, 2)]
    line.leave_writer()

    with pytest.raises(RuntimeError):
        line.put(0, (3,), scope)

    reads = [line.take(scope) for _ in range(4)]
    assert before == [True, True]
    assert reads == [(0, (1,)), (1, (2,)), None, None]


def test_case_099_queue_close_semantics_with_two_writers(stage):
    """By rule 23: writers are counted, and the first to end closes nothing for the others."""
    outputs = stage("""
        readers: {few: {counter: {stop: 1}, fields: [x]}, many: {counter: {stop: 50}, fields: [x]}}
        queues: {q: {capacity: 1}}
        init: [{task: start, steps: [a = 1]}]
        epoch:
          - {task: short, read: few, write: {q: [x]}}
          - {task: long, read: many, write: {q: [x]}}
          - {task: count, read: q, setup: {task: {init: [n = 0]}}, steps: [n = n + 1], outputs: [n]}
        stop: [{epochs: 1}]
        """).run("init", "epoch")

    assert outputs == {"count.n": 51}


@pytest.mark.parametrize("instances", [1, 3])
def test_case_102_pipe_threads(stage, instances):
    """By design: steps are text, so nothing is called to build them, however many run them.

    The number of instances is said once, the name of a task is given, and a queue that says
    nothing has room for 100 records.
    """
    job = stage(f"""
        readers: {{data: {{counter: {{stop: 60}}, fields: [x]}}}}
        queues: {{q: {{}}}}
        init: [{{task: start, steps: ["n = counter(0)"]}}]
        epoch:
          - {{task: make, read: data, write: {{q: [x]}}}}
          - {{task: nm, read: q, instances: {instances}, steps: [count_up(n)]}}
        stop: [{{epochs: 1}}]
        """)
    job.run("init", "epoch")

    assert job.value("n").value == 60
    assert [task.full_name for task in job.job.epoch.tasks] == ["local/make", "local/nm"]
    assert job.job.queues[0].capacity == 100


def test_case_103_pipe_outputs(stage):
    outputs = stage("""
        readers: {data: {counter: {stop: 7}, fields: [x]}}
        init: [{task: start, steps: [a = 1]}]
        epoch:
          - task: process
            read: data
            setup: {task: {init: ["processed = counter(0)"]}}
            steps: [count_up(processed)]
            outputs: [processed]
        stop: [{epochs: 1}]
        """).run("init", "epoch")

    assert outputs["process.processed"].value == 7


def test_case_103_pipe_outputs_with_bad_input(tmp_path):
    """What is read must be a reader or a queue."""
    (fault,) = faults_of(tmp_path, "epoch: [{task: t, read: w, steps: [x = 1]}]")

    assert fault.code == "E192"
