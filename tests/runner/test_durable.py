"""Small durable files."""

from __future__ import annotations

import errno
import os

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runner.durable import disk_faults, read_plain, write_whole


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"old and longer")

    write_whole(path, b"new")

    assert path.read_bytes() == b"new"
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_replacement_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")

    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_whole(path, b"new")

    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_files_are_never_writable_by_others_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        write_whole(tmp_path / "a", b"")
    finally:
        os.umask(before)

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_full_disk_is_an_environment_fault_that_says_what_to_do():
    with (
        pytest.raises(EnvironmentFaultError, match=r"cannot write run\.json.*No space") as raised,
        disk_faults("write run.json"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert raised.value.faults[0].code == "E354"
    assert "free space" in raised.value.faults[0].mend


def test_only_plain_files_are_read_and_no_pipe_is_waited_for(tmp_path):
    (tmp_path / "plain").write_bytes(b"text")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")

    assert read_plain(tmp_path / "plain") == b"text"
    for name in ("link", "folder", "pipe", "missing"):
        with pytest.raises(OSError):  # noqa: PT011 - of several kinds
            read_plain(tmp_path / name)
