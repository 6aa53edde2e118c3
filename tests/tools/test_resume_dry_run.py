"""What a resume would do, as values."""

from __future__ import annotations

import pytest

from jobrun.core.errors import CheckpointError, TaskFailedError
from jobrun.runner.rundir.lock import RunLock
from jobrun.tools.resume_dry_run import forecast, forecast_values
from tests.support.resumable_job import WalkJob

MINE = """\
class Model:
    seen = 0

    def state_dict(self):
        return {"seen": self.seen, "name": "x"}

    def load_state_dict(self, state):
        self.seen = state["seen"]


def make():
    return Model(), {"table": [1.0, 2.0]}


def learn(model, facts):
    model.seen += 1
"""


@pytest.fixture
def job(tmp_path):
    job = WalkJob(tmp_path / "a")
    job.start(max_epochs=2)
    return job


def make_forecast(job, **options):
    return forecast(job.run, job.load()[0], job.options(**options))


def test_values_that_continue_are_named_with_their_node(job):
    rows = dict(make_forecast(job).continues)

    assert rows["constants"] == "a.X: made again, compared by digest"
    assert ("value", "a.k = 2") in make_forecast(job).continues
    assert make_forecast(job).exit_code is None


def test_a_held_run_is_refused_with_its_holder(job):
    with RunLock.acquire(job.run.path):
        made_forecast = make_forecast(job)

    assert made_forecast.exit_code == 6
    assert "process" in made_forecast.held


def test_drift_is_reported_with_its_class(job):
    job.edit(("* 0.5", "* 0.25"), ("epochs: 4", "epochs: 5"))

    made_forecast = make_forecast(job)

    assert made_forecast.exit_code == 5
    assert [change["refused"] for change in forecast_values(made_forecast)["changes"]] == [
        True,
        False,
    ]
    (refused,) = made_forecast.refused
    assert make_forecast(job, accept=(refused.field,)).exit_code is None


def test_before_the_first_save_init_runs(tmp_path):
    job = WalkJob(
        tmp_path / "a", ('"X = arange(12.0) / 7"', "{run: 'false'}, X = arange(12.0) / 7")
    )
    with pytest.raises(TaskFailedError):
        job.start()
    assert job.run.record.epoch == -1

    made_forecast = make_forecast(job)

    assert made_forecast.epoch == -1
    assert made_forecast.continues == (
        ("state", "nothing was saved: init runs, as at the first start"),
    )
    assert made_forecast.remains == ("epochs: 0 of 4 have run, 4 remain",)


@pytest.mark.parametrize("is_left", [True, False])
def test_the_forecast_of_lost_epochs_is_what_a_resume_does(job, is_left):
    run = job.run
    (run.path / "committed.jsonl").unlink()
    (run.path / "checkpoints").rename(run.path / "elsewhere")
    if is_left:
        (run.path / "checkpoints").mkdir()

    for look in (lambda: make_forecast(job), job.resume, lambda: job.policy("auto")):
        with pytest.raises(CheckpointError, match="E357"):
            look()


def test_an_object_and_a_container_are_one_row_each(tmp_path):
    job = WalkJob(
        tmp_path / "a",
        (
            'steps: ["X = arange(12.0) / 7"]',
            'steps: ["X = arange(12.0) / 7", {call: "mine:make", out: [model, facts]}]',
        ),
        (
            "      - k = k + 1\n",
            "      - k = k + 1\n"
            '      - {call: "mine:learn", with: {model: model, facts: facts}, inout: [model]}\n',
        ),
    )
    (tmp_path / "a" / "mine.py").write_text(MINE)
    job.start(max_epochs=2)

    made_forecast = make_forecast(job).continues

    assert ("object", "a.model = mine.Model, constructed again and loaded") in made_forecast
    assert ("constants", "a.X, a.facts: made again, compared by digest") in made_forecast
    assert not [text for _, text in made_forecast if "structure" in text or "model/" in text]
