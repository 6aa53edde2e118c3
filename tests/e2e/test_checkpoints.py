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


def noted(place: WalkJob, level: str = "warning") -> list[str]:
    return [e.text for e in place.events if isinstance(e, Noted) and e.level == level]


def nodes_of(place: WalkJob, epoch: int) -> list[str]:
    return [file.node for file in place.store.manifest(epoch).files]


# Which.


def test_without_checkpoints_nothing_is_kept_and_a_resume_is_refused(tmp_path):
    place = place_with(tmp_path, "none")

    assert place.start().exit_code == 0

    assert place.store.epochs() == ()
    assert not (place.run.path / "committed.jsonl").exists()
    assert "checkpoint: none: this run cannot be resumed" in noted(place)
    assert (place.run.path / "artifacts" / "w.npy").is_file()
    with pytest.raises(CheckpointError, match="E361"):
        place.resume()


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
    kept, saved = {}, {}
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
        kept[every] = blobs(epochs(run)[4000])

    # Far fewer than all, and the last one of each start.
    assert 5 < saved["auto"] < 4000
    assert kept["auto"] == kept["1000ep"]


def test_by_default_the_nodes_of_init_are_saved(tmp_path):
    place = WalkJob(tmp_path)
    place.start()

    assert nodes_of(place, 4) == ["a", "b"]
    assert place.store.verify(4) is None


def test_nodes_that_are_named_are_those_that_are_saved(tmp_path):
    place = place_with(tmp_path, "{nodes: [b, a]}")
    place.start()

    assert sorted(nodes_of(place, 4)) == ["a", "b"]


ONE_NODE = """\
jobrun: 1
name: walk
init: [{task: start, steps: [w = 1.0]}]
epoch: [{task: step, steps: [w = w * 2]}]
stop: [{epochs: 2}]
"""


def test_a_job_without_nodes_has_one_file(tmp_path):
    place = WalkJob(tmp_path)
    place.spec.write_text(ONE_NODE)
    place.start()

    assert nodes_of(place, 2) == ["local"]


# A store that fails.


def failing(monkeypatch, *epochs: int) -> None:
    stage = DirectoryStore.stage

    def refuse(self, epoch):
        if epoch in epochs:
            raise EnvironmentFaultError.of("E313", "no space", "free some")
        return stage(self, epoch)

    monkeypatch.setattr(DirectoryStore, "stage", refuse)


def test_saves_that_fail_are_counted_told_and_passed_over_with_warn(tmp_path, monkeypatch):
    place = place_with(tmp_path, "{on_error: warn}")
    failing(monkeypatch, 1, 3)

    assert place.start().exit_code == 0

    assert [e.epoch for e in place.events if isinstance(e, CheckpointFailed)] == [1, 3]
    assert noted(place)[-1] == "2 checkpoints could not be saved"
    assert place.store.epochs() == (0, 2, 4)


def test_the_count_goes_on_over_a_resume(tmp_path, monkeypatch):
    place = place_with(tmp_path, "{on_error: warn}")
    failing(monkeypatch, 1)
    assert place.start(max_epochs=2).exit_code == 75
    assert noted(place)[-1] == "1 checkpoint could not be saved"
    monkeypatch.undo()
    failing(monkeypatch, 3)

    assert place.resume().exit_code == 0

    assert noted(place)[-1] == "2 checkpoints could not be saved"


def test_a_failing_save_ends_the_run_without_warn(tmp_path, monkeypatch):
    place = WalkJob(tmp_path)
    failing(monkeypatch, 2)

    with pytest.raises(EnvironmentFaultError) as caught:
        place.start()

    assert caught.value.exit_code == 7
    assert place.store.epochs() == (0, 1)


def test_the_command_tells_the_failures_at_the_end(tmp_path, monkeypatch, capsys):
    place = place_with(tmp_path, "{on_error: warn}")
    write = os.pwrite

    def full(descriptor, data, offset):
        if bytes(data[:18]) == b"jobrun checkpoint\n":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    assert invoke(["run", str(place.spec), "--run-dir", str(place.run_dir)]) == 0

    said = capsys.readouterr().err
    assert "warning: epoch 4 could not be saved" in said
    assert "warning: 5 checkpoints could not be saved" in said


# How long it took.


