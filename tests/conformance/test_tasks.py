"""Cases about instances, concurrent steps, counters and outputs of tasks."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.compiling import codes_of

_HEAD = """
init: [{task: start, steps: [other = 0]}]
stop: [{epochs: 1}]
"""


@pytest.mark.parametrize(("count", "bodies"), [("", 1), ("instances: 1", 1), ("instances: 4", 4)])
def test_case_034_instances_run_concurrently(stage, count, bodies):
    """Same: all instances run at the same time, so they can wait for each other."""
    job = stage(
        _HEAD
        + f"""
epoch:
  - task: t
    {count}
    steps: [{{call: "library:meet", with: {{parties: instances}}}}, {{log: body}}]
"""
    )

    job.run("init", "epoch")

    assert job.messages == ["body"] * bodies


def test_case_034_instances_run_concurrently_unless_there_are_none(tmp_path):
    """By design: no instances at all is no way to say one; it is refused."""
    assert codes_of(tmp_path, "epoch: [{task: t, instances: 0, steps: [x = 1]}]\n") == ["E024"]


@pytest.mark.parametrize(
    ("task", "counts"),
    [
        ("instances: 3, steps: [{parallel: [[{log: a}], [{log: b}]]}]", {"a": 3, "b": 3}),
        ("instances: 3, steps: [{parallel: [[{log: a}]]}]", {"a": 3}),
        ("steps: [{loop: 4, steps: [{parallel: [[{log: a}], [{log: b}]]}]}]", {"a": 4, "b": 4}),
    ],
)
def test_case_035_concurrent_instances_times_substeps(stage, task, counts):
    """Same: every instance runs every branch, and a loop runs them once in each pass."""
    job = stage(_HEAD + f"epoch: [{{task: t, {task}}}]\n")

    job.run("init", "epoch")

    assert Counter(job.messages) == counts


def test_case_044_python_op_instances(stage):
    """Same: 64 instances each make one thing of their own and use it four times."""
    job = stage(
        _HEAD
        + """
epoch:
  - task: t
    instances: 64
    setup:
      task: {init: [built = counter(0), calls = counter(0)]}
      instance: {init: [count_up(built), own = counter(0)]}
    steps: [{loop: 4, steps: [count_up(own), count_up(calls)]}]
    outputs: [{built: count_value(built)}, {calls: count_value(calls)}, {own: count_value(own)}]
"""
    )

    outputs = job.run("init", "epoch")

    # An output of a task with instances is a list; what instances share is alike in all.
    assert outputs["t.own"] == [4] * 64
    assert outputs["t.built"] == [64] * 64
    assert outputs["t.calls"] == [256] * 64


def test_case_045_multi_instance_counters(stage):
    """Same: counters of the task are shared and atomic, those of an instance are its own."""
    job = stage(
        _HEAD
        + """
epoch:
  - task: t
    instances: 10
    setup:
      task:
        init: [shared = counter(0), at_exit = counter(0), in_body = counter(0)]
        exit:
          - {log: "{count_value(shared)} {count_value(at_exit)} {count_value(in_body)}"}
      instance:
        init: [own = counter(0)]
        exit: [n = count_value(own), {loop: n * n, steps: [count_up(at_exit)]}]
    steps:
      - local = counter(0)
      - {loop: 15, steps: [count_up(shared), count_up(own), count_up(local)]}
      - m = count_value(local)
      - {loop: m * m, steps: [count_up(in_body)]}
"""
    )

    job.run("init", "epoch")

    assert job.messages == ["150 2250 2250"]


_OUTPUTS = (
    _HEAD
    + """
epoch:
  - {task: first, steps: [a = 1, b = 2, c = 3], outputs: [a, b, c, {record_a: a}, {record_b_c: c}]}
  - {task: second, steps: [a = 4], outputs: [a]}
"""
)


def test_case_061_output_kinds(stage):
    """By design: every output is a named field, in the order of tasks and of their text."""
    outputs = stage(_OUTPUTS).run("init", "epoch")

    assert list(outputs.items()) == [
        ("first.a", 1),
        ("first.b", 2),
        ("first.c", 3),
        ("first.record_a", 1),
        ("first.record_b_c", 3),
        ("second.a", 4),
    ]


def test_case_061_output_kinds_that_nobody_writes(tmp_path):
    """Same: an output that no step makes is an error, here before anything runs."""
    assert codes_of(tmp_path, "epoch: [{task: t, steps: [x = 1], outputs: [y]}]\n") == ["E180"]
