"""An epoch that is held is not deleted, and one that is being deleted is not held."""

from __future__ import annotations

import fcntl
import os
from itertools import count
from pathlib import Path

import pytest

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.read_locks import exclude_readers, hold_chosen, hold_epoch
from jobrun.core.errors import CheckpointError, LockedError
from jobrun.testing.stores import write_epoch


@pytest.fixture
def store(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    for epoch in range(4):
        write_epoch(store, epoch)
    return store


def test_a_held_epoch_stays_and_is_named(store):
    hold = store.hold(1)

    assert store.remove((0, 1)) == (1,)
    assert store.epochs() == (1, 2, 3)
    hold.release()
    assert store.remove((1,)) == ()
    assert store.epochs() == (2, 3)


def test_several_may_hold_one_epoch(store):
    first, second = store.hold(1), store.hold(1)

    first.release()

    assert store.remove((1,)) == (1,)
    second.release()
    second.release()
    assert store.remove((1,)) == ()


def test_a_hold_ends_with_its_object(store):
    hold = store.hold(1)
    assert hold is not None
    del hold

    assert store.remove((1,)) == ()


def test_missing_or_vanishing_epoch_cannot_be_held(store):
    assert store.hold(7) is None
    with exclude_readers(store.path(1)) as is_free:
        assert is_free
        assert store.hold(1) is None


def test_an_epoch_that_was_renamed_before_the_lock_is_not_held(store, monkeypatch):
    directory = store.path(1)
    opened = os.open

    def open_then_remove(path, flags, *mode, **options):
        descriptor = opened(path, flags, *mode, **options)
        monkeypatch.undo()
        store.remove((1,), keep_for_reuse=True)
        return descriptor

    monkeypatch.setattr(os, "open", open_then_remove)

    assert hold_epoch(directory) is None


def test_a_damaged_epoch_without_a_manifest_can_be_looked_at_and_removed(store):
    os.unlink(os.path.join(store.path(1), "manifest.json"))  # noqa: PTH108, PTH118

    assert store.hold(1) is not None
    assert store.remove((1,)) == ()


def test_choice_of_vanishing_epochs_ends_with_an_error():
    with pytest.raises(CheckpointError, match="E389"):
        hold_chosen(count(1).__next__, lambda epoch: None, "runs/walk/x")


def test_manifest_locked_by_another_program_is_not_reported_as_deleted(store):
    with (Path(store.path(1)) / "manifest.json").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        with pytest.raises(LockedError, match="locked the manifest of epoch 1"):
            hold_chosen(lambda: 1, store.hold, "runs/walk/x")
