"""Blobs across tasks: made before they are read, and not written where they may not be."""

from __future__ import annotations

import pytest

from jobrun.api import steps
from jobrun.compile.pipeline import complete
from jobrun.core.errors import SpecError
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup
from tests.support.compiling import codes_of, fault_of, faults_of


def test_a_task_reads_what_a_task_it_needs_has_made(tmp_path):
    text = """\
        init:
          - {task: c, needs: [b], steps: [w = x]}
          - {task: a, steps: [x = 1.0]}
          - {task: b, needs: [a], steps: [y = 1]}
        """

    assert codes_of(tmp_path, text) == []


def test_without_needs_the_blob_may_not_be_there(tmp_path):
    fault = fault_of(tmp_path, "init: [{task: a, steps: [x = 1.0]}, {task: b, steps: [w = x]}]")

    assert fault.code == "E182"
    assert fault.mend == "write needs: [a]"
    assert fault.path == "init/b/steps[0]"


def test_a_task_that_waits_for_this_one_is_no_help(tmp_path):
    text = "init: [{task: a, needs: [b], steps: [x = 1.0]}, {task: b, steps: [w = x]}]"
    fault = fault_of(tmp_path, text)

    assert fault.code == "E182"
    assert "waits for this task" in fault.message


def test_a_task_that_may_not_have_made_it_is_no_help(tmp_path):
    text = """\
        epoch:
          - {task: a, workspace: global, steps: [{if: w > 1, then: [x = 1]}]}
          - {task: b, needs: [a], steps: [y = x]}
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E182"
    assert "on some paths only" in fault.message


def test_the_last_task_before_decides_whether_it_is_there(tmp_path):
    text = """\
        epoch:
          - {task: a, workspace: global, steps: [x = 1]}
          - {task: b, needs: [a], steps: [del x]}
          - {task: c, needs: [b], steps: [y = x]}
        """

    assert codes_of(tmp_path, text) == ["E182"]


def test_changing_in_place_does_not_make_a_blob(tmp_path):
    text = """\
        epoch:
          - {task: a, workspace: global, steps: [x = zeros(3)]}
          - {task: b, needs: [a], steps: ['x[0] = 1']}
          - {task: c, needs: [b], steps: [y = x]}
        """

    assert codes_of(tmp_path, text) == []


def test_a_rebuilt_task_reads_only_what_is_rebuilt(tmp_path):
    text = """\
        init:
          - {task: a, steps: [w = 1.0]}
          - {task: b, rebuild: true, steps: [x = w]}
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E182"
    assert "resume" in fault.message


def test_set_up_comes_before_tasks_and_its_exit_after_them(tmp_path):
    text = """\
        epoch:
          tasks: [{task: t, workspace: global, steps: [x = g]}]
          setup: {init: [g = w], exit: [h = x + g]}
        """

    assert codes_of(tmp_path, text.replace("workspace: global, ", "")) == ["E183"]
    assert codes_of(tmp_path, text) == []


def test_set_up_cannot_read_what_tasks_make(tmp_path):
    text = "epoch: {tasks: [{task: t, workspace: global, steps: [x = 1]}], setup: {init: [g = x]}}"

    assert codes_of(tmp_path, text) == ["E182"]


def test_a_report_of_a_group_reads_state_and_set_up(tmp_path):
    text = """\
        epoch:
          tasks: [{task: t, steps: [w = w + g]}]
          setup: {init: [g = 1]}
          report: [{steps: [{log: "{w} {g}"}]}]
        """

    assert codes_of(tmp_path, text) == []