def test_times_of_each_node_are_in_the_log_and_in_the_inspection(tmp_path, capsys):
    place = WalkJob(tmp_path)
    place.start(max_epochs=2)
    place.resume()
    lines = (place.run.path / "events.jsonl").read_text().splitlines()
    found = [one for one in map(json.loads, lines) if one["event"] == "CheckpointTimes"]

    assert [(one["action"], one["epoch"]) for one in found] == [
        ("save", 0),
        ("save", 1),
        ("save", 2),
        ("load", 2),
        ("save", 3),
        ("save", 4),
    ]
    for one in found:
        assert [node["node"] for node in one["nodes"]] == ["a", "b"]
        assert all(node["seconds"] > 0 and node["megabytes_per_s"] > 0 for node in one["nodes"])
        assert one["slowest"] in {"a", "b"}
        assert one["size_bytes"] == sum(node["size_bytes"] for node in one["nodes"])
    arguments = ["inspect-checkpoint", str(place.run.path)]
    assert invoke([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["saved"]["epoch"] == 4
    assert invoke(arguments) == 0
    assert "iB/s), slowest node" in capsys.readouterr().out


def test_times_are_in_no_file_of_a_checkpoint(tmp_path):
    place = WalkJob(tmp_path)
    place.start()

    for path in Path(place.store.path(4)).iterdir():
        assert b"megabytes" not in path.read_bytes()
        assert b"slowest" not in path.read_bytes()


# Handlers and builders from outside.


def test_another_handler_is_told_of_each_epoch_and_of_all_times(tmp_path):
    place, handler = WalkJob(tmp_path), Remembering()

    place.start(metadata=handler)

    assert handler.epochs == [0, 1, 2, 3, 4]
    assert [(one.action, one.epoch) for one in handler.times] == [
        ("save", epoch) for epoch in range(5)
    ]


class Older(Remembering):
    def last_epoch(self, wanted):
        return Chosen(1, "epoch 2 diverged")


def test_another_handler_chooses_the_epoch_and_it_is_told_why(tmp_path):
    whole, place = WalkJob(tmp_path / "whole"), WalkJob(tmp_path / "part")
    whole.start()
    place.start(max_epochs=2)
    handler = Older()

    assert place.resume(metadata=handler).exit_code == 0

    assert "continuing from epoch 1: Older says: epoch 2 diverged" in noted(place, "info")
    assert handler.epochs == [1, 2, 3, 4]
    assert place.state(4) == whole.state(4)


def test_without_another_the_choice_is_told_too(tmp_path):
    place = WalkJob(tmp_path)
    place.start(max_epochs=2)

    place.resume(epoch=1, max_epochs=1)
    place.resume()

    told = [text for text in noted(place, "info") if text.startswith("continuing")]
    assert told == [
        "continuing from epoch 1: it was asked for",
        "continuing from epoch 2: the newest that is saved",
    ]


class Closed(Remembering):
    def accessible(self, epoch):
        return False


def test_a_handler_that_allows_no_save_is_a_failed_save(tmp_path):
    with pytest.raises(EnvironmentFaultError, match="E324"):
        WalkJob(tmp_path / "fail").start(metadata=Closed())
    place = place_with(tmp_path / "warn", "{on_error: warn}")

    assert place.start(metadata=Closed()).exit_code == 0

    assert noted(place)[-1] == (
        "5 checkpoints could not be saved; no epoch is saved, so there is nothing to resume from"
    )
    assert place.store.epochs() == ()


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
    place, builder = WalkJob(tmp_path), Telling()

    place.start(upload=builder)

    assert builder.built == [4]
    groups = [e.group for e in place.events if isinstance(e, GroupStarted)]
    assert groups[-2:] == ["mine", "exit"]
    assert (place.run.path / "logs" / "say.log").read_text() == "[4] uploading 4\n"


def test_a_builder_that_is_handed_over_runs_as_often_as_the_spec_says(tmp_path):
    place = place_with(tmp_path, "{upload: {to: unused, when: committed}}")
    builder = Telling()

    place.start(upload=builder)

    assert builder.built == [0, 1, 2, 3, 4]
    assert not (tmp_path / "unused").exists()


def test_a_failure_of_a_builder_that_is_handed_over_fails_the_run(tmp_path):
    class Failing:
        def build(self, epoch, store):
            raise RuntimeError("no network")

    place = WalkJob(tmp_path)
    with pytest.raises(EnvironmentFaultError, match="no network"):
        place.start(upload=Failing())
    assert place.resume().exit_code == 0


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


def test_a_blob_that_nobody_changes_costs_no_writing_and_is_in_every_file(tmp_path, capsys):
    spec, runs = tmp_path / "frozen.yaml", str(tmp_path / "runs")
    spec.write_text(FROZEN)
    assert invoke(["run", str(spec), "--run-dir", runs]) == 0
    capsys.readouterr()

    said = {}
    for epoch in (4, 5):
        name = f"frozen@{epoch}"
        assert invoke(["inspect-checkpoint", name, "--run-dir", runs, "--json"]) == 0
        said[epoch] = json.loads(capsys.readouterr().out)["saved"]
        (path,) = (tmp_path / "runs").rglob(f"epoch-00000{epoch}/local.h5")
        with h5py.File(path, locking=False) as file:
            assert file["blobs/frozen"].shape == (200_000,)
            assert np.ptp(file["blobs/frozen"][()]) > 1
    assert invoke(["inspect-checkpoint", "frozen@5", "--run-dir", runs]) == 0

    # The first blocks of a file change with every epoch, and few are written anew to be sure.
    assert all(one["written_bytes"] < one["size_bytes"] / 2 for one in said.values())
    assert all(one["size_bytes"] > 1_600_000 for one in said.values())
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
