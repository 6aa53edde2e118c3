"""No damaged byte of a checkpoint goes unseen, and libhdf5 sees none of it."""

from __future__ import annotations

import h5py
import pytest

from jobrun.checkpoint.stores.directory import DirectoryStore
from tests.durability.damage import EPOCH, change_bytes, change_lengths, checkpoint


@pytest.fixture(autouse=True)
def _without_libhdf5(monkeypatch):
    def refuse(*arguments, **named):
        raise AssertionError("libhdf5 was shown a file that nobody has verified")

    monkeypatch.setattr(h5py, "File", refuse)
    monkeypatch.setattr(h5py.h5f, "open", refuse)


@pytest.fixture
def epoch(tmp_path):
    return checkpoint(tmp_path)


def test_row_53_some_bytes(epoch):
    swept = change_bytes(epoch, stride=41)

    assert swept.missed == []
    assert swept.tried > 200


def test_row_52_some_lengths(epoch):
    assert change_lengths(epoch, stride=101).missed == []


def test_restored_epoch_is_whole_again(epoch):
    change_bytes(epoch, stride=997)
    change_lengths(epoch, stride=997)

    assert DirectoryStore(str(epoch.parent)).verify(EPOCH) is None


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("value", [0x01, 0x80, 0xFF])
def test_row_53_every_byte_of_every_file(epoch, value):
    swept = change_bytes(epoch, value=value)

    assert swept.missed == []
    assert swept.tried == sum(path.stat().st_size for path in epoch.iterdir())


@pytest.mark.long
@pytest.mark.timeout(600)
def test_row_52_every_length_of_every_file(epoch):
    assert change_lengths(epoch).missed == []
