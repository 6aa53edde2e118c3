from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from jobrun.checkpoint.plainfile import digest_plain, read_plain
from jobrun.core.errors import CheckpointError

READERS = pytest.mark.parametrize("read", [read_plain, digest_plain])


def code_of(read, path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read(str(path))
    (fault,) = caught.value.faults
    assert str(path) in fault.message
    assert fault.mend
    return fault.code


def test_a_plain_file_is_read_whole(tmp_path):
    data = os.urandom(9_000_000)
    (tmp_path / "f").write_bytes(data)

    assert read_plain(str(tmp_path / "f")) == data
    assert digest_plain(str(tmp_path / "f")) == (
        len(data),
        "sha256:" + hashlib.sha256(data).hexdigest(),
    )


@READERS
def test_a_missing_file_is_told(tmp_path, read):
    assert code_of(read, tmp_path / "f") == "E300"


@READERS
def test_a_symbolic_link_is_refused(tmp_path, read):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "f").symlink_to("secret")

    assert code_of(read, tmp_path / "f") == "E305"


@READERS
def test_a_hard_link_is_refused(tmp_path, read):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "f").hardlink_to(tmp_path / "secret")

    assert code_of(read, tmp_path / "f") == "E305"


@READERS
def test_a_pipe_is_refused_without_waiting(tmp_path, read):
    os.mkfifo(tmp_path / "f")

    assert code_of(read, tmp_path / "f") == "E305"


@READERS
def test_a_socket_is_refused(tmp_path, read, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("f")

        assert code_of(read, tmp_path / "f") == "E305"


@READERS
def test_a_directory_and_a_device_are_refused(tmp_path, read):
    assert code_of(read, tmp_path) == "E305"
    assert code_of(read, "/dev/zero") == "E305"


def test_a_file_that_is_too_long_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")

    assert code_of(lambda path: read_plain(path, most_bytes=4), tmp_path / "f") == "E305"


def test_an_error_of_the_disk_while_reading_is_told(tmp_path, monkeypatch):
    (tmp_path / "f").write_bytes(b"12345")

    def broken(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "readv", broken)

    assert code_of(digest_plain, tmp_path / "f") == "E315"


def test_no_descriptor_is_left_open(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    before = len(list(Path("/proc/self/fd").iterdir()))

    read_plain(str(tmp_path / "f"))
    digest_plain(str(tmp_path / "f"))
    code_of(read_plain, tmp_path)

    assert len(list(Path("/proc/self/fd").iterdir())) == before
