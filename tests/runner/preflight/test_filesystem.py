"""Row 49: the kind of file system, from the mounts, and what a person is told of it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runner.preflight import filesystem as module
from jobrun.runner.preflight import filesystem as space
from jobrun.runner.preflight.filesystem import (
    check_file_system,
    find_file_system,
    probe_directory,
)

MOUNTS = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:40 / /data rw shared:1 - nfs4 server:/export rw
31 21 0:41 / /data/fast rw - tmpfs tmpfs rw
32 21 0:42 / /with\\040space rw - xfs /dev/vdb rw
33 21 0:43 / /data/fast rw - lustre mgs:/l rw
odd line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me", "ext4"), ("/data/runs", "nfs4"), ("/database", "ext4"),
        ("/with space/x", "xfs"), ("/data/fast/runs", "lustre"),
    ],
)  # fmt: skip
def test_row_49_the_deepest_and_latest_mount_counts(path, kind):
    assert find_file_system(Path(path), MOUNTS) == kind


def test_row_49_the_real_one_is_known(tmp_path):
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    points = {line.split()[4] for line in mounts}
    # In a chroot that is no mount, there is none at the root, and what is there is unknown.
    is_mounted = not points.isdisjoint(map(str, (tmp_path, *tmp_path.parents)))

    assert bool(find_file_system(tmp_path)) is is_mounted
    assert find_file_system(Path("/proc")) == "proc"


@pytest.mark.parametrize(
    ("kind", "word"), [("nfs", "lock"), ("tmpfs", "reboot"), ("overlay", "container")]
)
def test_row_49_what_is_unusual_is_named_with_its_consequence(kind, word):
    (fault,) = check_file_system(Path("/x"), kind)

    assert (fault.code, fault.severity) == ("W182", "warning")
    assert kind in fault.message
    assert word in fault.message


def test_row_49_local_disk_gives_no_warning():
    assert check_file_system(Path("/x"), "ext4") == ()
    assert check_file_system(Path("/x"), "") == ()


def test_row_42_a_directory_is_tried_by_writing_into_it(tmp_path, monkeypatch):
    assert probe_directory(tmp_path) == ()
    assert list(tmp_path.iterdir()) == []

    with pytest.raises(EnvironmentFaultError, match="cannot write in"):
        probe_directory(tmp_path / "none")


def test_a_probe_that_cannot_be_synced_is_removed(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(EnvironmentFaultError, match="Input/output"):
        probe_directory(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_low_disk_space_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LITTLE_SPACE_BYTES", 1 << 62)
    disk(monkeypatch, free_bytes=200 << 10)

    (fault,) = probe_directory(tmp_path)

    assert fault.code == "W181"
    assert "only 200.0 KiB are free" in fault.message


def disk(monkeypatch, *, free_bytes=1 << 30, files=1000, free_files=1000):
    facts = SimpleNamespace(
        f_bavail=free_bytes >> 12, f_frsize=1 << 12, f_files=files, f_favail=free_files
    )
    monkeypatch.setattr(os, "statvfs", lambda path: facts)


def test_enough_space_gives_no_fault(tmp_path):
    space.require_space(str(tmp_path), 1000, 2)


def test_row_43_too_little_space_reports_needed_and_free_bytes(monkeypatch):
    disk(monkeypatch, free_bytes=1 << 20)

    with pytest.raises(EnvironmentFaultError) as raised:
        space.require_space("/x", 2 << 20, 1)

    (fault,) = raised.value.faults
    assert fault.code == "E381"
    assert "needs 2.2 MiB, and 1.0 MiB are free" in fault.message


def test_files_that_are_overwritten_need_no_room(monkeypatch, tmp_path):
    disk(monkeypatch, free_bytes=1 << 20)
    (tmp_path / "local.h5").write_bytes(b"x" * (2 << 20))

    space.require_space("/x", 2 << 20, 1, over=str(tmp_path))
    with pytest.raises(EnvironmentFaultError, match="E381"):
        space.require_space("/x", 4 << 20, 1, over=str(tmp_path))


def test_row_43_too_few_inodes_are_reported_as_files(monkeypatch):
    disk(monkeypatch, free_files=3)

    with pytest.raises(EnvironmentFaultError, match="can hold 3 more files"):
        space.require_space("/x", 1, 1)


def test_a_file_system_without_inodes_is_no_fault(monkeypatch):
    disk(monkeypatch, files=0, free_files=0)

    space.require_space("/x", 1, 1)


def test_missing_directory_is_left_to_the_writer(tmp_path):
    space.require_space(str(tmp_path / "nowhere"), 1, 1)
