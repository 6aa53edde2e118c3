from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.formats import files
from jobrun.formats.files import disk_faults, replace_whole, sync_directory, write_all


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "f"
    path.write_text("old, and longer")

    replace_whole(str(path), lambda file: file.write(b"new"))

    assert path.read_text() == "new"
    assert [item.name for item in tmp_path.iterdir()] == ["f"]


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    seen = []

    def write(file):
        file.write(b"half")
        file.flush()
        seen.append(path.read_text())

    replace_whole(str(path), write)

    assert seen == ["old"]


@pytest.mark.parametrize("call", ["open", "fsync", "close"])
def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch, call):
    path = tmp_path / "f"
    path.write_text("old")

    def refuse(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    def write(file):
        if call == "close":
            refuse()
        file.write(b"new")

    if call != "close":
        monkeypatch.setattr(os, call, refuse)

    with pytest.raises(OSError, match="Input/output"):
        replace_whole(str(path), write)

    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["f"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")

    replace_whole(str(tmp_path / "link"), lambda file: file.write(b"new"))

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_data_are_synced_before_the_name(tmp_path, monkeypatch):
    synced = []

    def tell(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", tell)

    replace_whole(str(tmp_path / "f"), lambda file: file.write(b"new"))

    assert [synced[0].parent, synced[1]] == [tmp_path] * 2


def test_every_byte_is_written_however_short_the_writes(tmp_path, monkeypatch):
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, data[:3]))
    descriptor = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)

    write_all(descriptor, bytes(range(100)))

    os.close(descriptor)
    assert (tmp_path / "f").read_bytes() == bytes(range(100))


def test_a_fault_says_what_was_being_done_and_how_to_mend():
    with (
        pytest.raises(EnvironmentFaultError, match="cannot write x: No space left") as caught,
        disk_faults("E285", "write x", place="/", needed_bytes=7),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")

    (fault,) = caught.value.faults
    assert fault.code == "E285"
    assert "needs 7 bytes" in fault.message
    assert "free space" in fault.mend


def test_other_errors_fall_through():
    with pytest.raises(ValueError, match="mine"), disk_faults("E285", "write x"):
        raise ValueError("mine")


def test_what_is_no_directory_cannot_be_synced(tmp_path):
    (tmp_path / "f").write_text("")

    with pytest.raises(NotADirectoryError):
        sync_directory(tmp_path / "f")


def test_each_directory_that_is_made_is_synced_into_the_one_that_it_is_in(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "sync_directory", synced.append)

    files.make_directory(tmp_path / "a" / "b" / "c")

    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert synced[:3] == [tmp_path / "a" / "b", tmp_path / "a", tmp_path]


def test_the_name_of_a_directory_that_is_there_already_is_synced_too(tmp_path, monkeypatch):
    """Whoever made it may have been killed before that."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    synced = []
    monkeypatch.setattr(files, "sync_directory", synced.append)

    files.make_directory(tmp_path / "a" / "b")

    assert synced[:2] == [tmp_path / "a", tmp_path]


def test_names_beside_which_there_is_something_were_there_before(tmp_path, monkeypatch):
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "other").mkdir()
    synced = []
    monkeypatch.setattr(files, "sync_directory", synced.append)

    files.sync_names(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path / "a" / "b"]

    synced.clear()
    files.sync_names(tmp_path / "a" / "b" / "c", own=3)
    assert synced[:3] == [tmp_path / "a" / "b", tmp_path / "a", tmp_path]


def test_names_that_somebody_else_has_given_are_left_to_them(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    monkeypatch.setattr(files.os, "geteuid", lambda: os.getuid() + 1)

    files.sync_names(tmp_path)

    assert synced == []


def test_a_directory_that_may_not_be_read_is_no_obstacle(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(files, "sync_directory", refuse)

    files.sync_names(tmp_path)


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_somebody_holds_is_locked_and_who_looks_holds_nothing(tmp_path, make):
    path = tmp_path / "x"
    make(path)
    looking, held = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert not files.is_locked(path)
    os.close(looking)

    fcntl.flock(held, fcntl.LOCK_EX)
    assert files.is_locked(path)
    os.close(held)
    assert not files.is_locked(path)
    assert not files.is_locked(tmp_path / "gone")
