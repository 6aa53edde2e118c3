from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from jobrun.checkpoint.read.safe_file import open_regular_file, read_regular_file
from jobrun.core.errors import CheckpointError


def opened(path: str) -> None:
    with open_regular_file(path):
        pass


READERS = pytest.mark.parametrize("read", [read_regular_file, opened])


def code_of(read, path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read(str(path))
    (fault,) = caught.value.faults
    assert str(path) in fault.message
    assert fault.mend
    return fault.code


def test_plain_file_is_read_completely(tmp_path):
    data = os.urandom(9_000_000)
    (tmp_path / "f").write_bytes(data)

    assert read_regular_file(str(tmp_path / "f")) == data


@READERS
def test_missing_file_is_an_error(tmp_path, read):
    assert code_of(read, tmp_path / "f") == "E300"


@READERS
def test_a_symbolic_link_is_refused(tmp_path, read):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "f").symlink_to("secret")

    assert code_of(read, tmp_path / "f") == "E305"


def test_a_file_with_other_names_is_read(tmp_path):
    (tmp_path / "f").write_text("state")
    (tmp_path / "snapshot").hardlink_to(tmp_path / "f")

    assert read_regular_file(str(tmp_path / "f")) == b"state"


@READERS
def test_a_hard_link_to_another_users_file_is_refused(tmp_path, read, monkeypatch):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "f").hardlink_to(tmp_path / "secret")
    if os.geteuid() == 0:
        os.chown(tmp_path / "secret", 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)

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

    assert code_of(lambda path: read_regular_file(path, most_bytes=4), tmp_path / "f") == "E305"


def test_disk_error_during_a_read_is_raised(tmp_path, monkeypatch):
    (tmp_path / "f").write_bytes(b"12345")

    def broken(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdopen", broken)

    assert code_of(read_regular_file, tmp_path / "f") == "E315"


def test_a_copy_is_opened_in_place_of_the_file_that_messages_name(tmp_path):
    (tmp_path / "copy").write_bytes(b"12345")
    path = str(tmp_path / "f")

    with open_regular_file(path, at=str(tmp_path / "copy")) as (_, size):
        assert size == 5
    with (
        pytest.raises(CheckpointError, match=path),
        open_regular_file(path, at=str(tmp_path / "gone")),
    ):
        pass


def test_no_descriptor_is_left_open(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    before = len(list(Path("/proc/self/fd").iterdir()))

    read_regular_file(str(tmp_path / "f"))
    code_of(read_regular_file, tmp_path)

    assert len(list(Path("/proc/self/fd").iterdir())) == before
