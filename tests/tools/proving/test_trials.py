from __future__ import annotations

import pytest

from jobrun.core.errors import ProofError
from jobrun.tools.proving.forge import Forge
from jobrun.tools.proving.schedule import AtPoint, AtTime, Trial
from jobrun.tools.proving.trials import carry_out, run_unbroken
from tests.support.command import environment

SPEC = """
jobrun: 1
name: grow
init:
  - {task: begin, steps: ["x = 0"]}
epoch:
  - {task: step, steps: ["x = x + 1", %s]}
stop: [epochs: 4]
"""
# It adds what it remembers: a process that starts in the middle remembers less.
HIDDEN = "calls = []\ndef remember():\n    calls.append(1)\n    return len(calls)\n"


@pytest.fixture(scope="module")
def forge():
    with Forge("jobrun", ["numpy", "h5py", "jobrun.runner.invocation"], environment()) as opened:
        yield opened


def command(folder, step='"y = 1"'):
    (folder / "grow.yaml").write_text(SPEC % step)
    return ["run", str(folder / "grow.yaml"), "--resume", "auto", "--quiet"]


@pytest.fixture
def good(forge, tmp_path):
    words = command(tmp_path)
    return words, run_unbroken(forge, words, tmp_path / "reference")


def test_the_unbroken_run_tells_how_often_it_reached_each_place(good):
    _, reference = good

    assert reference.exit_code == 0
    assert reference.course.reached["checkpoint.renamed"] == 5
    assert reference.course.reached["runner.init-ended"] == 1


def test_a_job_that_fails_by_itself_cannot_be_proven(forge, tmp_path):
    with pytest.raises(ProofError, match=r"E418.*exit code 1"):
        run_unbroken(forge, command(tmp_path, '{assert: "x < 3"}'), tmp_path / "reference")


def test_killed_twice_and_resumed_it_ends_like_the_reference(forge, good, tmp_path):
    words, reference = good
    kills = (AtPoint("checkpoint.renamed", 2), AtPoint("runner.recovered", 1))

    outcome = carry_out(forge, Trial(0, kills), reference, words, tmp_path / "trial")

    assert outcome.good
    assert outcome.landed == (True, True)


def test_a_place_that_is_not_reached_is_no_kill_and_no_failure(forge, good, tmp_path):
    words, reference = good
    trial = Trial(0, (AtPoint("checkpoint.renamed", 99), AtTime(0.01)))

    outcome = carry_out(forge, trial, reference, words, tmp_path / "trial")

    assert outcome.good
    assert outcome.landed == (False, False)


def test_an_instant_that_comes_too_late_is_tried_again_sooner(forge, good, tmp_path):
    words, reference = good
    trial = Trial(0, (AtTime(reference.course.seconds + 60),))

    outcome = carry_out(forge, trial, reference, words, tmp_path / "trial")

    assert outcome.good
    assert outcome.landed == (True,)
    assert outcome.trial.kills[0].after_s < reference.course.seconds


def test_what_a_module_remembers_is_found_out(forge, tmp_path):
    (tmp_path / "hidden.py").write_text(HIDDEN)
    words = command(tmp_path, '{call: "hidden:remember", out: y}, "x = x + y"')
    reference = run_unbroken(forge, words, tmp_path / "reference")
    trial = Trial(0, (AtPoint("checkpoint.committed", 4),))

    outcome = carry_out(forge, trial, reference, words, tmp_path / "trial")

    assert outcome.landed == (True,)
    assert outcome.difference is not None
    assert (outcome.difference.blob, outcome.difference.epoch) == ("x", 4)


def test_a_resume_that_fails_is_told_with_its_last_words(forge, tmp_path):
    # It can be done once only: the second time the folder is there.
    once = '{run: ["mkdir", "once-${epoch}"]}'
    words = command(tmp_path, once)
    reference = run_unbroken(forge, words, tmp_path / "reference")
    for number in range(1, 5):
        (tmp_path / f"once-{number}").rmdir()
    trial = Trial(0, (AtPoint("runner.epoch-ended", 2),))

    outcome = carry_out(forge, trial, reference, words, tmp_path / "trial")

    assert "exit code 1" in outcome.failure
    assert "mkdir" in outcome.failure
