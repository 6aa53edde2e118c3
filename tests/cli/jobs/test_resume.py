"""``jobrun resume``."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke
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


def test_without_a_name_the_newest_unfinished_run_continues(run, capsys):
    assert invoke(["resume"]) == 0
    assert f"walk/{run.name} continues after epoch 2" in capsys.readouterr().err
    assert list(epochs(run)) == [0, 1, 2, 3, 4]
    assert invoke(["resume"]) == 4
    assert "no unfinished run" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["path", "name", "job", "latest", "start"])
def test_a_run_has_many_names(run, kind, capsys):
    names = {
        "path": str(run), "name": run.name, "job": "walk", "latest": "latest",
        "start": run.name[:-1],
    }  # fmt: skip
    assert invoke(["resume", names[kind], "-q"]) == 0
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
    errors = capsys.readouterr().err
    assert "params.rate" in errors
    assert invoke(["resume", "--set", "params.rate=0.25", "--accept-drift", "params.rate"]) == 0


def test_more_epochs_are_allowed(run, capsys):
    assert invoke(["resume", "--set", "stop[0].epochs=6", "-q"]) == 0
    assert max(epochs(run)) == 6


MORE = (
    SPEC.replace(
        "      - total = 0.0\n", "      - total = 0.0\n      - lr = 0.1\n      - c = counter(0)\n"
    )
    .replace(
        "      - total = total + sum(x)\n",
        "      - total = total + sum(x)\n      - lr = lr * 0.5\n      - count_up(c)\n",
    )
    .replace("  - epochs: 4\n", "  - epochs: 4\n  - no_improvement: {of: total, for: 9}\n")
)


@pytest.fixture
def richer_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.yaml").write_text(MORE)
    assert invoke(["run", "walk.yaml", "--max-epochs", "2", "-q"]) == 75
    capsys.readouterr()
    return only_run(tmp_path / "runs")


def _files(run):
    return {str(path): path.stat().st_mtime_ns for path in run.rglob("*")}


def test_each_question_is_answered_and_nothing_changes(richer_run, capsys):
    before = _files(richer_run)

    assert invoke(["resume", "--dry-run"]) == 0

    output = capsys.readouterr().out
    for words in (
        "epoch 2: the newest that is saved",
        "epochs: 2 of 4 have run, 2 remain",
        "no improvement: total: best",
        "c = 2",
        "lr = 0.025",
        "x = float64 32, bit for bit",
        "seed 5",
        "the same: it depends on",
        "changed      nothing",
        "exit code 75",
        "overwritten  nothing",
    ):
        assert words in output, words
    assert _files(richer_run) == before


def test_as_json_for_programs(richer_run, capsys):
    assert invoke(["resume", "--dry-run", "--json", "--set", "params.rate=2.0"]) == 5

    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "jobrun.forecast/1"
    assert (document["epoch"], document["exit_code"], document["overwritten"]) == (2, 5, [])
    (change,) = document["changes"]
    assert (change["field"], change["class"], change["refused"]) == (
        "params.rate",
        "semantic",
        True,
    )


def test_a_finished_run_says_that_nothing_is_left(richer_run, capsys):
    assert invoke(["resume", "-q"]) == 0
    assert invoke(["resume", "latest", "--dry-run"]) == 0

    output = capsys.readouterr().out
    assert "nowhere: the run has finished" in output
    assert "exit code 0" in output


def test_damage_and_epochs_that_go_to_superseded_are_reported(richer_run, capsys):
    path = epochs(richer_run)[2] / "local.h5"
    path.write_bytes(path.read_bytes()[:-9])

    assert invoke(["resume", "--dry-run"]) == 0

    output = capsys.readouterr().out
    assert "from         epoch 1" in output
    assert "skipped      epoch 2: " in output
    assert "to superseded/: epoch 2 (damaged)" in output
    assert 2 in epochs(richer_run)


def test_going_back_is_forecast(richer_run, capsys):
    assert invoke(["resume", "--dry-run", "--epoch", "0"]) == 0

    output = capsys.readouterr().out
    assert "epoch 0: it was asked for" in output
    assert "to superseded/: epoch 1, epoch 2" in output


def test_an_epoch_that_cannot_be_had_is_refused(richer_run, capsys):
    assert invoke(["resume", "--dry-run", "--epoch", "9"]) == 4
