from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from jobrun.core.files.file_lock import is_locked, try_lock, unlock, wait_for_lock


@pytest.fixture
def opened(tmp_path):
    """Two open file descriptions of one file."""
    path = tmp_path / "x"
    path.touch()
    descriptors = [os.open(path, os.O_RDWR) for _ in range(2)]
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_a_held_file_is_locked_and_looking_at_it_holds_nothing(tmp_path, make):
    path = tmp_path / "x"
    make(path)
    looking, held = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert not is_locked(path)
    os.close(looking)

    fcntl.flock(held, fcntl.LOCK_EX)
    assert is_locked(path)
    os.close(held)
    assert not is_locked(path)
    assert not is_locked(tmp_path / "gone")


def test_an_exclusive_lock_has_one_holder_and_a_shared_one_many(opened):
    first, second = opened

    assert try_lock(first)
    assert not try_lock(second)
    assert not try_lock(second, shared=True)
    unlock(first)
    assert try_lock(second, shared=True)
    assert try_lock(first, shared=True)
    assert not try_lock(first)


def test_a_free_lock_is_not_waited_for(opened):
    wait_for_lock(opened[0])

    assert not try_lock(opened[1])


def test_a_file_system_without_locks_holds_nothing(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)

    assert not is_locked(tmp_path)
    with pytest.raises(OSError, match="No locks"):
        try_lock(0)
    unlock(0)
