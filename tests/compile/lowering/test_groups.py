"""Groups as declared."""

from __future__ import annotations

import pytest

from jobrun.graph.types import Scope
from tests.support.compiling import codes_of, fault_of, faults_of, job_of, scopes_of, task_of


def test_workspaces_have_the_defaults_of_their_groups(tmp_path):
    job = job_of(
        tmp_path, "download: [{task: d, steps: [y = w]}]\nexit: [{task: e, steps: [z = y]}]"
    )

    assert [group.workspace for group in job.groups] == ["global", "private", "global", "private"]


def test_a_task_may_choose_its_workspace_where_the_group_does_not(tmp_path):
    job = job_of(
        tmp_path,
        """\
        init: [{task: p, workspace: private, steps: [t = 1]}, {task: g, steps: [w = 1.0]}]
        epoch: [{task: e, workspace: global, steps: [x = 1]}]
        """,
    )

    assert scopes_of(task_of(job, "p"))["t"] is Scope.TASK
    assert scopes_of(task_of(job, "e"))["x"] is Scope.NODE
    assert job.state == (("local", ("w",)),)


def test_a_task_and_its_group_may_not_disagree(tmp_path):
    fault = fault_of(
        tmp_path,
        """\
        epoch:
          workspace: private
          tasks: [{task: t, steps: [x = 1]}, {task: u, workspace: global, steps: [y = 1]}]
        """,
    )

    assert fault.code == "E167"
    assert "job.yaml:6:14" in fault.message


def test_set_up_and_reports_of_a_group_run_on_each_of_its_nodes(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nodes: {a: {}, b: {count: 2}}
        init: [{task: start, node: '*', steps: [w = 1.0]}]
        epoch:
          tasks: [{task: t, node: b, steps: [w = w + g]}]
          setup: [{init: [g = 1]}, {node: b_1, init: [h = g]}]
          report: [{every: 2s, steps: [{log: "{w} {g}"}]}, {node: b_0, steps: [{log: hi}]}]
        """,
    )

    assert [(setup.node, setup.nets.name) for setup in job.epoch.setup] == [
        ("b_0", "epoch/setup[0]"),
        ("b_1", "epoch/setup[0]"),
        ("b_1", "epoch/setup[1]"),
    ]
    assert [(report.node, report.report.path) for report in job.epoch.reports] == [
        ("b_0", "epoch/report[0]"),
        ("b_0", "epoch/report[1]"),
        ("b_1", "epoch/report[0]"),
    ]
    assert dict(job.epoch.setup[0].scopes) == {"g": Scope.GROUP}
    assert dict(job.epoch.reports[0].scopes) == {"g": Scope.GROUP, "w": Scope.NODE}


@pytest.mark.parametrize(
    "epoch",
    [
        "{tasks: [{task: t, node: a, steps: [x = 1]}], setup: {node: b, init: [g = 1]}}",
        "{tasks: [{task: t, node: a, steps: [x = 1]}], report: [{node: b, steps: [{log: x}]}]}",
    ],
)
def test_what_would_run_on_a_node_without_tasks_is_a_fault(tmp_path, epoch):
    text = f"""\
        nodes: {{a: {{}}, b: {{}}}}
        init: [{{task: start, node: '*', steps: [w = 1.0]}}]
        epoch: {epoch}
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E169"
    assert fault.mend == "the nodes of 'epoch' are: a"


def test_set_up_without_tasks_is_a_fault(tmp_path):
    assert codes_of(tmp_path, "exit: {setup: {init: [x = 1]}}") == ["E169"]


def test_a_net_with_set_up_for_tasks_needs_a_task(tmp_path):
    text = """\
        nets: {f: {setup: {task: {init: [x = 1]}}, steps: [{log: "{x}"}]}}
        epoch: {tasks: [{task: t, steps: [y = 1]}], report: [{steps: [{net: f}]}]}
        """

    assert "E168" in codes_of(tmp_path, text)


def test_names_of_tasks_are_unique_in_the_job(tmp_path):
    first, second = faults_of(
        tmp_path, "epoch: [{task: start, steps: [x = 1]}]\nexit: [{task: Start, steps: [x = 1]}]"
    )

    assert (first.code, second.code) == ("E174", "E174")
    assert "job.yaml:3:8" in first.message
    assert "case" in second.message
