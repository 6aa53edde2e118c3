from __future__ import annotations

import errno
import os
import signal
import tracemalloc
from pathlib import Path

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.files import disk as files
from jobrun.core.files.disk import (
    disk_faults,
    list_directory,
    read_regular,
    remove_unfinished_files,
    replace_file,
    sync_directory,
    write_all,
    write_file,
    write_new_file,
)


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "f"
    path.write_text("old, and longer")

    replace_file(str(path), lambda file: file.write(b"new"))

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

    replace_file(str(path), write)

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
        replace_file(str(path), write)

    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["f"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")

    replace_file(str(tmp_path / "link"), lambda file: file.write(b"new"))

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_data_are_synced_before_the_name(tmp_path, monkeypatch):
    synced = []

    def tell(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", tell)

    replace_file(str(tmp_path / "f"), lambda file: file.write(b"new"))

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
        disk_faults("E285", "write x", directory="/", needed_bytes=7),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")

    (fault,) = caught.value.faults
    assert fault.code == "E285"
    assert "needs 7 bytes" in fault.message
    # Of several machines the one whose disk is full.
    assert f"on machine {os.uname().nodename}" in fault.message
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
    files.sync_names(tmp_path / "a" / "b" / "c", own_names=3)
    assert synced[:3] == [tmp_path / "a" / "b", tmp_path / "a", tmp_path]


def test_names_given_by_other_tools_are_left_alone(tmp_path, monkeypatch):
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


def test_a_written_file_replaces_the_old_one_as_a_whole(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"old and longer")

    write_file(path, b"new")

    assert path.read_bytes() == b"new"
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")

    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_file(path, b"new")

    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_files_are_never_writable_by_others_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        write_file(tmp_path / "a", b"")
    finally:
        os.umask(before)

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_full_disk_is_an_environment_fault_that_says_what_to_do():
    with (
        pytest.raises(EnvironmentFaultError, match=r"cannot write run\.json.*No space") as raised,
        disk_faults("E354", "write run.json"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert raised.value.faults[0].code == "E354"
    assert "free space" in raised.value.faults[0].mend


def test_only_plain_files_are_read_and_no_pipe_is_waited_for(tmp_path):
    (tmp_path / "plain").write_bytes(b"text")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")

    assert read_regular(tmp_path / "plain") == b"text"
    for name in ("link", "folder", "pipe", "missing"):
        with pytest.raises(OSError):  # noqa: PT011 - of several kinds
            read_regular(tmp_path / name)


def test_a_short_file_takes_no_memory_for_the_longest_that_may_be(tmp_path):
    (tmp_path / "plain").write_text("text")
    tracemalloc.start()
    try:
        assert read_regular(tmp_path / "plain", 1 << 30) == b"text"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_new_file_takes_no_name_that_something_has(tmp_path):
    (tmp_path / "link").symlink_to("gone")

    write_new_file(tmp_path / "a", b"all of it")

    assert (tmp_path / "a").read_bytes() == b"all of it"
    for name in ("a", "link"):
        with pytest.raises(FileExistsError):
            write_new_file(tmp_path / name, b"")
    assert not (tmp_path / "gone").exists()


def test_a_name_of_the_greatest_length_can_be_replaced(tmp_path):
    for name in ("n" * 255, "ü" * 127):
        write_file(tmp_path / name, b"x")
        assert (tmp_path / name).read_bytes() == b"x"


def test_entries_are_listed_in_order_and_there_are_none_of_what_is_not_there(tmp_path):
    for name in "cab":
        (tmp_path / name).touch()

    assert [entry.name for entry in list_directory(tmp_path)] == ["a", "b", "c"]
    assert list_directory(tmp_path / "a") == list_directory(tmp_path / "gone") == []


def test_files_that_a_killed_process_did_not_finish_are_removed_and_no_others(tmp_path):
    (tmp_path / "below").mkdir()
    # As it would be killed, with the file half written.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            replace_file(tmp_path / "rank.npy", lambda _: signal.raise_signal(signal.SIGINT))
    (unfinished,) = tmp_path.glob(".rank.npy.*")
    (tmp_path / "below" / unfinished.name).touch()
    ours = {"rank.npy", ".notes", ".rank.npy.old", "rank.0123456789abcdef"}
    for name in ours:
        (tmp_path / name).touch()

    remove_unfinished_files(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {*ours, "below"}
    assert not any((tmp_path / "below").iterdir())
