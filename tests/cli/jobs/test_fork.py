"""``jobrun fork``."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke
from tests.support.stored_runs import blobs, epochs
from tests.support.walk_spec import SPEC


@pytest.fixture
def parent(tmp_path, monkeypatch, capsys):
    """A finished run of four epochs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.yaml").write_text(SPEC)
    assert invoke(["run", "walk.yaml", "-q"]) == 0
    capsys.readouterr()
    return _runs(tmp_path)[0]


def _runs(folder):
    paths = [path for path in folder.glob("runs/*/2*") if not path.is_symlink()]
    return sorted(paths, key=lambda path: json.loads((path / "run.json").read_text())["created"])


def test_the_newest_run_is_forked_from_the_named_epoch_with_other_values(parent, tmp_path, capsys):
    before = {number: blobs(path) for number, path in epochs(parent).items()}

    assert invoke(["fork", f"{parent.name}@2", "--set", "params.rate=0.25"]) == 0

    errors = capsys.readouterr().err
    assert f"forked from walk/{parent.name}, epoch 2" in errors
    child = _runs(tmp_path)[1]
    assert list(epochs(child)) == [2, 3, 4]
    assert blobs(epochs(child)[2]) == before[2]
    assert blobs(epochs(child)[3]) != before[3]
    assert {number: blobs(path) for number, path in epochs(parent).items()} == before


def test_a_spec_may_be_another_one(parent, tmp_path, capsys):
    (tmp_path / "longer.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 6"))

    assert invoke(["fork", "latest", "longer.yaml", "-q"]) == 0

    assert list(epochs(_runs(tmp_path)[1])) == [4, 5, 6]


def test_some_blobs_may_be_taken_over(parent, tmp_path, capsys):
    assert invoke(["fork", "latest@4", "--blobs", "tot*", "-q"]) == 0

    child = _runs(tmp_path)[1]
    assert list(epochs(child)) == [0, 1, 2, 3, 4]
    taken = "local:/blobs/total"
    assert blobs(epochs(child)[0])[taken] == blobs(epochs(parent)[4])[taken]
    assert blobs(epochs(child)[0])["local:/blobs/x"] == blobs(epochs(parent)[0])["local:/blobs/x"]


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["latest@x"], 2, "not the number of an epoch"),
        (["latest@9"], 4, "epoch 9 is not there"),
        (["nobody"], 2, "no run 'nobody'"),
        (["latest", "--blobs", "y"], 2, "--blobs y"),
    ],
)
def test_what_cannot_be_forked_is_refused_and_nothing_is_made(
    parent, tmp_path, capsys, arguments, code, word
):
    assert invoke(["fork", *arguments]) == code
    assert word in capsys.readouterr().err
    assert len(_runs(tmp_path)) == 1


def test_the_refusal_of_drift_names_a_fork_that_works(parent, tmp_path, capsys):
    assert invoke(["run", "walk.yaml", "--resume", "never", "--max-epochs", "1", "-q"]) == 75
    (tmp_path / "walk.yaml").write_text(SPEC.replace("rate: 0.5", "rate: 0.25"))
    assert invoke(["run", "walk.yaml", "--resume", "auto"]) == 5
    errors = capsys.readouterr().err
    command = errors.partition("in a new run: jobrun ")[2].split()
    assert command[0] == "fork"

    assert invoke([*command, "-q"]) == 0

    resume = errors.partition("all the same: jobrun ")[2].partition(" · ")[0].split()
    assert invoke([*resume, "-q"]) == 0
