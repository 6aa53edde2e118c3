"""Check the file system that a run is on: kind, dangers, free space, writability."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from jobrun.core.errors import EnvironmentFaultError, Fault
from jobrun.core.files.disk import disk_faults, sync_file
from jobrun.core.system_calls import read_proc
from jobrun.core.text.patterns import lazy_pattern
from jobrun.core.text.units import size

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "beegfs", "gpfs", "glusterfs"}
)
# On these, locks reach all hosts only with certain mount options; on GPFS they always do.
_WITHOUT_CERTAIN_LOCKS = _NETWORK - {"gpfs"}
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_OCTAL = lazy_pattern(r"\\([0-7]{3})")

# Overhead of the file system's own metadata.
_SURCHARGE = 1.05
_SURCHARGE_BYTES = 1 << 16
# Inodes of a staging directory, its manifest, and a journal or log.
_SPARE_INODES = 4


def find_file_system(path: Path, mounts: str | None = None) -> str:
    """Find for preflight the kind of file system of a path, such as ``nfs``; empty if unknown.

    Args:
        path: An existing directory.
        mounts: The text of ``/proc/self/mountinfo``, if it is not to be read.
    """
    if mounts is None:
        mounts = read_proc("self", "mountinfo").decode(errors="replace")
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in mounts.splitlines():
        fields, dash, file_system = line.partition(" - ")
        words = fields.split()
        if not dash or len(words) < 5 or not file_system:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), words[4])
        # A later mount on the same point hides the earlier one.
        if _is_below(real, point) and len(point) >= len(best):
            best, kind = point, file_system.split()[0]
    return kind


def check_file_system(path: Path, kind: str) -> tuple[Fault, ...]:
    """Warn of dangers to a run on this kind of file system, such as NFS or tmpfs."""
    if kind in _WITHOUT_CERTAIN_LOCKS:
        message = f"{path} is on {kind}, where a lock can be lost when the server restarts"
        mend = "never start this run on two hosts; a local --run-dir is safer and faster"
        return (Fault("W182", message, mend, severity="warning"),)
    if kind in _IN_MEMORY:
        message = f"{path} is on {kind}: it is in memory, and does not survive a reboot"
        return (Fault("W182", message, "choose a --run-dir on a disk", severity="warning"),)
    if kind == "overlay":
        message = f"{path} is on an overlay: it ends with its container"
        mend = "choose a --run-dir on a volume, if the run is to outlive the container"
        return (Fault("W182", message, mend, severity="warning"),)
    return ()


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


_LITTLE_SPACE_BYTES = 256 << 20


def probe_directory(directory: Path) -> tuple[Fault, ...]:
    """Check that the file system can be written: create, sync and remove a small file.

    Returns:
        Warnings.

    Raises:
        EnvironmentFaultError: Nothing can be written there.
    """
    probe = directory / f".probe.{os.getpid()}"
    with disk_faults("E354", f"write in {directory}"):
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, b"x" * 4096)
            sync_file(descriptor)
        finally:
            os.close(descriptor)
            probe.unlink()
        facts = os.statvfs(directory)
        free_bytes = facts.f_bavail * facts.f_frsize
    if free_bytes >= _LITTLE_SPACE_BYTES:
        return ()
    message = f"only {size(free_bytes)} are free in {directory}"
    mend = "free space, keep fewer checkpoints, or choose another --run-dir"
    return (Fault("W181", message, mend, severity="warning"),)


def _size_bytes(directory: str) -> int:
    """Sum how much disk space the files in a directory take."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        return sum(512 * entry.stat(follow_symlinks=False).st_blocks for entry in entries)
    return 0


def require_space(directory: str, needed_bytes: int, files: int, *, over: str = "") -> None:
    """Require enough free disk space for a number of new files of a given total size.

    Args:
        directory: A directory on the disk.
        needed_bytes: Of all files together.
        files: How many.
        over: A directory whose files, of a removed epoch, are overwritten.

    Raises:
        EnvironmentFaultError: E381, they do not.
    """
    try:
        facts = os.statvfs(directory)
    except OSError:
        # statvfs failed: writing will report why.
        return
    free_bytes = facts.f_bavail * facts.f_frsize
    wanted_bytes = int(needed_bytes * _SURCHARGE) + _SURCHARGE_BYTES
    if free_bytes < wanted_bytes and over:
        # Computed only here: usually there is enough space.
        there_bytes = min(needed_bytes, _size_bytes(over))
        wanted_bytes = int((needed_bytes - there_bytes) * _SURCHARGE) + _SURCHARGE_BYTES
    if free_bytes < wanted_bytes:
        raise EnvironmentFaultError.of(
            "E381",
            f"the disk of {directory} is too full: a checkpoint needs {size(wanted_bytes)}, "
            f"and {size(free_bytes)} are free",
            "free space, keep fewer checkpoints (checkpoint.keep), then resume",
        )
    # File systems without a fixed number of inodes report 0 of 0.
    if facts.f_files and facts.f_favail < files + _SPARE_INODES:
        raise EnvironmentFaultError.of(
            "E381",
            f"the disk of {directory} can hold {facts.f_favail} more files, and a checkpoint needs "
            f"{files + _SPARE_INODES}",
            "remove files that are not needed, then resume",
        )
