"""Folders of programs: state of their node, empty before init, of one task at a time."""

from __future__ import annotations

import pytest

from jobrun.compile.pipeline import complete
from jobrun.graph.types import Scope
from tests.support.compiling import codes_of, fault_of, job_of

STEP = "{run: make, state_dir: s}"


def _state(job):
    return dict(job.state)


def test_it_is_state_of_the_node_that_runs_the_program(tmp_path):
    job = job_of(
        tmp_path,
        f"""
        nodes: {{a: {{}}, b: {{}}}}
        init: [{{task: start, node: a, steps: [w = 1.0]}}]
        epoch: [{{task: t, node: b, steps: [{STEP}]}}, {{task: u, node: a, steps: [w = w + 1]}}]
        """,
    )

    assert _state(job) == {"a": ("w",), "b": ("state_dirs/s",)}
    assert job.checkpoint.nodes == ("a", "b")
    assert [(one.node, one.scopes) for one in job.init.setup] == [
        ("b", (("state_dirs/s", Scope.NODE),))
    ]


@pytest.mark.parametrize("group", ["init", "epoch", "download", "exit"])
@pytest.mark.parametrize(
    "steps",
    [
        f"[{STEP}]",
        f"[{{if: epoch > 1, then: [{STEP}]}}]",
        f"[{{loop: 3, steps: [{STEP}]}}]",
        f"[{STEP}, {STEP}]",
    ],
)
def test_it_is_there_from_the_start_wherever_it_is_used(group, steps, tmp_path):
    start = "{task: start, steps: [w = 1.0]}, " if group == "init" else ""
    spec = f"{group}: [{start}{{task: t, steps: {steps}}}]"
    if group == "epoch":
        spec += "\ninit: []"

    assert "state_dirs/s" in _state(job_of(tmp_path, spec))["local"]


def test_a_net_uses_the_folder_of_the_task_it_stands_in(tmp_path):
    job = job_of(
        tmp_path,
        f"""
        nets: {{f: {{in: [x], out: [y], steps: [y = x, {STEP}]}}}}
        epoch: [{{task: t, steps: [{{net: f, in: {{x: "1.0"}}, out: {{y: w}}}}]}}]
        """,
    )

    assert _state(job) == {"local": ("state_dirs/s", "w")}


def test_two_tasks_at_once_are_refused(tmp_path):
    two = f"epoch: [{{task: t, steps: [{STEP}]}}, {{task: u, steps: [{STEP}]}}]"

    assert "state_dirs/s" in fault_of(tmp_path, two).message
    assert codes_of(tmp_path, two.replace("task: u,", "task: u, needs: [t],")) == []


def test_several_instances_are_refused(tmp_path):
    fault = fault_of(tmp_path, f"epoch: [{{task: t, instances: 2, steps: [{STEP}]}}]")

    assert "state_dirs/s" in fault.message


def test_its_node_must_be_saved(tmp_path):
    fault = fault_of(
        tmp_path,
        f"""
        nodes: {{a: {{}}, b: {{}}}}
        init: [{{task: start, node: a, steps: [w = 1.0]}}]
        epoch: [{{task: t, node: b, steps: [{STEP}]}}, {{task: u, node: a, steps: [w = w + 1]}}]
        checkpoint: {{nodes: [a]}}
        """,
    )

    assert (fault.code, fault.mend) == ("E120", "add 'b'")
    assert "state_dir" in fault.message


def test_a_completed_job_stays_as_it_is(tmp_path):
    job = job_of(tmp_path, f"epoch: [{{task: t, steps: [{STEP}]}}]")

    assert complete(job).job == job
