"""Which nodes and blobs are saved, what a failing store means, and who else is asked and told."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from jobrun.checkpoint.metadata_handler import Chosen
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.cli.run_command import invoke
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.events import CheckpointFailed, GroupStarted, Noted
from jobrun.graph.effects import Log
from jobrun.graph.expressions import Text
from jobrun.graph.types import Task, TaskGroup
from tests.support.command import jobrun
from tests.support.metadata_handler import Remembering
from tests.support.resumable_job import WalkJob
from tests.support.stored_runs import blobs, epochs, only_run


def place_with(tmp_path: Path, checkpoint: str) -> WalkJob:
    return WalkJob(tmp_path, ("stop:", f"checkpoint: {checkpoint}\nstop:"))


def noted(job: WalkJob, level: str = "warning") -> list[str]:
    return [e.text for e in job.events if isinstance(e, Noted) and e.level == level]


def nodes_of(job: WalkJob, epoch: int) -> list[str]:
    return [file.node for file in job.store.manifest(epoch).files]


# Which.


def test_without_checkpoints_nothing_is_kept_and_a_resume_is_refused(tmp_path):
    job = place_with(tmp_path, "none")

    assert job.start().exit_code == 0

    assert job.store.epochs() == ()
    assert not (job.run.path / "committed.jsonl").exists()
    assert "checkpoint: none: this run cannot be resumed" in noted(job)
    assert (job.run.path / "artifacts" / "w.npy").is_file()
    with pytest.raises(CheckpointError, match="E361"):
        job.resume()


TINY = """\
jobrun: 1
name: tiny
seed: 3
init: [{{task: start, steps: ["w = zeros(8)"]}}]
epoch: [{{task: step, steps: ["w += rng.normal(size=8)"]}}]
stop: [{{epochs: 4000}}]
checkpoint: {{every: {every}, keep: {{last: 2}}}}
"""


@pytest.mark.long
def test_tiny_epochs_are_saved_as_time_allows_and_end_with_the_same_bits(tmp_path):
    states, saved = {}, {}
    for every in ("auto", "1000ep"):
        folder = tmp_path / every
        folder.mkdir()
        (folder / "tiny.yaml").write_text(TINY.format(every=every))
        ended = jobrun("run", "tiny.yaml", "--max-epochs", "2500", cwd=folder)
        assert ended.returncode == 75, ended.stderr
        again = jobrun("resume", cwd=folder)
        assert again.returncode == 0, again.stderr
        assert ("an epoch is saved about every" in ended.stderr) == (every == "auto")
        run = only_run(folder / "runs")
        saved[every] = (run / "committed.jsonl").read_text().count("\n")
        states[every] = blobs(epochs(run)[4000])

    # Far fewer than all, and the last one of each start.
    assert 5 < saved["auto"] < 4000
    assert states["auto"] == states["1000ep"]


def test_by_default_the_nodes_of_init_are_saved(tmp_path):
    walk_job = WalkJob(tmp_path)
    walk_job.start()

    assert nodes_of(walk_job, 4) == ["a", "b"]
    assert walk_job.store.verify(4) is None


def test_nodes_that_are_named_are_those_that_are_saved(tmp_path):
    job = place_with(tmp_path, "{nodes: [b, a]}")
    job.start()

    assert sorted(nodes_of(job, 4)) == ["a", "b"]


ONE_NODE = """\
jobrun: 1
name: walk
init: [{task: start, steps: [w = 1.0]}]
epoch: [{task: step, steps: [w = w * 2]}]
stop: [{epochs: 2}]
"""


def test_a_job_without_nodes_has_one_file(tmp_path):
    walk_job = WalkJob(tmp_path)
    walk_job.spec.write_text(ONE_NODE)
    walk_job.start()

    assert nodes_of(walk_job, 2) == ["local"]


# A store that fails.


def failing(monkeypatch, *epochs: int) -> None:
    stage = DirectoryStore.stage

    def refuse(self, epoch):
        if epoch in epochs:
            raise EnvironmentFaultError.of("E313", "no space", "free some")
        return stage(self, epoch)

    monkeypatch.setattr(DirectoryStore, "stage", refuse)


def test_failed_saves_are_counted_reported_and_skipped_with_warn(tmp_path, monkeypatch):
    job = place_with(tmp_path, "{on_error: warn}")
    failing(monkeypatch, 1, 3)

    assert job.start().exit_code == 0

    assert [e.epoch for e in job.events if isinstance(e, CheckpointFailed)] == [1, 3]
    assert noted(job)[-1] == "2 checkpoints could not be saved"
    assert job.store.epochs() == (0, 2, 4)


def test_the_count_continues_over_a_resume(tmp_path, monkeypatch):
    job = place_with(tmp_path, "{on_error: warn}")
    failing(monkeypatch, 1)
    assert job.start(max_epochs=2).exit_code == 75
    assert noted(job)[-1] == "1 checkpoint could not be saved"
    monkeypatch.undo()
    failing(monkeypatch, 3)

    assert job.resume().exit_code == 0

    assert noted(job)[-1] == "2 checkpoints could not be saved"


def test_a_failing_save_ends_the_run_without_warn(tmp_path, monkeypatch):
    walk_job = WalkJob(tmp_path)
    failing(monkeypatch, 2)

    with pytest.raises(EnvironmentFaultError) as caught:
        walk_job.start()

    assert caught.value.exit_code == 7
    assert walk_job.store.epochs() == (0, 1)


def test_the_command_reports_failed_saves_at_the_end(tmp_path, monkeypatch, capsys):
    job = place_with(tmp_path, "{on_error: warn}")
    write = os.pwrite

    def full(descriptor, data, offset):
        if bytes(data[:18]) == b"jobrun checkpoint\n":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    assert invoke(["run", str(job.spec), "--run-dir", str(job.run_dir)]) == 0

    output = capsys.readouterr().err
    assert "warning: epoch 4 could not be saved" in output
    assert "warning: 5 checkpoints could not be saved" in output


# How long it took.


def test_times_of_each_node_are_in_the_log_and_in_the_inspection(tmp_path, capsys):
    walk_job = WalkJob(tmp_path)
    walk_job.start(max_epochs=2)
    walk_job.resume()
    lines = (walk_job.run.path / "events.jsonl").read_text().splitlines()
    records = [entry for entry in map(json.loads, lines) if entry["event"] == "CheckpointTimes"]

    assert [(entry["action"], entry["epoch"]) for entry in records] == [
        ("save", 0),
        ("save", 1),
        ("save", 2),
        ("load", 2),
        ("save", 3),
        ("save", 4),
    ]
    for times in records:
        assert [node["node"] for node in times["nodes"]] == ["a", "b"]
        assert all(node["seconds"] > 0 and node["megabytes_per_s"] > 0 for node in times["nodes"])
        assert times["slowest"] in {"a", "b"}
        assert times["size_bytes"] == sum(node["size_bytes"] for node in times["nodes"])
    arguments = ["inspect-checkpoint", str(walk_job.run.path)]
    assert invoke([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["saved"]["epoch"] == 4
    assert invoke(arguments) == 0
    assert "iB/s), slowest node" in capsys.readouterr().out


def test_times_are_in_no_file_of_a_checkpoint(tmp_path):
    walk_job = WalkJob(tmp_path)
    walk_job.start()

    for path in Path(walk_job.store.path(4)).iterdir():
        assert b"megabytes" not in path.read_bytes()
        assert b"slowest" not in path.read_bytes()


# Handlers and builders from outside.


def test_another_handler_receives_each_epoch_and_all_times(tmp_path):
    walk_job, handler = WalkJob(tmp_path), Remembering()

    walk_job.start(metadata=handler)

    assert handler.epochs == [0, 1, 2, 3, 4]
    assert [(time_.action, time_.epoch) for time_ in handler.times] == [
        ("save", epoch) for epoch in range(5)
    ]


class Older(Remembering):
    def last_epoch(self, wanted):
        return Chosen(1, "epoch 2 diverged")


def test_another_handler_chooses_the_epoch_and_its_reason_is_reported(tmp_path):
    whole, walk_job = WalkJob(tmp_path / "whole"), WalkJob(tmp_path / "part")
    whole.start()
    walk_job.start(max_epochs=2)
    handler = Older()

    assert walk_job.resume(metadata=handler).exit_code == 0

    assert "continuing from epoch 1: Older says: epoch 2 diverged" in noted(walk_job, "info")
    assert handler.epochs == [1, 2, 3, 4]
    assert walk_job.state(4) == whole.state(4)


def test_without_another_handler_the_choice_is_reported_too(tmp_path):
    walk_job = WalkJob(tmp_path)
    walk_job.start(max_epochs=2)

    walk_job.resume(epoch=1, max_epochs=1)
    walk_job.resume()

    reported = [text for text in noted(walk_job, "info") if text.startswith("continuing")]
    assert reported == [
        "continuing from epoch 1: it was asked for",
        "continuing from epoch 2: the newest that is saved",
    ]


class Closed(Remembering):
    def accessible(self, epoch):
        return False


def test_a_handler_that_allows_no_save_is_a_failed_save(tmp_path):
    with pytest.raises(EnvironmentFaultError, match="E324"):
        WalkJob(tmp_path / "fail").start(metadata=Closed())
    job = place_with(tmp_path / "warn", "{on_error: warn}")

    assert job.start(metadata=Closed()).exit_code == 0

    assert noted(job)[-1] == (
        "5 checkpoints could not be saved; no epoch is saved, so there is nothing to resume from"
    )
    assert job.store.epochs() == ()


class Telling:
    """An upload that only says that it ran."""

    def __init__(self):
        self.built = []

    def build(self, epoch, store):
        assert store.verify(epoch) is None
        self.built.append(epoch)
        step = Log(Text((f"uploading {epoch}",)), path="mine/say")
        return TaskGroup("mine", (Task("say", "b", (step,), path="mine/say"),))


def test_a_builder_that_is_handed_over_makes_the_group_that_runs(tmp_path):
    walk_job, builder = WalkJob(tmp_path), Telling()

    walk_job.start(upload=builder)

    assert builder.built == [4]
    groups = [e.group for e in walk_job.events if isinstance(e, GroupStarted)]
    assert groups[-2:] == ["mine", "exit"]
    assert (walk_job.run.path / "logs" / "say.log").read_text() == "[4] uploading 4\n"


def test_a_builder_that_is_handed_over_runs_as_often_as_the_spec_says(tmp_path):
    job = place_with(tmp_path, "{upload: {to: unused, when: committed}}")
    builder = Telling()

    job.start(upload=builder)

    assert builder.built == [0, 1, 2, 3, 4]
    assert not (tmp_path / "unused").exists()


def test_a_failure_of_a_builder_that_is_handed_over_fails_the_run(tmp_path):
    class Failing:
        def build(self, epoch, store):
            raise RuntimeError("no network")

    walk_job = WalkJob(tmp_path)
    with pytest.raises(EnvironmentFaultError, match="no network"):
        walk_job.start(upload=Failing())
    assert walk_job.resume().exit_code == 0


FROZEN = """\
jobrun: 1
name: frozen
init:
  - {task: data, steps: ["frozen = rng.normal(size=200000)", "w = zeros(3)"]}
