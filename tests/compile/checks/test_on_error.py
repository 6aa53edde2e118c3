"""Tasks with 'on_error: warn': what they may not do."""

from __future__ import annotations

import pytest

from jobrun.api import steps
from jobrun.compile.pipeline import complete
from jobrun.core.errors import SpecError
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup
from tests.support.compiling import codes_of, fault_of, faults_of

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


def test_all_of_it_is_told_together(tmp_path):
    text = WARN.format("steps: [w = 1.0, x = 1], outputs: [x]")

    assert [fault.code for fault in faults_of(tmp_path, text)] == ["E122", "E122"]


def test_what_hurts_nobody_is_allowed(tmp_path):
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
