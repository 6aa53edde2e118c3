"""A new run from the state of another one."""

from __future__ import annotations

import json

import pytest

from jobrun.core.errors import CheckpointError, UsageError
from jobrun.core.events import Noted
from jobrun.runner.fork import Fork, fork_run
from jobrun.runner.options import RunOptions
from jobrun.runner.rundir.run_directories import open_run, runs
from jobrun.runner.start_or_resume import resume_run
from tests.support.resumable_job import WalkJob


@pytest.fixture
def walk(tmp_path):
    walk = WalkJob(tmp_path / "a")
    assert walk.start().exit_code == 0
    return walk


def forked(walk, *, epoch=None, blobs=(), edits=(), **options):
    parent = walk.run
    walk.edit(*edits)
    result = fork_run(
        Fork(parent, epoch, tuple(blobs)),
        walk.load()[0],
        walk.options(**options),
        walk.events.append,
    )
    return parent, result


def test_a_fork_ends_with_the_bits_of_its_parent_when_nothing_is_changed(walk):
    whole = {epoch: walk.state(epoch) for epoch in walk.store.epochs()}
    before = walk.artifacts()

    forked(walk, epoch=2)

    assert walk.store.epochs() == (2, 3, 4)
    assert {epoch: walk.state(epoch) for epoch in (2, 3, 4)} == {
        epoch: whole[epoch] for epoch in (2, 3, 4)
    }
    assert walk.artifacts() == before


def test_lineage_is_recorded_and_noted(walk):
    parent, _ = forked(walk, epoch=2)

    record = walk.run.record.parent
    assert (record["run"], record["run_id"], record["epoch"]) == (
        parent.name,
        parent.record.run_id,
        2,
    )
    assert not record["checkpoints"].startswith("/")
    assert Noted(f"forked from {parent.name}, epoch 2") in walk.events
    assert open_run(parent.path).record == parent.record


def test_fork_can_continue_with_another_spec(walk):
    forked(walk, epoch=4, edits=[("epochs: 4", "epochs: 6"), ("X * 0", "X * 1")])

    assert walk.store.epochs() == (4, 5, 6)


def test_fork_that_would_stop_immediately_is_refused_and_leaves_no_run(walk):
    parent = walk.run

    with pytest.raises(UsageError, match=r"no epoch: after epoch 4.*--epochs"):
        forked(walk)

    assert walk.run.path == parent.path
    assert [run.name for run in runs(walk.options().run_dir)] == [parent.name]


def test_some_blobs_are_put_over_those_of_init(walk):
    taken = walk.state(3)["a.w"]

    forked(walk, epoch=3, blobs=["w"])

    assert walk.store.epochs() == (0, 1, 2, 3, 4)
    first = walk.state(0)
    assert first["a.w"] == taken
    assert first["a.k"][1] == "0"


def test_a_pattern_that_means_nothing_is_refused_before_a_run_is_made(walk):
    with pytest.raises(UsageError, match="no blob of that name") as raised:
        forked(walk, blobs=["ww"])

    assert raised.value.faults[0].code == "E382"
    assert len(walk.runs) == 1


def test_state_missing_in_the_parent_is_named_with_a_mend(walk):
    with pytest.raises(UsageError, match=r"has no a\.more") as raised:
        forked(walk, edits=[('"loss = inf"', '"loss = inf", "more = 1"')])

    assert "--blobs" in raised.value.faults[0].mend
    assert len(walk.runs) == 1


def test_an_epoch_that_is_not_there_is_refused(walk):
    with pytest.raises(CheckpointError, match="epoch 9 is not there"):
        forked(walk, epoch=9)


@pytest.mark.parametrize("blobs", [(), ("w",)])
def test_fork_killed_before_its_first_save_restarts(walk, blobs):
    expected = walk.state(4)["a.w"] if not blobs else None
    forked(walk, epoch=2, blobs=blobs)
    once = {epoch: walk.state(epoch) for epoch in walk.store.epochs()}
    # As if the kill had come right after run.json was written.
    run = walk.run
    run.write(status="running", epoch=-1, exit_code=None)
    (run.path / "committed.jsonl").unlink()
    for path in (run.path / "checkpoints").iterdir():
        path.rename(run.path / "superseded" / path.name)

    assert resume_run(open_run(run.path), walk.options()).exit_code == 0

    assert {epoch: walk.state(epoch) for epoch in walk.store.epochs()} == once
    assert expected is None or walk.state(4)["a.w"] == expected


def test_missing_parent_is_an_error(walk):
    parent, _ = forked(walk, epoch=2)
    run = walk.run
    run.write(status="running", epoch=-1, exit_code=None)
    (run.path / "committed.jsonl").unlink()
    (run.path / "checkpoints").rename(run.path / "superseded" / "all")
    (parent.path / "checkpoints").rename(parent.path / "elsewhere")

    with pytest.raises(CheckpointError, match="does not exist any more"):
        resume_run(open_run(run.path), walk.options())


def test_run_without_checkpoints_cannot_be_a_fork(walk):
    with pytest.raises(CheckpointError, match="has to keep checkpoints"):
        forked(walk, edits=[("stop:", "checkpoint: none\nstop:")])


def test_parent_without_saves_is_an_error(walk):
    run = walk.run.write(epoch=-1)
    (run.path / "committed.jsonl").unlink()
    (run.path / "checkpoints").rename(run.path / "elsewhere")

    with pytest.raises(CheckpointError, match="saved no epoch yet"):
        forked(walk)


def test_fork_without_a_spec_runs_the_parents_job(walk):
    result = fork_run(Fork(walk.run, 2), None, RunOptions(run_dir=walk.run_dir))

    record = json.loads((walk.run.path / "run.json").read_text())
    assert result.exit_code == 0
    assert record["parent"]["epoch"] == 2
