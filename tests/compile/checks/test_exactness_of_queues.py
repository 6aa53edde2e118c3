from __future__ import annotations

import pytest

from tests.support.compiling import job_of

SPEC = """\
queues: {{q: {{{q}}}, r: {{{r}}}}}
epoch:
  - {{task: make, steps: [x = 1.0], write: {{q: [x]}}{make}}}
  - {{task: mid, read: q, steps: [{steps}], write: {{r: [x]}}{mid}}}
  - {{task: end, read: r, steps: [w = w + x]{end}}}
"""


def reasons(tmp_path, q="", r="", make="", mid="", end="", steps="x = x + 1", more=""):
    text = SPEC.format(q=q, r=r, make=make, mid=mid, end=end, steps=steps) + more
    return job_of(tmp_path, text).exactness.reasons


def test_a_pipeline_of_single_tasks_is_exact(tmp_path):
    assert reasons(tmp_path) == ()


def test_several_instances_are_exact_when_the_queue_behind_them_is_ordered(tmp_path):
    assert reasons(tmp_path, r="ordered: true", mid=", instances: 3") == ()


def test_records_of_several_instances_come_in_any_order(tmp_path):
    ((path, reason),) = reasons(tmp_path, mid=", instances: 3")

    assert path == "queues.r"
    assert "the order of the records of the 3 instances of 'mid' in queue 'r'" in reason


def test_records_of_several_tasks_come_in_any_order_unless_one_waits_for_the_other(tmp_path):
    more = "  - {task: more, steps: [x = 2.0], write: {q: [x]}%s}\n"

    ((path, reason),) = reasons(tmp_path, more=more % "")
    assert (path, "'make', 'more'" in reason) == ("queues.q", True)
    assert reasons(tmp_path, more=more % ", needs: [make]") == ()


def test_several_tasks_that_read_a_queue_get_what_is_left_for_them(tmp_path):
    more = "  - {task: twin, read: r, steps: [v = x]}\n"

    ((path, reason),) = reasons(tmp_path, more=more)

    assert path == "epoch/twin/read"
    assert "which records task 'twin' gets from queue 'r' depends on timing" in reason


def test_how_far_a_pipeline_got_when_its_end_stops_early(tmp_path):
    ((path, reason),) = reasons(tmp_path, steps="{if: x > 3, then: [{stop: task}]}")

    assert path == "epoch/mid/steps[0].then[0]"
    assert "how much of queue 'q' has been written" in reason


@pytest.mark.parametrize(
    ("steps", "mid", "path", "message"),
    [
        ("x = x + instance", "", "epoch/mid/steps[0]", "the number of the instance"),
        ("k = k + 1", ", setup: {instance: {init: [k = 0]}}", "epoch/mid/steps[0]",
         "'k' is what the last one wrote"),
        ("x = x + k", ", setup: {instance: {init: [k = rng.random()]}}",
         "epoch/mid/setup.instance.init[0]", "makes the instances differ"),
        ("k = 1", ", outputs: [one], setup: {instance: {init: [one = 0]}}", "epoch/mid",
         "its own outputs"),
        ("x = x + 1", ", setup: {instance: {init: [k = 1], exit: [j = k]}}",
         "epoch/mid/setup.instance.exit", "wrote"),
        ("{if: x > 3, then: [{stop: task}]}", "", "epoch/mid/steps[0].then[0]",
         "the other instances continue"),
    ],
)  # fmt: skip
def test_differences_between_instances_are_reasons(tmp_path, steps, mid, path, message):
    reported = reasons(tmp_path, r="ordered: true", mid=f", instances: 2{mid}", steps=steps)

    assert any(at == path and message in reason for at, reason in reported), reported


def test_what_all_instances_begin_with_alike_is_exact(tmp_path):
    setup = ", instances: 2, setup: {instance: {init: [k = 3.0]}}"

    assert reasons(tmp_path, r="ordered: true", mid=setup, steps="x = x * k") == ()


def test_random_numbers_belong_to_the_record(tmp_path):
    reported = reasons(tmp_path, r="ordered: true", mid=", instances: 2", steps="x = rng.random()")

    assert reported == ()


def test_a_shared_queue_that_several_nodes_read(tmp_path):
    text = """\
        nodes: {a: {}, b: {}}
        queues: {q: {shared: true}}
        init: [{task: start, node: '*', steps: [w = 0.0]}]
        epoch:
          - {task: make, node: a, steps: [x = 1.0], write: {q: [x]}}
          - {task: use, node: '*', read: q, steps: [w = w + x]}
        """

    ((path, _),) = job_of(tmp_path, text).exactness.reasons

    assert path == "epoch/use/read"
