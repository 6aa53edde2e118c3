"""Checkpoints within an epoch stand beside the whole ones, and no list of epochs has them."""

from __future__ import annotations

import pytest

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.mid_epoch_store import (
    MidEpochStore,
    list_mid_epochs,
    mid_epoch_name,
    parse_mid_epoch_name,
)
from jobrun.testing.stores import write_epoch


@pytest.fixture
def root(tmp_path):
    return str(tmp_path / "checkpoints")


def test_name_has_the_epoch_and_the_number_of_records():
    assert mid_epoch_name(3, 50) == "epoch-000003.records-000050"
    assert parse_mid_epoch_name("epoch-000003.records-000050") == (3, 50)


def test_other_names_are_not_parsed():
    assert parse_mid_epoch_name("epoch-000003") is None
    assert parse_mid_epoch_name("epoch-000003.records-5") is None


def test_mid_epoch_checkpoints_are_listed_in_order(root):
    for epoch, records in ((2, 10), (1, 30), (1, 5)):
        write_epoch(MidEpochStore(root, records), epoch)

    assert list_mid_epochs(root) == ((1, 5), (1, 30), (2, 10))


def test_no_list_of_epochs_has_them(root):
    write_epoch(MidEpochStore(root, 5), 1)
    write_epoch(DirectoryStore(root), 0)

    assert DirectoryStore(root).epochs() == (0,)
    assert MidEpochStore(root, 5).epochs() == (1,)


def test_one_of_an_epoch_may_be_removed_and_the_others_stay(root):
    write_epoch(MidEpochStore(root, 5), 1)
    write_epoch(MidEpochStore(root, 10), 1)

    MidEpochStore(root, 5).remove((1,))

    assert list_mid_epochs(root) == ((1, 10),)


def test_intact_epoch_has_no_damage(root):
    write_epoch(MidEpochStore(root, 5), 1)

    assert MidEpochStore(root, 5).verify(1) is None


def test_missing_directory_lists_no_mid_epochs(root):
    assert list_mid_epochs(root) == ()
