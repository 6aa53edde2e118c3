from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.core.errors import ProofError
from jobrun.tools.prove.fork_server import ForkClient, ProcessEnd
from jobrun.tools.prove.trials import (
    AtPoint,
    AtTime,
    Course,
    Trial,
    another_instant,
    plan_trials,
    run_trial,
    run_unbroken,
)
from tests.support.command import environment

SPEC = """
jobrun: 1
name: grow
init:
  - {task: begin, steps: ["x = 0"]}
epoch:
  - {task: step, steps: ["x = x + 1", %s]}
stop: [epochs: 4]
checkpoint: {every: 1ep}
"""
# It adds what it remembers: a process that starts in the middle remembers less.
HIDDEN = "calls = []\ndef remember():\n    calls.append(1)\n    return len(calls)\n"


@pytest.fixture(scope="module")
def forge():
    with ForkClient(
        "jobrun", ["numpy", "h5py", "jobrun.runner.invocation"], environment()
    ) as opened:
        yield opened


def command(folder, step='"y = 1"'):
    (folder / "grow.yaml").write_text(SPEC % step)
    return ["run", str(folder / "grow.yaml"), "--resume", "auto", "--quiet"]


@pytest.fixture
def good(forge, tmp_path):
    words = command(tmp_path)
    return words, run_unbroken(forge, words, tmp_path / "reference")


@pytest.mark.long
def test_the_unbroken_run_counts_how_often_it_reached_each_failpoint(good):
    _, reference = good

    assert reference.exit_code == 0
    assert reference.course.reached["checkpoint.renamed"] == 5
    assert reference.course.reached["runner.init-ended"] == 1


def test_a_job_that_fails_by_itself_cannot_be_proven(forge, tmp_path):
    with pytest.raises(ProofError, match=r"E418.*exit code 1") as caught:
        run_unbroken(forge, command(tmp_path, '{assert: "x < 3"}'), tmp_path / "reference")

    # What was wrong and its mend, as one line.
    message = caught.value.faults[0].message
    assert "error[E205]" in message
    assert "; mend what it guards" in message
    assert "\n" not in message
    assert "^" not in message


def test_killed_twice_and_resumed_it_ends_like_the_reference(forge, good, tmp_path):
    words, reference = good
    kills = (AtPoint("checkpoint.renamed", 2), AtPoint("runner.recovered", 1))

    outcome = run_trial(forge, Trial(0, kills), reference, words, tmp_path / "trial")

    assert outcome.good
    assert outcome.landed == (True, True)


@pytest.mark.long
def test_a_place_that_is_not_reached_is_no_kill_and_no_failure(forge, good, tmp_path):
    words, reference = good
    trial = Trial(0, (AtPoint("checkpoint.renamed", 99), AtTime(0.01)))

    outcome = run_trial(forge, trial, reference, words, tmp_path / "trial")

    assert outcome.good
    assert outcome.landed == (False, False)


@pytest.mark.long
def test_an_instant_that_comes_too_late_is_tried_again_sooner(forge, good, tmp_path):
    words, reference = good
    trial = Trial(0, (AtTime(reference.course.seconds + 60),))

    outcome = run_trial(forge, trial, reference, words, tmp_path / "trial")

    assert outcome.good
    assert outcome.landed == (True,)
    assert outcome.trial.kills[0].after_s < reference.course.seconds


@pytest.mark.long
def test_what_a_module_remembers_is_found_out(forge, tmp_path):
    (tmp_path / "hidden.py").write_text(HIDDEN)
    words = command(tmp_path, '{call: "hidden:remember", out: y}, "x = x + y"')
    reference = run_unbroken(forge, words, tmp_path / "reference")
    trial = Trial(0, (AtPoint("checkpoint.committed", 4),))

    outcome = run_trial(forge, trial, reference, words, tmp_path / "trial")

    assert outcome.landed == (True,)
    assert outcome.difference is not None
    assert (outcome.difference.blob, outcome.difference.epoch) == ("x", 4)


@pytest.mark.long
def test_a_failed_resume_is_reported_with_its_last_output(forge, tmp_path):
    # It can be done once only: the second time the folder is there.
    once = '{run: ["mkdir", "once-${epoch}"]}'
    words = command(tmp_path, once)
    reference = run_unbroken(forge, words, tmp_path / "reference")
    for number in range(1, 5):
        (tmp_path / f"once-{number}").rmdir()
    trial = Trial(0, (AtPoint("runner.epoch-ended", 2),))

    outcome = run_trial(forge, trial, reference, words, tmp_path / "trial")

    assert "exit code 1" in outcome.failure
    assert "mkdir" in outcome.failure


