"""The drafts of a job become tasks on nodes."""

from __future__ import annotations

from tests.support.compiling import job_of


def test_tasks_are_in_spec_order_then_node_order(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nodes: {b: {}, a: {count: 2}}
        init: [{task: start, node: '*', steps: [w = 1.0]}]
        epoch:
          - {task: z, node: a, steps: [x = 1]}
          - {task: y, node: '*', steps: [x = 1]}
        """,
    )

    assert [task.full_name for task in job.epoch.tasks] == [
        "a_0/z",
        "a_1/z",
        "b/y",
        "a_0/y",
        "a_1/y",
    ]


def test_nodes_share_what_is_the_same_for_all(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nodes: {a: {count: 2}}
        init: [{task: start, node: a, steps: [w = 1.0]}]
        epoch: [{task: t, node: a, steps: [w = w + 1]}]
        """,
    )

    first, second = job.epoch.tasks
    assert first.steps is second.steps
