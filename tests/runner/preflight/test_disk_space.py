"""Row 43: room on the disk is looked at before anything is written."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runner.preflight import filesystem as space


def disk(monkeypatch, *, free_bytes=1 << 30, files=1000, free_files=1000):
    facts = SimpleNamespace(
        f_bavail=free_bytes >> 12, f_frsize=1 << 12, f_files=files, f_favail=free_files
    )
    monkeypatch.setattr(os, "statvfs", lambda place: facts)


def test_room_enough_says_nothing(tmp_path):
    space.require_space(str(tmp_path), 1000, 2)


def test_row_43_too_little_room_says_what_is_needed_and_what_is_free(monkeypatch):
    disk(monkeypatch, free_bytes=1 << 20)

    with pytest.raises(EnvironmentFaultError) as raised:
        space.require_space("/x", 2 << 20, 1)

    (fault,) = raised.value.faults
    assert fault.code == "E381"
    assert "needs 2.2 MiB, and 1.0 MiB are free" in fault.message


def test_row_43_too_few_inodes_are_told_as_files(monkeypatch):
    disk(monkeypatch, free_files=3)

    with pytest.raises(EnvironmentFaultError, match="can hold 3 more files"):
        space.require_space("/x", 1, 1)


def test_a_file_system_without_inodes_is_no_fault(monkeypatch):
    disk(monkeypatch, files=0, free_files=0)

    space.require_space("/x", 1, 1)


def test_a_place_that_is_not_there_is_told_elsewhere(tmp_path):
    space.require_space(str(tmp_path / "nowhere"), 1, 1)
