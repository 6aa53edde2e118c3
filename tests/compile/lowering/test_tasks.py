"""Tasks as declared."""

from __future__ import annotations

import pytest

from jobrun.graph.expressions import Binary, Const, Name
from jobrun.graph.types import Output
from tests.support.compiling import codes_of, fault_of, job_of, task_of


def test_a_task_on_several_nodes_is_one_task_for_each(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nodes: {a: {}, b: {}}
        init: [{task: start, node: '*', steps: [w = 1.0]}]
        epoch:
          - {task: t, node: '*', steps: [w = w + 1]}
          - {task: u, node: b, needs: [t], steps: [w = w * 2]}
        """,
    )

    assert [task.full_name for task in job.epoch.tasks] == ["a/t", "b/t", "b/u"]
    assert job.epoch.tasks[0].steps == job.epoch.tasks[1].steps


def test_outputs_are_blobs_and_expressions(tmp_path):
    job = job_of(
        tmp_path,
        """\
        params: {k: 3}
        epoch: [{task: t, steps: [x = w], outputs: [x, {double: x * 2, k2: k}, w]}]
        """,
    )

    assert task_of(job, "t").outputs == (
        Output("x", Name("x")),
        Output("double", Binary(Name("x"), "*", Const(2))),
        Output("k2", Const(3)),
        Output("w", Name("w")),
    )


def test_settings_of_a_task_are_in_the_graph(tmp_path):
    job = job_of(
        tmp_path,
        """\
        epoch:
          - task: t
            instances: 4
            hogwild: true
            setup:
              task: {init: [s = 1], exit: [{log: "{s} {failed}"}]}
              instance: {init: [i = 1], exit: [{log: "{i}"}]}
              node: {init: [g = 1]}
            steps: [x = s + i + g, w = x]
            report: [{every: 500ms, steps: [{log: "{w}"}]}, {steps: [{log: "{w}"}]}]
        """,
    )

    task = task_of(job, "t")
    assert (task.instances, task.hogwild, task.rebuild) == (4, True, False)
    assert [setup.name for setup in task.setup] == ["epoch/t/setup.task"]
    assert [setup.name for setup in task.instance_setup] == ["epoch/t/setup.instance"]
    assert [node_setup.nets.name for node_setup in job.epoch.setup] == ["epoch/t/setup.node"]
    assert [(report.path, report.interval_s) for report in task.reports] == [
        ("epoch/t/report[0]", 0.5),
        ("epoch/t/report[1]", 1.0),
    ]
    assert task.setup[0].init[0].path == "epoch/t/setup.task.init[0]"
    assert task.reports[0].steps[0].path == "epoch/t/report[0].steps[0]"


@pytest.mark.parametrize(
    ("task", "code"),
    [
        ("{task: t, rebuild: true, steps: [x = 1]}", "E164"),
        ("{task: t, steps: [x = 1], report: [{every: 0s, steps: [{log: hi}]}]}", "E163"),
        ("{task: t, steps: [x = 1], report: [{node: local, steps: [{log: hi}]}]}", "E165"),
        ("{task: t, steps: [x = 1], outputs: [x, {x: x + 1}]}", "E166"),
        ("{task: t, steps: [x = 1], outputs: [y]}", "E180"),
        ("{task: t, steps: [x = 1], outputs: [{size: x}]}", "E191"),
        ("{task: t, steps: [x = 1], setup: {task: {init: [{stop: task}]}}}", "E156"),
    ],
)
def test_what_is_wrong_with_a_task_is_reported(tmp_path, task, code):
    assert fault_of(tmp_path, f"epoch: [{task}]").code == code


def test_exits_may_read_what_the_body_makes(tmp_path):
    text = "epoch: [{task: t, steps: [x = 1], setup: {task: {exit: [y = x]}}, outputs: [y]}]"

    assert codes_of(tmp_path, text) == []


def test_exits_run_in_reverse_and_see_what_set_up_made(tmp_path):
    text = """\
        nets: {f: {setup: {task: {init: [a = s], exit: [b = s]}}, steps: [x = a]}}
        epoch: [{task: t, steps: [{net: f}], setup: {task: {init: [s = 1], exit: [del s]}}}]
        """

    assert codes_of(tmp_path, text) == []


def test_reports_may_not_read_what_the_body_first_makes(tmp_path):
    text = 'epoch: [{task: t, steps: [x = 1], report: [{steps: [{log: "{x}"}]}]}]'

    assert fault_of(tmp_path, text).code == "E181"


def test_reports_may_read_what_set_up_makes(tmp_path):
    text = """\
        epoch:
          - task: t
            setup: {task: {init: [x = 1]}, instance: {init: [z = 1]}}
            steps: [x = 2]
            report: [{steps: [{log: "{x} {z} {w}"}]}]
        """

    assert codes_of(tmp_path, text) == []


def test_failed_is_readable_in_exits_only(tmp_path):
    assert codes_of(tmp_path, "epoch: [{task: t, steps: [x = failed]}]") == ["E180"]
    text = "epoch: [{task: t, steps: [x = 1], setup: {instance: {exit: [y = failed]}}}]"
    assert codes_of(tmp_path, text) == []
