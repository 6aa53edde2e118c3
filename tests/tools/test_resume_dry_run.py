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
def place(tmp_path):
    place = WalkJob(tmp_path / "a")
    place.start(max_epochs=2)
    return place


def told(place, **options):
    return forecast(place.run, place.load()[0], place.options(**options))


def test_what_goes_on_is_named_with_its_node(place):
    rows = dict(told(place).continues)

    assert rows["constants"] == "a.X: made again, compared by digest"
    assert ("value", "a.k = 2") in told(place).continues
    assert told(place).exit_code is None


def test_a_held_run_is_refused_with_its_holder(place):
    with RunLock.acquire(place.run.path):
        found = told(place)

    assert found.exit_code == 6
    assert "process" in found.held


def test_drift_is_told_with_its_class(place):
    place.edit(("* 0.5", "* 0.25"), ("epochs: 4", "epochs: 5"))

    found = told(place)

    assert found.exit_code == 5
    assert [change["refused"] for change in forecast_values(found)["changes"]] == [True, False]
    (refused,) = found.refused
    assert told(place, accept=(refused.field,)).exit_code is None


def test_before_the_first_save_init_runs(tmp_path):
    place = WalkJob(
        tmp_path / "a", ('"X = arange(12.0) / 7"', "{run: 'false'}, X = arange(12.0) / 7")
    )
    with pytest.raises(TaskFailedError):
        place.start()
    assert place.run.record.epoch == -1

    found = told(place)

    assert found.epoch == -1
    assert found.continues == (("state", "nothing was saved: init runs, as at the first start"),)
    assert found.remains == ("epochs: 0 of 4 have run, 4 remain",)


@pytest.mark.parametrize("is_left", [True, False])
def test_what_is_told_of_lost_epochs_is_what_a_resume_does(place, is_left):
    run = place.run
    (run.path / "committed.jsonl").unlink()
    (run.path / "checkpoints").rename(run.path / "elsewhere")
    if is_left:
        (run.path / "checkpoints").mkdir()

    for look in (lambda: told(place), place.resume, lambda: place.policy("auto")):
        with pytest.raises(CheckpointError, match="E357"):
            look()


def test_an_object_and_a_container_are_told_as_wholes(tmp_path):
    place = WalkJob(
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
    place.start(max_epochs=2)

    found = told(place).continues

    assert ("object", "a.model = mine.Model, constructed again and loaded") in found
    assert ("constants", "a.X, a.facts: made again, compared by digest") in found
    assert not [text for _, text in found if "structure" in text or "model/" in text]
