"""Which workspace holds a name."""

from __future__ import annotations

from jobrun.graph.types import Scope
from tests.support.compiling import job_of, scopes_of, task_of


def _scopes(folder, text, task, node=None):
    return {name: scope.value for name, scope in task_of(job_of(folder, text), task, node).scopes}


def test_state_is_the_nodes_and_what_an_epoch_makes_is_the_tasks(tmp_path):
    assert _scopes(tmp_path, "epoch: [{task: t, steps: [x = w, w = x]}]", "t") == {
        "w": "node",
        "x": "task",
    }


def test_a_name_has_one_scope_for_the_whole_task(tmp_path):
    text = """\
        epoch:
          - task: t
            setup: {task: {init: [a = 1], exit: [{log: "{a} {failed}"}]}}
            instances: 3
            steps: [b = a]
            report: [{steps: [r = w]}]
            outputs: [b]
        """

    assert _scopes(tmp_path, text, "t") == {
        "a": "task",
        "b": "instance",
        "failed": "task",
        "r": "instance",
        "w": "node",
    }


def test_failed_in_the_exit_of_instances_is_theirs(tmp_path):
    text = """\
        epoch:
          - task: t
            setup: {instance: {exit: [{log: "{failed}"}]}}
            instances: 3
            steps: [b = 1]
        """

    assert _scopes(tmp_path, text, "t")["failed"] == "instance"


def test_set_up_of_a_node_is_the_group_runs(tmp_path):
    text = "epoch: {tasks: [{task: t, steps: [x = g]}], setup: {init: [g = w]}}"

    assert _scopes(tmp_path, text, "t") == {"g": "group", "x": "task"}


def test_set_up_that_writes_state_writes_the_nodes(tmp_path):
    text = "epoch: {tasks: [{task: t, steps: [x = w]}], setup: {init: [w = 2.0]}}"
    job = job_of(tmp_path, text)

    assert dict(job.epoch.setup[0].scopes) == {"w": Scope.NODE}


def test_set_up_in_a_global_group_makes_state(tmp_path):
    text = "init: {tasks: [{task: i, steps: [w = g]}], setup: {init: [g = 1.0]}}"
    job = job_of(tmp_path, text)

    assert scopes_of(task_of(job, "i")) == {"g": Scope.NODE, "w": Scope.NODE}
    assert job.state == (("local", ("g", "w")),)


def test_own_names_of_nets_are_never_the_nodes(tmp_path):
    text = """\
        nets: {f: {in: [a], out: [b], setup: {node: {init: [n = 1]}}, steps: [t = a + n, b = t]}}
        init: [{task: i, steps: [{net: f, in: {a: 1}, out: {b: w}}]}]
        """
    job = job_of(tmp_path, text)

    assert job.state == (("local", ("w",)),)
    assert {name.rsplit(":")[-1]: scope.value for name, scope in task_of(job, "i").scopes} == {
        "a": "task",
        "b": "task",
        "t": "task",
        "n": "group",
        "w": "node",
    }


def test_a_temporary_that_a_task_of_init_deletes_is_its_own(tmp_path):
    text = "init: [{task: i, steps: [t = 1.0, w = t, del t]}]"
    job = job_of(tmp_path, text)

    assert scopes_of(task_of(job, "i")) == {"t": Scope.TASK, "w": Scope.NODE}
    assert job.state == (("local", ("w",)),)


def test_what_the_body_of_instances_makes_is_theirs_in_a_global_group_too(tmp_path):
    text = "init: [{task: i, steps: [w = 1.0]}, {task: j, instances: 2, steps: [x = 1]}]"

    assert _scopes(tmp_path, text, "j") == {"x": "instance"}


def test_what_only_a_report_makes_is_no_state(tmp_path):
    text = "init: [{task: i, steps: [w = 1.0], report: [{steps: [r = 1]}]}]"
    job = job_of(tmp_path, text)

    assert job.state == (("local", ("w",)),)


def test_what_download_makes_is_the_nodes_in_exit(tmp_path):
    text = """\
        download: [{task: d, steps: [all_w = w]}]
        exit: [{task: e, steps: [x = all_w]}]
        """

    assert _scopes(tmp_path, text, "e") == {"all_w": "node", "x": "task"}


def test_one_name_may_be_state_on_one_node_and_scratch_on_another(tmp_path):
    text = """\
        nodes: {a: {}, b: {}}
        init: [{task: i, node: a, steps: [w = 1.0]}, {task: j, node: b, steps: [v = 1.0]}]
        epoch: [{task: t, node: '*', steps: [w = 2]}]
        """

    assert _scopes(tmp_path, text, "t", "a") == {"w": "node"}
    assert _scopes(tmp_path, text, "t", "b") == {"w": "task"}
