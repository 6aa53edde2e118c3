"""A run's spec folder: written, read back, changed."""

from __future__ import annotations

import json

import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import CheckpointError
from jobrun.runner.rundir.spec_folder import (
    install_spec,
    load_changed_spec,
    load_recorded_spec,
    stage_spec,
)
from jobrun.spec.dump import spec_digest
from jobrun.spec.load import load_spec
from tests.support.resumable_job import Place


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    place.start(max_epochs=1)
    return place


def test_what_its_author_wrote_is_kept_word_for_word(place):
    assert (place.run.path / "spec" / "walk.yaml").read_text() == place.spec.read_text()


def test_the_recorded_spec_is_the_one_that_ran(place):
    recorded = load_recorded_spec(place.run)

    assert spec_digest(recorded) == spec_digest(place.load()[0]) == place.run.record.spec_digest
    assert compile_job(recorded).job == place.load()[1]
    assert recorded.folder == str(place.folder)


def test_the_plan_says_what_runs_where(place):
    plan = json.loads((place.run.path / "spec" / "plan.json").read_text())

    assert plan["state"] == {"a": ["k", "loss", "w"], "b": ["v"]}
    assert plan["constants"]["a"] == ["X"]
    assert [task["task"] for task in plan["groups"]["epoch"]] == ["step", "stir"]
    assert plan["exact"] is True


def test_a_resume_may_change_the_recorded_spec(place, tmp_path):
    more = tmp_path / "more.yaml"
    more.write_text("stop: [{epochs: 9}]\n")

    changed = load_changed_spec(place.run, values=(str(more),), overrides=("description=hello",))

    assert changed.spec.stop[0].epochs == 9
    assert changed.spec.description == "hello"


def test_a_resume_may_use_another_spec(place):
    place.edit(("epochs: 4", "epochs: 7"))

    assert load_changed_spec(place.run, spec=str(place.spec)).spec.stop[0].epochs == 7


def test_a_run_without_its_spec_says_how_to_go_on(place):
    (place.run.path / "spec" / "resolved.yaml").unlink()

    with pytest.raises(CheckpointError, match="--spec FILE"):
        load_recorded_spec(place.run)


def test_files_of_one_name_and_options_are_all_kept(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "resolved.yaml").write_text(f"description: {folder}\n")
    (tmp_path / "run" / "spec").mkdir(parents=True)
    place = Place(tmp_path)
    loaded = load_spec(
        str(place.spec),
        values=[str(tmp_path / folder / "resolved.yaml") for folder in ("one", "two")],
        overrides=["seed=6"],
    )

    stage_spec(tmp_path / "run", loaded, compile_job(loaded).job)
    install_spec(tmp_path / "run")

    kept = {path.name: path.read_text() for path in (tmp_path / "run" / "spec").iterdir()}
    assert "description: one" in kept["2-resolved.yaml"]
    assert "description: two" in kept["3-resolved.yaml"]
    assert kept["options.txt"] == "--set #1: seed=6\n"
    assert "description: two" in kept["resolved.yaml"]


def test_no_value_of_the_environment_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("WALK_SECRET", "hunter2")
    place = Place(tmp_path, ("name: walk", 'name: walk\ndescription: "${env:WALK_SECRET}"'))

    place.start(max_epochs=1)

    texts = [path.read_bytes() for path in place.run.path.rglob("*") if path.is_file()]
    assert not any(b"hunter2" in text for text in texts)
    assert set(place.run.record.variables) == {"WALK_SECRET"}