@pytest.mark.parametrize(
    "steps", ["X = 1", "X += 1", "'X[0] = 1'", "'add_at(X, 0, 1)'", "del X",
             "{call: 'm:f', inout: [X]}",
              "{load: {X: a.npy}}", "{guard: X, steps: [stop]}"],
)  # fmt: skip
def test_a_constant_is_never_written(tmp_path, steps):
    text = f"""\
        init: [{{task: d, rebuild: true, steps: [X = zeros(3)]}}, {{task: s, steps: [w = 1.0]}}]
        epoch: [{{task: t, steps: [{steps}]}}]
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E175"


def test_state_is_never_deleted(tmp_path):
    fault = fault_of(tmp_path, "epoch: [{task: t, steps: [del w]}]")

    assert fault.code == "E176"


def test_what_set_up_made_for_all_is_not_deleted_by_one(tmp_path):
    text = "epoch: {tasks: [{task: t, steps: [del g]}], setup: {init: [g = 1]}}"

    assert codes_of(tmp_path, text) == ["E176"]


def test_the_exit_of_a_task_does_not_see_what_instances_made(tmp_path):
    text = """\
        epoch:
          - {task: t, instances: 2, steps: [x = 1], setup: {task: {exit: [y = x]}}}
        """

    assert codes_of(tmp_path, text) == ["E187"]


def test_a_fault_on_many_nodes_is_one_fault(tmp_path):
    text = """\
        nodes: {a: {count: 50}}
        init: [{task: start, node: a, steps: [w = 1.0]}]
        epoch: [{task: t, node: a, steps: [y = x, w = nothing]}]
        """

    assert [fault.message for fault in faults_of(tmp_path, text)] == [
        "unknown blob 'x'",
        "unknown blob 'nothing'",
    ]


def test_hogwild_allows_a_race_in_parallel(tmp_path):
    text = "epoch: [{task: t, hogwild: true, steps: [{parallel: [[w = 1.0], [w = 2.0]]}]}]"

    assert codes_of(tmp_path, text) == []


WARN = "epoch: [{{task: t, on_error: warn, {}}}]"


@pytest.mark.parametrize(
    "text",
    [
        WARN.format("steps: [w = w + 1]"),
        WARN.format("steps: [x = 1], report: [{every: 1s, steps: [w = w + 1]}]"),
        WARN.format("setup: {task: {init: [w = 2.0]}}, steps: [x = 1]"),
        WARN.format("setup: {instance: {exit: [w = 2.0]}}, steps: [x = 1]"),
        WARN.format("steps: [{call: 'm:f', with: {w: w}, inout: [w]}]"),
        WARN.format("hogwild: true, instances: 2, steps: [w = w + 1]"),
    ],
)
def test_writing_state_is_refused_wherever_the_task_does_it(tmp_path, text):
    fault = fault_of(tmp_path, text)

    assert fault.code == "E122"
    assert "writes 'w', a blob of the node" in fault.message
    assert fault.path.startswith("epoch/t")


def test_counting_in_state_is_a_write_too(tmp_path):
    text = "init: [{task: i, steps: [n = counter(0)]}]\n" + WARN.format("steps: [o = count_up(n)]")

    assert "writes 'n'" in fault_of(tmp_path, text).message


def test_blobs_of_the_group_run_are_shared_as_well(tmp_path):
    text = """\
        epoch:
          setup: {init: [g = 1]}
          tasks: [{task: t, on_error: warn, steps: [g = 2]}]
        """

    assert "a blob of the group run" in fault_of(tmp_path, text).message


def test_a_global_group_makes_every_name_one_of_the_node(tmp_path):
    assert (
        fault_of(tmp_path, "download: [{task: t, on_error: warn, steps: [y = w]}]").code == "E122"
    )
    private = "download: [{task: t, on_error: warn, workspace: private, steps: [y = w]}]"
    assert codes_of(tmp_path, private) == []


def test_its_outputs_may_not_be_there(tmp_path):
    fault = fault_of(tmp_path, WARN.format("steps: [x = 1], outputs: [x]"))

    assert fault.code == "E122"
    assert "its output 'x' may not exist" in fault.message


def test_nobody_may_need_it(tmp_path):
    text = """\
        epoch:
          - {task: t, on_error: warn, steps: [x = 1]}
          - {task: u, needs: [t], steps: [w = w + 1]}
        """

    fault = fault_of(tmp_path, text)

    assert (fault.code, fault.path) == ("E122", "epoch/u")
    assert "needs 't'" in fault.message


def test_all_faults_of_visibility_are_reported_together(tmp_path):
    text = WARN.format("steps: [w = 1.0, x = 1], outputs: [x]")

    assert [fault.code for fault in faults_of(tmp_path, text)] == ["E122", "E122"]


def test_harmless_uses_of_names_are_allowed(tmp_path):
    text = """\
        epoch:
          - {task: work, steps: [w = w + 1]}
        exit:
          - task: tell
            on_error: warn
            instances: 2
            timeout: 30s
            setup: {task: {init: [n = 1]}}
            steps: ["y = w * 2", {run: [mail, me], with: {y: y}}]
          - {task: other, steps: ["z = w"], on_error: fail}
        """

    assert codes_of(tmp_path, text) == []


def test_a_job_built_by_hand_is_held_to_the_same(tmp_path):
    local = (Task("start", "n", steps("x = 1")),)
    tolerant = Task("t", "n", steps("x = x + 1"), on_error="warn")
    job = Job(
        "j",
        Cluster((Node("n"),)),
        TaskGroup("init", local),
        TaskGroup("epoch", (tolerant,)),
        stop=(StopAfterEpochs(1),),
    )

    with pytest.raises(SpecError) as caught:
        complete(job)

    assert [fault.code for fault in caught.value.faults] == ["E122"]
