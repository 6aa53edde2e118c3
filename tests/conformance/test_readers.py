"""Cases about readers: limits, ends, times, and instances that share one."""

from __future__ import annotations

import pytest

from jobrun.graph.readers import POSITION

_FINISHED = POSITION.index("finished")

_TABLE = """
init: [{{task: start, steps: [data = arange(100), count = counter(0)]}}]
readers:
  r: {{blobs: {{x: data}}, restart: never, {limit}}}
epoch:
  - {{task: t, read: r, instances: 8, steps: ["atomic_add(count, x * 0 + 1)"]}}
stop: [{{epochs: 1}}]
"""


@pytest.mark.parametrize(
    ("limit", "records", "finished"),
    [
        (None, 100, True), (0, 0, False), (10, 10, False), (99, 99, False), (100, 100, True),
        (101, 100, True), (110, 100, True),
    ],
)  # fmt: skip
def test_case_090_reader_limit_table(stage, limit, records, finished):
    """By rule 24: no limit is written by leaving it out, and a limit of 0 reads nothing.

    Unlike there, a limit behind which no record is left is the end: no empty epoch follows.
    """
    job = stage(_TABLE.format(limit="" if limit is None else f"limit: {limit}"))

    job.run("init", "epoch")

    assert job.value("count").value == records
    assert job.value("readers/r")[0, _FINISHED] == finished


def test_case_093_reader_runtime_thread_counters(stage):
    """Same: each record is taken once; set-up runs once per task, and once per instance."""
    job = stage("""
    init:
      - task: start
        steps: [data = arange(100), tasks = counter(0), threads = counter(0), rows = counter(0)]
    readers: {r: {blobs: {x: data}}}
    epoch:
      - task: t
        read: r
        instances: 8
        setup:
          task: {init: [count_up(tasks)]}
          instance: {init: [count_up(threads)]}
        steps: [count_up(rows)]
    stop: [{epochs: 1}]
    """)

    job.run("init", "epoch")

    counts = [job.value(name).value for name in ("rows", "threads", "tasks")]
    assert counts == [100, 8, 1]


def test_case_093_reader_runtime_thread_counters_of_a_chain(stage):
    """Same: a limit at the beginning of a chain counts for the whole of it."""
    job = stage("""
    init:
      - {task: start, steps: [data = arange(100), a = counter(0), b = counter(0), c = counter(0)]}
    readers: {r: {blobs: {x: data}, limit: 25}}
    queues: {q: {}, p: {}}
    epoch:
      - {task: one, read: r, instances: 2, steps: [count_up(a)], write: {q: [x]}}
      - {task: two, read: q, instances: 3, steps: [count_up(b)], write: {p: [x]}}
      - {task: three, read: p, instances: 6, steps: [count_up(c)]}
    stop: [{epochs: 1}]
    """)

    job.run("init", "epoch")

    assert [job.value(name).value for name in "abc"] == [25, 25, 25]


_TIMED = """
init: [{{task: start, steps: [data = arange(20), count = counter(0)]}}]
readers:
  r: {{blobs: {{x: data}}, restart: never, delay: {delay}, {limit}}}
epoch:
  - {{task: t, read: r, instances: {instances}, steps: [count_up(count)]}}
stop: [{{epochs: 1}}]
"""


@pytest.mark.parametrize("limit", ["", "time_limit: 30s"])
def test_case_094_time_limit_reader(stage, limit):
    """Same: a time that is long enough changes nothing."""
    job = stage(_TIMED.format(delay="1ms", limit=limit, instances=2))

    job.run("init", "epoch")

    assert job.value("count").value == 20
    assert job.value("readers/r")[0, _FINISHED] == 1


def test_case_094_time_limit_reader_that_is_over(stage):
    """Same: when the time is over no further record is begun, and the data have not ended."""
    job = stage(_TIMED.format(delay="50ms", limit="time_limit: 100ms", instances=1))

    job.run("init", "epoch")

    assert job.value("count").value < 20
    assert job.value("readers/r")[0, _FINISHED] == 0


def test_case_096_count_reader(stage):
    """Same: it counts from 0, and a limit leaves its data unfinished."""
    job = stage("""
    init: [{task: start, steps: ['seen = zeros(0, dtype=int64)', 'kept = zeros(0, dtype=int64)']}]
    readers:
      r: {counter: {}, fields: [i], limit: 5, restart: never}
      s: {counter: {stop: 3}, fields: [i]}
    epoch:
      - {task: t, read: r, steps: ["seen = concatenate([seen, [i]])"]}
      - {task: u, read: s, steps: [j = i + 10, "kept = concatenate([kept, [j]])"]}
    stop: [{epochs: 1}]
    """)

    job.run("init", "epoch")

    assert job.value("seen").tolist() == [0, 1, 2, 3, 4]
    assert job.value("readers/r")[0, _FINISHED] == 0
    assert job.value("kept").tolist() == [10, 11, 12]
