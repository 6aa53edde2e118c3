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
from tests.support.resumable_job import WalkJob


@pytest.fixture
def walk(tmp_path):
    walk = WalkJob(tmp_path)
    walk.start(max_epochs=1)
    return walk


def test_authored_spec_is_copied_verbatim(walk):
    assert (walk.run.path / "spec" / "walk.yaml").read_text() == walk.spec.read_text()


def test_the_recorded_spec_is_the_one_that_ran(walk):
    recorded = load_recorded_spec(walk.run)

    assert spec_digest(recorded) == spec_digest(walk.load()[0]) == walk.run.record.spec_digest
    assert compile_job(recorded).job == walk.load()[1]
    assert recorded.folder == str(walk.folder)


def test_plan_lists_tasks_by_node(walk):
    plan = json.loads((walk.run.path / "spec" / "plan.json").read_text())

    assert plan["state"] == {"a": ["k", "loss", "w"], "b": ["v"]}
    assert plan["constants"]["a"] == ["X"]
    assert [task["task"] for task in plan["groups"]["epoch"]] == ["step", "stir"]
    assert plan["exact"] is True


def test_a_resume_may_change_the_recorded_spec(walk, tmp_path):
    more = tmp_path / "more.yaml"
    more.write_text("stop: [{epochs: 9}]\n")

    changed = load_changed_spec(walk.run, values=(str(more),), overrides=("description=hello",))

    assert changed.spec.stop[0].epochs == 9
    assert changed.spec.description == "hello"


def test_a_resume_may_use_another_spec(walk):
    walk.edit(("epochs: 4", "epochs: 7"))

    assert load_changed_spec(walk.run, spec=str(walk.spec)).spec.stop[0].epochs == 7


def test_run_without_its_spec_suggests_how_to_continue(walk):
    (walk.run.path / "spec" / "resolved.yaml").unlink()

    with pytest.raises(CheckpointError, match="--spec FILE"):
        load_recorded_spec(walk.run)


def test_files_of_one_name_and_options_are_all_kept(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "resolved.yaml").write_text(f"description: {folder}\n")
    (tmp_path / "run" / "spec").mkdir(parents=True)
    walk = WalkJob(tmp_path)
    loaded = load_spec(
        str(walk.spec),
        values=[str(tmp_path / folder / "resolved.yaml") for folder in ("one", "two")],
        overrides=["seed=6"],
    )

    stage_spec(tmp_path / "run", loaded, compile_job(loaded).job)
    install_spec(tmp_path / "run")

    copies = {path.name: path.read_text() for path in (tmp_path / "run" / "spec").iterdir()}
    assert "description: one" in copies["2-resolved.yaml"]
    assert "description: two" in copies["3-resolved.yaml"]
    assert copies["options.txt"] == "--set #1: seed=6\n"
    assert "description: two" in copies["resolved.yaml"]


def test_no_value_of_the_environment_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("WALK_SECRET", "hunter2")
    walk = WalkJob(tmp_path, ("name: walk", 'name: walk\ndescription: "${env:WALK_SECRET}"'))

    walk.start(max_epochs=1)

    texts = [path.read_bytes() for path in walk.run.path.rglob("*") if path.is_file()]
    assert not any(b"hunter2" in text for text in texts)
    assert set(walk.run.record.variables) == {"WALK_SECRET"}