epoch:
  - {task: learn, steps: ["w += mean(frozen)"]}
stop: [{epochs: 5}]
checkpoint: {keep: {last: 2}}
"""


def test_an_unchanged_blob_is_not_written_again_and_is_in_every_file(tmp_path, capsys):
    spec, runs = tmp_path / "frozen.yaml", str(tmp_path / "runs")
    spec.write_text(FROZEN)
    assert invoke(["run", str(spec), "--run-dir", runs]) == 0
    capsys.readouterr()

    inspected = {}
    for epoch in (4, 5):
        name = f"frozen@{epoch}"
        assert invoke(["inspect-checkpoint", name, "--run-dir", runs, "--json"]) == 0
        inspected[epoch] = json.loads(capsys.readouterr().out)["saved"]
        (path,) = (tmp_path / "runs").rglob(f"epoch-00000{epoch}/local.h5")
        with h5py.File(path, locking=False) as file:
            assert file["blobs/frozen"].shape == (200_000,)
            assert np.ptp(file["blobs/frozen"][()]) > 1
    assert invoke(["inspect-checkpoint", "frozen@5", "--run-dir", runs]) == 0

    # The first blocks of a file change with every epoch, and few are written anew to be sure.
    assert all(value["written_bytes"] < value["size_bytes"] / 2 for value in inspected.values())
    assert all(value["size_bytes"] > 1_600_000 for value in inspected.values())
    assert "had not changed" in capsys.readouterr().out


@pytest.mark.parametrize("limit", [(), ("--max-epochs", "2")])
def test_end_of_a_run_that_saved_nothing_points_at_nothing_that_is_not_there(tmp_path, limit):
    (tmp_path / "job.yaml").write_text("""\
jobrun: 1
name: nosave
init: [{task: s, steps: [w = 0.0, {run: "rm -r ck; touch ck"}]}]
epoch: [{task: t, steps: [w = w + 1]}]
stop: [{epochs: 3}]
checkpoint: {on_error: warn, dir: ck}
""")

    ended = jobrun("run", "job.yaml", *limit, cwd=tmp_path)

    assert ended.returncode == (75 if limit else 0)
    assert "no epoch is saved, so there is nothing to resume from" in ended.stderr
    assert "inspect-checkpoint" not in ended.stderr
    if limit:
        assert "nothing is saved" in ended.stderr
