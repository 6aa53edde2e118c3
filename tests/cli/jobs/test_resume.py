"""``jobrun resume``."""

from __future__ import annotations

import pytest

from jobrun.cli.process.run_command import invoke
from tests.support.stored_runs import blobs, epochs, only_run
from tests.support.walk_spec import SPEC


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """An unfinished run, stopped after two of its four epochs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.yaml").write_text(SPEC)
    assert invoke(["run", "walk.yaml", "--max-epochs", "2", "-q"]) == 75
    capsys.readouterr()
    return only_run(tmp_path / "runs")


def test_without_a_name_the_newest_unfinished_run_goes_on(run, capsys):
    assert invoke(["resume"]) == 0
    assert f"walk/{run.name} continues after epoch 2" in capsys.readouterr().err
    assert list(epochs(run)) == [0, 1, 2, 3, 4]
    assert invoke(["resume"]) == 4
    assert "no unfinished run" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["path", "name", "job", "latest", "start"])
def test_a_run_has_many_names(run, form, capsys):
    names = {
        "path": str(run), "name": run.name, "job": "walk", "latest": "latest",
        "start": run.name[:-1],
    }  # fmt: skip
    assert invoke(["resume", names[form], "-q"]) == 0
    assert max(epochs(run)) == 4


def test_going_back_to_an_epoch_puts_later_ones_aside(run, capsys):
    assert invoke(["resume", "-q"]) == 0
    before = {number: blobs(path) for number, path in epochs(run).items()}
    assert invoke(["resume", "walk", "--epoch", "1", "-q"]) == 0
    assert {number: blobs(path) for number, path in epochs(run).items()} == before
    assert sorted(path.name for path in (run / "superseded").rglob("epoch-*")) == [
        "epoch-000002",
        "epoch-000003",
        "epoch-000004",
    ]


def test_a_changed_value_is_drift_unless_accepted(run, capsys):
    assert invoke(["resume", "--set", "params.rate=0.25"]) == 5
    said = capsys.readouterr().err
    assert "params.rate" in said
    assert invoke(["resume", "--set", "params.rate=0.25", "--accept-drift", "params.rate"]) == 0


def test_more_epochs_are_allowed(run, capsys):
    assert invoke(["resume", "--set", "stop[0].epochs=6", "-q"]) == 0
    assert max(epochs(run)) == 6
