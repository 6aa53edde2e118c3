"""Cases about steps that fail, alone and beside others."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from tests.support.compiling import faults_of

_HEAD = """
init: [{task: start, steps: ["a = zeros(1)"]}]
stop: [{epochs: 2}]
"""


def test_case_037_fail_raises_in_concurrent_default(stage):
    """By rule 7: what a task raises beside others is raised by the run; no process ends."""
    job = stage(
        _HEAD
        + """
epoch:
  - {task: bad, steps: [{call: "library:fail", with: {text: "'broken'"}}]}
  - {task: other, steps: [{while: "a[0] == 0", steps: [x = 1]}, {log: other ends}]}
"""
    )

    with pytest.raises(TaskFailedError, match="ValueError: broken") as caught:
        job.run("init", "epoch")

    assert [fault.path for fault in caught.value.faults] == ["epoch/bad/steps[0]"]
    assert job.messages == []


def test_case_039_fail_false_straight_line_sibling(stage):
    """By rule 7: a task is asked between its steps, also in a straight line of them."""
    job = stage(
        _HEAD
        + """
epoch:
  - task: bad
    setup: {task: {exit: ["down = '${run.dir}/down'", {call: "library:touch", with: {path: down}}]}}
    steps:
      - "up = '${run.dir}/up'"
      - {call: "library:wait_for", with: {path: up}}
      - {assert: 1 > 2, message: broken}
  - task: other
    steps:
      - "up = '${run.dir}/up'"
      - "down = '${run.dir}/down'"
      - {log: e0}
      - {call: "library:touch", with: {path: up}}
      - {call: "library:wait_for", with: {path: down}}
      - {log: e1}
      - {log: e2}
      - {loop: 1, steps: [{log: e3}]}
"""
    )

    with pytest.raises(TaskFailedError, match="broken"):
        job.run("init", "epoch")

    assert job.messages == ["e0"]


_THIRD_FAILS = (
    _HEAD
    + """
epoch:
  - task: t
    steps:
      - {log: "1"}
      - a[0] = 1
      - {assert: epoch == 2, message: broken}
      - {log: "2"}
"""
)


def test_case_040_single_task_raise(stage):
    """Same: the error is raised, nothing after it runs, and the session goes on."""
    job = stage(_THIRD_FAILS)

    with pytest.raises(TaskFailedError, match="broken"):
        job.run("init", "epoch")
    assert job.messages == ["1"]
    job.forget()

    job.run("epoch", epoch=2)
    assert job.messages == ["1", "2"]


def test_case_040_single_task_raise_in_a_run(trial):
    """By design: what a failed epoch wrote ends with it; the last saved epoch is as it was."""
    job = trial(_THIRD_FAILS)

    with pytest.raises(TaskFailedError, match="broken"):
        job.start()

    assert job.store.epochs() == (0,)
    assert np.array_equal(job.state(0)["local.a"], [0])


_MISSING = """
epoch:
  - task: t
    setup: {task: {init: [{log: init}]}}
    steps: [{log: before}, x = nothing + 1]
"""


@pytest.mark.parametrize("other_task", ["", "  - {task: other, steps: [{log: other}]}\n"])
def test_case_117_missing_input_is_found_before_running(tmp_path, other_task):
    """Same: no step runs; and by rule 7 a task beside it changes nothing."""
    (fault,) = faults_of(tmp_path, _MISSING + other_task)

    assert fault.code == "E180"
    assert fault.path == "epoch/t/steps[1]"
