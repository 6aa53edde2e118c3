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
from tests.support.resumable_job import Place


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "a")
    assert place.start().exit_code == 0
    return place


def forked(place, *, epoch=None, blobs=(), edits=(), **options):
    parent = place.run
    place.edit(*edits)
    result = fork_run(
        Fork(parent, epoch, tuple(blobs)),
        place.load()[0],
        place.options(**options),
        place.events.append,
    )
    return parent, result


def test_a_fork_ends_with_the_bits_of_its_parent_when_nothing_is_changed(place):
    whole = {epoch: place.state(epoch) for epoch in place.store.epochs()}
    before = place.artifacts()

    forked(place, epoch=2)

    assert place.store.epochs() == (2, 3, 4)
    assert {epoch: place.state(epoch) for epoch in (2, 3, 4)} == {
        epoch: whole[epoch] for epoch in (2, 3, 4)
    }
    assert place.artifacts() == before


def test_lineage_is_recorded_and_told(place):
    parent, _ = forked(place, epoch=2)

    record = place.run.record.parent
    assert (record["run"], record["run_id"], record["epoch"]) == (
        parent.name,
        parent.record.run_id,
        2,
    )
    assert not record["checkpoints"].startswith("/")
    assert Noted(f"forked from {parent.name}, epoch 2") in place.events
    assert open_run(parent.path).record == parent.record


def test_another_spec_may_go_on_from_there(place):
    forked(place, epoch=4, edits=[("epochs: 4", "epochs: 6"), ("X * 0", "X * 1")])

    assert place.store.epochs() == (4, 5, 6)


def test_a_fork_that_would_stop_at_once_is_refused_and_leaves_no_run(place):
    parent = place.run

    with pytest.raises(UsageError, match=r"no epoch: after epoch 4.*--epochs"):
        forked(place)

    assert place.run.path == parent.path
    assert [one.name for one in runs(place.options().run_dir)] == [parent.name]


def test_some_blobs_are_put_over_those_of_init(place):
    taken = place.state(3)["a.w"]

    forked(place, epoch=3, blobs=["w"])

    assert place.store.epochs() == (0, 1, 2, 3, 4)
    first = place.state(0)
    assert first["a.w"] == taken
    assert first["a.k"][1] == "0"


def test_a_pattern_that_means_nothing_is_refused_before_a_run_is_made(place):
    with pytest.raises(UsageError, match="no blob of that name") as raised:
        forked(place, blobs=["ww"])

    assert raised.value.faults[0].code == "E382"
    assert len(place.runs) == 1


def test_state_that_the_parent_lacks_is_named_with_the_way_out(place):
    with pytest.raises(UsageError, match=r"has no a\.more") as raised:
        forked(place, edits=[('"loss = inf"', '"loss = inf", "more = 1"')])

    assert "--blobs" in raised.value.faults[0].mend
    assert len(place.runs) == 1


def test_an_epoch_that_is_not_there_is_refused(place):
    with pytest.raises(CheckpointError, match="epoch 9 is not there"):
        forked(place, epoch=9)


@pytest.mark.parametrize("blobs", [(), ("w",)])
def test_a_fork_killed_before_its_first_save_does_it_again(place, blobs):
    expected = place.state(4)["a.w"] if not blobs else None
    forked(place, epoch=2, blobs=blobs)
    once = {epoch: place.state(epoch) for epoch in place.store.epochs()}
    # As if the kill had come right after run.json was written.
    run = place.run
    run.write(status="running", epoch=-1, exit_code=None)
    (run.path / "committed.jsonl").unlink()
    for path in (run.path / "checkpoints").iterdir():
        path.rename(run.path / "superseded" / path.name)

    assert resume_run(open_run(run.path), place.options()).exit_code == 0

    assert {epoch: place.state(epoch) for epoch in place.store.epochs()} == once
    assert expected is None or place.state(4)["a.w"] == expected


def test_a_parent_that_is_gone_is_told(place):
    parent, _ = forked(place, epoch=2)
    run = place.run
    run.write(status="running", epoch=-1, exit_code=None)
    (run.path / "committed.jsonl").unlink()
    (run.path / "checkpoints").rename(run.path / "superseded" / "all")
    (parent.path / "checkpoints").rename(parent.path / "elsewhere")

    with pytest.raises(CheckpointError, match="does not exist any more"):
        resume_run(open_run(run.path), place.options())


def test_a_run_without_checkpoints_cannot_begin_so(place):
    with pytest.raises(CheckpointError, match="has to keep checkpoints"):
        forked(place, edits=[("stop:", "checkpoint: none\nstop:")])


def test_a_parent_that_has_saved_nothing_is_told(place):
    run = place.run.write(epoch=-1)
    (run.path / "committed.jsonl").unlink()
    (run.path / "checkpoints").rename(run.path / "elsewhere")

    with pytest.raises(CheckpointError, match="saved no epoch yet"):
        forked(place)


def test_what_the_parent_ran_is_run_without_a_spec(place):
    result = fork_run(Fork(place.run, 2), None, RunOptions(run_dir=place.run_dir))

    record = json.loads((place.run.path / "run.json").read_text())
    assert result.exit_code == 0
    assert record["parent"]["epoch"] == 2