def test_a_kill_after_the_run_has_finished_is_no_kill_and_no_fault(good, tmp_path):
    words, reference = good

    outcome = run_trial(
        LateForge(reference),
        Trial(0, (AtPoint("runner.exit-ended", 1),)),
        reference,
        words,
        tmp_path / "trial",
    )

    assert outcome.good
    assert outcome.landed == (False,)


class LateForge:
    """Kills the process when the run has finished, and the process has not ended yet."""

    def __init__(self, reference):
        self._reference = reference

    def run(self, arguments, output, **_):
        folder = Path(arguments[arguments.index("--run-dir") + 1])
        run = self._reference.run.path
        shutil.copytree(run.parent, folder / run.parent.name, symlinks=True)
        # What was still to be tidied up: an epoch more than the unbroken run has in the end.
        epochs = folder / run.parent.name / run.name / "checkpoints"
        shutil.copytree(epochs / "epoch-000004", epochs / "epoch-000005")
        return ProcessEnd(-9, 0.0, 1.0, killed=True)


@pytest.mark.long
def test_the_epoch_from_which_a_resume_continued_is_known(forge, good, tmp_path):
    words, reference = good
    trial = Trial(0, (AtPoint("runner.acknowledged", 4),))

    outcome = run_trial(forge, trial, reference, words, tmp_path / "trial")

    assert (outcome.good, outcome.loaded) == (True, 3)


@pytest.mark.long
def test_a_copy_that_was_killed_before_its_first_save_has_loaded_nothing(forge, good, tmp_path):
    words, reference = good
    trial = Trial(0, (AtPoint("runner.run-made", 1),))

    outcome = run_trial(forge, trial, reference, words, tmp_path / "trial")

    assert (outcome.good, outcome.landed, outcome.loaded) == (True, (True,), 0)


REACHED = {"checkpoint.staged": 5, "checkpoint.renamed": 5, "runner.init-ended": 1}
COURSE = Course(REACHED, 0.5, 2.0)


def test_the_same_seed_gives_the_same_trials_and_another_seed_others():
    assert plan_trials(COURSE, 30, seed=3) == plan_trials(COURSE, 30, seed=3)
    assert plan_trials(COURSE, 30, seed=3) != plan_trials(COURSE, 30, seed=4)


def test_half_of_the_first_kills_are_at_named_places_and_every_place_comes_as_often():
    first = [trial.kills[0] for trial in plan_trials(COURSE, 40)]

    named = Counter(kill.point for kill in first if isinstance(kill, AtPoint))
    assert sum(named.values()) == 20
    assert set(named) == set(REACHED)


def test_every_third_resume_is_killed_and_every_ninth_resume_of_that():
    counts = [len(trial.kills) for trial in plan_trials(COURSE, 18)]

    assert counts == [1, 1, 2, 1, 1, 2, 1, 1, 3] * 2


def test_the_first_copy_dies_after_the_last_save():
    reached = {"runner.acknowledged": 4, "runner.init-ended": 1}

    assert plan_trials(Course(reached, 0.5, 2.0), 1)[0].kills == (
        AtPoint("runner.acknowledged", 4),
    )


def test_without_any_place_all_kills_are_at_instants():
    kills = [kill for trial in plan_trials(Course({}, 0.5, 2.0), 9) for kill in trial.kills]

    assert all(isinstance(kill, AtTime) for kill in kills)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9)),
    st.floats(0.01, 100),
    st.integers(0, 40),
    st.integers(0, 999),
)
def test_every_kill_is_one_that_the_unbroken_run_could_meet(reached, seconds, count, seed):
    planned = plan_trials(Course(reached, seconds / 2, seconds), count, seed)

    assert [trial.number for trial in planned] == list(range(count))
    for kill in (kill for trial in planned for kill in trial.kills):
        if isinstance(kill, AtPoint):
            assert 1 <= kill.occurrence <= reached[kill.point]
        else:
            assert 0 <= kill.after_s <= seconds


def test_another_instant_lies_within_the_time_it_is_given():
    assert 0 <= another_instant(COURSE, 7).after_s <= 2.0
    assert another_instant(COURSE, 7) == another_instant(COURSE, 7)


def test_kills_are_named_as_the_crash_points_variable_wants_them():
    assert str(AtPoint("checkpoint.staged", 3)) == "checkpoint.staged:3"
    assert str(AtTime(0.0305)) == "after 30 ms"


def test_most_instants_come_after_the_run_has_begun_to_do_something():
    instants = [
        kill.after_s for trial in plan_trials(Course({}, 0.5, 2.0), 200) for kill in trial.kills
    ]

    assert 0 < sum(instant < 0.5 for instant in instants) < len(instants) / 10
