"""Warnings."""

from __future__ import annotations

import pytest

from tests.support.compiling import codes_of, compile_text

A, B = "{save: {w: 'w.npz::a'}}", "{save: {w: 'w.npz::b'}}"
NODES = "nodes: {n: {count: 2}}\ninit: [{task: start, node: '*', steps: [w = 1.0]}]\n"
NODES += "epoch: [{task: t, node: '*', steps: [w = w + 1]}]\n"


def _warnings(folder, text):
    return [warning.code for warning in compile_text(folder, text).warnings]


@pytest.mark.parametrize(
    "step",
    ["{run: 'curl -O https://example.org/x'}", "{run: [wget, x]}", "{run: 'cd d && git clone x'}",
     "{load: {x: data.npy}}", "{if: w > 1, then: [{run: 'aws s3 cp a b'}]}"],
)  # fmt: skip
def test_a_download_task_that_fetches_data_is_pointed_to_init(tmp_path, step):
    compiled = compile_text(tmp_path, f"download: [{{task: d, steps: [{step}]}}]")

    assert [warning.code for warning in compiled.warnings] == ["W130"]
    assert "init" in compiled.warnings[0].mend


@pytest.mark.parametrize(
    "step", ["{run: 'echo curly'}", "{load: {x: '${run.dir}/artifacts/a.npy'}}", "x = w"]
)
def test_a_download_task_that_gathers_results_is_left_alone(tmp_path, step):
    assert _warnings(tmp_path, f"download: [{{task: d, steps: [{step}]}}]") == []


@pytest.mark.parametrize(
    "init",
    ["[]", "{workspace: private, tasks: [{task: i, steps: [w = 1]}]}",
     "[{task: i, rebuild: true, steps: [w = 1]}]"],
)  # fmt: skip
def test_checkpoints_without_state_are_pointed_out(tmp_path, init):
    text = f"init: {init}\nepoch: [{{task: t, steps: [x = 1]}}]\n"

    assert _warnings(tmp_path, text) == ["W132"]
    assert _warnings(tmp_path, f"{text}checkpoint: none\n") == []


def test_a_node_without_tasks_is_pointed_out(tmp_path):
    text = """\
        nodes: {a: {}, b: {count: 2}, c: {count: 2}}
        init: [{task: i, node: a, steps: [w = 1.0]}]
        epoch: [{task: t, node: b_1, steps: [x = 1]}]
        """
    compiled = compile_text(tmp_path, text)

    assert [(warning.code, warning.path) for warning in compiled.warnings] == [("W133", "nodes.c")]


def test_an_epoch_without_tasks_is_a_fault(tmp_path):
    assert codes_of(tmp_path, "epoch: []") == ["E139"]
    assert codes_of(tmp_path, "epoch: {report: []}") == ["E139"]


def test_objects_that_an_epoch_changes_are_something_to_save(tmp_path):
    text = """\
        init: [{task: make, rebuild: true, steps: [{call: "lib:make", out: model}]}]
        epoch: [{task: train, steps: [{call: "lib:train", %s: %s}]}]
        """

    lent = compile_text(tmp_path, text % ("inout", "[model]"))
    passed = compile_text(tmp_path, text % ("with", "{model: model}"))

    assert lent.warnings == ()
    assert [warning.code for warning in passed.warnings] == ["W132"]


@pytest.mark.parametrize(
    "step",
    ["{save: {w: '${run.dir}/w.npy'}}", "{run: 'touch ${run.dir}/x'}",
     "{if: w > 1, then: [{save: {w: '${run.dir}/w.npy'}}]}"],
)  # fmt: skip
def test_results_that_may_stay_on_a_nodes_machine_are_pointed_out(tmp_path, step):
    text = f"exit: [{{task: e, steps: [{step}]}}]\n"
    collected = "checkpoint: {node_dir: /var/tmp, collect: master}\n"

    assert _warnings(tmp_path, text + collected) == ["W139"]
    assert _warnings(tmp_path, text) == []
    assert _warnings(tmp_path, f"exit: [{{task: e, steps: [x = w]}}]\n{collected}") == []


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (f"exit: [{{task: t, steps: [{A}, {B}]}}]", True),
        (f"exit: [{{task: t, steps: [{A}, {A}]}}]", False),
        (f"exit: [{{task: t, steps: [{A}]}}, {{task: u, steps: [{A}]}}]", True),
        (f"exit: [{{task: t, steps: [{A}]}}, {{task: u, steps: [{B}]}}]", True),
        (f"download: [{{task: t, steps: [{A}]}}]\nexit: [{{task: u, steps: [{A}]}}]", False),
        (f"download: [{{task: t, steps: [{A}]}}]\nexit: [{{task: u, steps: [{B}]}}]", True),
        (f"epoch: [{{task: t, steps: [w = w + 1, {A}], report: [{{every: 1s, steps: [{B}]}}]}}]",
         True),
        (f"exit: [{{task: t, setup: {{task: {{exit: [{B}]}}}}, steps: [{A}]}}]", True),
        ("exit: [{task: t, instances: 2, steps: [{save: {w: w.npy}}]}]", True),
        ("exit: [{task: t, instances: 2, steps: [{save: {w: 'w${instance}.npy'}}]}]", False),
        (NODES + "exit: [{task: u, node: '*', steps: [{save: {w: w.npy}}]}]", True),
        (NODES + "exit: [{task: u, node: '*', steps: [{save: {w: 'w-${node}.npy'}}]}]", False),
    ],
)  # fmt: skip
def test_save_that_replaces_what_another_has_written_is_warned_of(tmp_path, text, warned):
    codes = {fault.code for fault in compile_text(tmp_path, text).warnings}

    assert codes == ({"W145"} if warned else set())
