"""Cases about the job as a whole: its groups, its end, its stop conditions and its saves."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import CheckpointError, SpecError, TaskFailedError
from tests.support.compiling import codes_of, fault_of, job_of

_COUNTING = """
init: [{task: start, steps: [n = 0, {log: init}]}]
epoch: [{task: t, steps: [n += 1, {log: epoch}]}]
download: [{task: gather, steps: [{log: download}]}]
exit: [{task: leave, steps: [{log: exit}]}]
stop: [{epochs: TOTAL}]
"""


def _counting(total: int, more: str = "") -> str:
    return _COUNTING.replace("TOTAL", str(total)) + more


def test_case_071_no_checkpoint_manager(trial):
    """Same: without checkpoints all groups run all the same."""
    job = trial(_counting(2, "checkpoint: none\n"))

    assert job.start().epoch == 2

    assert job.messages == ["init", "epoch", "epoch", "download", "exit"]


@pytest.mark.parametrize("epoch", [None, 3])
def test_case_071_no_checkpoint_manager_to_resume_with(trial, epoch):
    """By rule 18: a run that kept nothing is not resumed, and nothing of it runs."""
    job = trial(_counting(2, "checkpoint: none\n"))
    job.start()
    job.forget()

    with pytest.raises(CheckpointError) as caught:
        job.resume(epoch)

    assert caught.value.faults[0].code == "E361"
    assert job.events == []


def test_case_074_unsavable_blob_kills_checkpoint(trial):
    """By rule 16: what no checkpoint can hold is refused in init, by the name of its blob."""
    job = trial("""
        init: [{task: start, steps: [w = 1, {call: "library:make_queue", out: q}]}]
        epoch: [{task: t, steps: [w += 1]}]
        stop: [{epochs: 2}]
    """)

    with pytest.raises(TaskFailedError) as caught:
        job.start()

    assert "'q'" in caught.value.faults[0].message
    assert job.groups == ["init"]
    assert job.store.epochs() == ()


_FOURTH_FAILS = """
init: [{task: start, steps: [w = 1]}]
epoch: [{task: t, steps: [{log: e}, {assert: epoch < 4, message: broken}]}]
exit: [{task: leave, steps: [{log: exit}]}]
"""


def test_case_077_no_stop_condition(trial, tmp_path):
    """By rule 30: a job without an end must say so; what follows is what was observed."""
    assert codes_of(tmp_path, "stop: []\n" + _FOURTH_FAILS) == ["E137"]
    job = trial(_FOURTH_FAILS + "stop: [{endless: true}]\n")

    with pytest.raises(TaskFailedError, match="broken"):
        job.start()

    assert job.messages == ["e"] * 4
    assert job.store.epochs() == (0, 1, 2, 3)


@pytest.mark.parametrize("total", [1, 3])
def test_case_079_epoch_limiter_values(trial, total):
    """Same: as many epochs as the limit says."""
    job = trial(_counting(total))

    assert job.start().epoch == total
    assert job.epochs_run() == total


def test_case_079_epoch_limiter_values_of_zero(tmp_path):
    """Same: a limit of no epochs is an error."""
    assert codes_of(tmp_path, "stop: [{epochs: 0}]\n") == ["E024"]


@pytest.mark.parametrize(("epoch", "more"), [(0, 5), (2, 3), (4, 1), (5, 0)])
def test_case_079_epoch_limiter_values_after_a_resume(trial, epoch, more):
    """By rule 17: the limit is a total, and the last epoch is followed by none."""
    job = trial(_counting(5))
    job.start()
    job.forget()

    result = job.resume(epoch)

    assert (result.epoch, job.epochs_run()) == (5, more)
    assert job.store.epochs() == (0, 1, 2, 3, 4, 5)


def test_case_085_download_group(trial):
    """Same: download runs once after the last epoch, and exit reads what it made."""
    job = trial("""
        init:
          - task: fill
            steps:
              - input1 = ones(8, dtype=float32)
              - input2 = ones(8, dtype=float32)
              - output = ones(8, dtype=float32)
              - result = ones(8, dtype=float32)
        epoch: [{task: add, steps: [output = input1 + input2]}]
        download: [{task: gather, steps: [result = output]}]
        exit: [{task: leave, steps: [{save: {result: "${run.dir}/artifacts/result.npy"}}]}]
        stop: [{epochs: 1}]
    """)

    assert job.start().epoch == 1

    twos = np.full(8, 2, np.float32)
    result = np.load(job.run.path / "artifacts" / "result.npy")
    assert result.tobytes() == job.state(1)["local.output"].tobytes() == twos.tobytes()
    assert result.dtype == twos.dtype


_STOPPING = """
init: [{task: start, steps: [w = 1, flag = INITIAL]}]
epoch: [{task: t, steps: [w += 1, flag = VALUE, done = True], outputs: [done]}]
stop: [{when: WHAT}]
"""


def _stopping(condition: str, initial: str = "False", value: str = "w == 2") -> str:
    text = _STOPPING.replace("WHAT", condition).replace("INITIAL", initial)
    return text.replace("VALUE", value)


@pytest.mark.parametrize("condition", ["t.done", "flag"])
def test_case_086_stop_condition_kinds(trial, condition):
    """Same: a task's output or a blob of the state; no task is added for it."""
    job = trial(_stopping(condition))

    assert job.start().epoch == 1
    assert len(job.compile().epoch.tasks) == 1


def test_case_086_stop_condition_kinds_of_something_else(tmp_path):
    """Same: what is neither is an error."""
    assert fault_of(tmp_path, "stop: [{when: nowhere}]\n").code == "E135"
    assert job_of(tmp_path, "stop: [{when: w > 2}]\n")


@pytest.mark.parametrize(("initial", "value"), [("0", "1"), ("0.0", "0.5")])
def test_case_086_stop_condition_kinds_are_bools(trial, initial, value):
    """By rule 26: a number is no condition, which is reported before anything runs."""
    job = trial(_stopping("flag", initial, value))

    with pytest.raises(SpecError) as caught:
        job.start()

    assert caught.value.faults[0].code == "E291"
