"""Lock a run for one live process with a kernel lock, which ends with its holder.

The text in the lock file is for people only; nothing is ever decided by it. The run's directory
stays open as long as the lock is held, so that a directory, or a link, that is put in its place
meanwhile is noticed before anything is committed into it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from jobrun.core.errors import EnvironmentFaultError, LockedError
from jobrun.core.files.disk import disk_faults, write_all
from jobrun.core.files.file_lock import close_locked, is_locked, try_lock
from jobrun.core.files.json_files import build, read_json
from jobrun.core.system_calls import read_proc, read_process_stat
from jobrun.core.waiting import wait_until

LOCK_NAME = "run.lock"
# The lock file in a job's directory, for file systems that cannot lock the directory itself.
_STARTS_NAME = ".starts.lock"
# A start makes only a few directories and files, but hundreds may queue on a slow network disk.
_START_S = 120.0
_TEXT_LIMIT_BYTES = 4096
# A process that is killed while it waits for a disk holds its locks until the disk answers.
_DYING_S, _LOOK_EVERY_S = 10.0, 0.01
# A program that it was starting (after fork, before exec) holds them a moment longer.
_FORKED_S = 2.0
# In /proc/PID/stat: the field of the process's flags after its name, and the flag PF_EXITING.
_FLAGS, _EXITING = 6, 0x4


class RunLostError(EnvironmentFaultError):
    """The run's directory or lock is not the one that is held: nothing more may be written."""


class Owner(Struct, frozen=True):
    """The holder of a run's lock, as it wrote itself; unwritten fields are empty."""

    pid: int = 0
    host: str = ""
    since: str = ""

    def __str__(self) -> str:
        if not self.pid:
            return "another process"
        return f"process {self.pid} on {self.host or 'an unnamed host'}, since {self.since}"


# A process that a callable forks (a DataLoader's worker, multiprocessing) shares the lock through
# the descriptors that it inherits, and may outlive a runner that is killed: a resume would find the
# run held by a process that is gone. Closing its copies leaves the runner's lock as it is.
_HELD: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Close, in a forked process, its copies of the descriptors that hold run locks."""
    for lock in list(_HELD):
        lock.release()


os.register_at_fork(after_in_child=_leave_to_parent)


class RunLock:
    """The lock of one run, held from ``acquire`` to ``release`` or the process's death."""

    def __init__(self, run: Path, directory: int) -> None:
        self._run = run
        self._path = str(run)
        self._directory = directory
        self._descriptor = -1
        # Device and inode of the open lock file and directory, which they keep.
        self._identities = ((-1, -1), (-1, -1))
        _HELD.add(self)

    @classmethod
    def acquire(cls, run: Path) -> Self:
        """Lock a run; raise ``LockedError`` at once if a live process holds its lock.

        A lock file that is replaced while we take it is not the lock: the inode we hold
        must be the one the name leads to.

        Raises:
            LockedError: A live process holds it.
            EnvironmentFaultError: The file cannot be made.
        """
        where = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with disk_faults("E354", f"open {run}"):
            lock = cls(run, os.open(run, where))
        try:
            lock._take()
        except BlockingIOError as error:
            lock.release()
            raise _held(run, owner_of(run)) from error
        except BaseException:
            lock.release()
            raise
        return lock

    def check(self) -> None:
        """Require that the run's lock file and directory were not replaced since they were locked.

        Raises:
            RunLostError: E355, one of them was deleted, moved or replaced under us.
        """
        file, directory = self._identities
        if _identity(LOCK_NAME, dir_fd=self._directory, follow_symlinks=False) != file:
            raise _replaced(f"the lock file {self._run / LOCK_NAME}")
        # Links are followed here, because people name runs by links.
        if _identity(self._path) != directory:
            raise _replaced(f"the directory {self._run}")

    def release(self) -> None:
        """Release the run's lock; may be called twice."""
        for descriptor in (self._descriptor, self._directory):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._directory = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _take(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with disk_faults("E354", f"open {LOCK_NAME} in {self._run}"):
            self._descriptor = os.open(LOCK_NAME, flags, 0o644, dir_fd=self._directory)
        try:
            self._lock_directory()
            self._lock_unless_held()
        except BlockingIOError:
            raise
        except OSError as error:
            raise EnvironmentFaultError.of(
                "E355",
                f"the file system of {self._run} knows no locks: {error.strerror or error}",
                "choose a --run-dir on a local disk, or one whose mount allows locks",
            ) from error
        self._identities = _identity(self._descriptor), _identity(self._directory)
        self.check()
        self._sign()

    def _lock_directory(self) -> None:
        """Lock the run's directory itself, because a hard-linked copy has the same lock file.

        A snapshot of hard links (``cp -al``) has the same lock file, but a directory of its own.

        Raises:
            BlockingIOError: A live process holds the directory.
        """
        try:
            self._repeat(self._directory)
        except BlockingIOError:
            raise
        except OSError:
            # NFS cannot lock directories: only the lock file protects the run.
            return
        if os.fstat(self._descriptor).st_nlink <= 1:
            return
        # The lock file is also linked in another directory; this process has locked this directory.
        temporary = f".{LOCK_NAME}.{os.urandom(4).hex()}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o644, dir_fd=self._directory)
        os.rename(temporary, LOCK_NAME, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _lock_unless_held(self) -> None:
        """Lock the run's lock file; raise ``BlockingIOError`` if a live process holds it."""
        self._repeat(self._descriptor)

    def _repeat(self, descriptor: int) -> None:
        """Try again and again to lock a run while the process that holds its lock is ending."""
        start = time.monotonic()
        while True:
            # Read before the try: if the holder has ended by then, its lock is free, or soon will
            # be.
            owner = owner_of(self._run)
            patience_s = _DYING_S if _is_dying(owner) else _FORKED_S if _has_ended(owner) else 0.0
            if try_lock(descriptor):
                return
            if time.monotonic() >= start + patience_s:
                raise BlockingIOError
            time.sleep(_LOOK_EVERY_S)

    def _sign(self) -> None:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        owner = {"pid": os.getpid(), "host": os.uname().nodename, "since": since}
        with disk_faults("E354", f"write {LOCK_NAME}"):
            os.ftruncate(self._descriptor, 0)
            write_all(self._descriptor, json.dumps(owner).encode() + b"\n")


@contextlib.contextmanager
def lock_starts(job_directory: Path) -> Iterator[None]:
    """Lock the directory of a job's runs: one process at a time looks for a run, or makes one.

    Raises:
        LockedError: E460, another process has held it for minutes.
        EnvironmentFaultError: The directory cannot be opened.
    """
    with disk_faults("E354", f"open {job_directory}"):
        directory = os.open(job_directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    descriptor = directory
    try:
        try:
            _wait_for_start(directory, job_directory)
        except OSError:
            # NFS cannot lock directories. A file system without locks is refused by the run's lock.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with disk_faults("E354", f"open {_STARTS_NAME} in {job_directory}"):
                descriptor = os.open(_STARTS_NAME, flags, 0o644, dir_fd=directory)
            with contextlib.suppress(OSError):
                _wait_for_start(descriptor, job_directory)
        yield
    finally:
        for opened in {directory, descriptor}:
            close_locked(opened)


def _wait_for_start(descriptor: int, job_directory: Path) -> None:
    if not wait_until(lambda: try_lock(descriptor), _START_S, _LOOK_EVERY_S):
        raise LockedError.of(
            "E460",
            f"another process has been starting a run in {job_directory} for {_START_S:g} s",
            "look for a jobrun that is stopped (state T in ps) and continue or end it; then "
            "repeat the command",
        )


def owner_of(run: Path) -> Owner:
    """Read who holds a run's lock, or held it last, from the lock file."""
    with contextlib.suppress(OSError, ValueError):
        return build(Owner, read_json(run / LOCK_NAME, _TEXT_LIMIT_BYTES))
    return Owner()


def is_live(run: Path) -> bool:
    """Return whether a live process holds the run's lock now."""
    if not is_locked(run / LOCK_NAME):
        return False
    try:
        has_other_names = (run / LOCK_NAME).lstat().st_nlink > 1
    except OSError:
        return True
    # A hard-linked copy of a run shares the lock file: then the lock of the directory decides.
    return not has_other_names or is_locked(run)


def _is_dying(owner: Owner) -> bool:
    """Return whether the run lock's holder is a local process that a kill is just ending."""
    state = _state_of(owner)
    if not state:
        # It has ended, or there is no /proc.
        return False
    flags = int(state[_FLAGS])
    status = read_proc(owner.pid, "status")
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line[3:6] == b"Pnd"]
    killed = 1 << (signal.SIGKILL - 1)
    return bool(flags & _EXITING or any(mask & killed for mask in pending))


def _has_ended(owner: Owner) -> bool:
    """Return whether the lock's last holder was a local process that has ended."""
    if not owner.pid or owner.host != os.uname().nodename:
        return False
    # Without /proc neither is known.
    return bool(read_process_stat(os.getpid())) and not read_process_stat(owner.pid)


def _is_stopped(owner: Owner) -> bool:
    """Return whether the process that holds a run's lock is stopped (SIGTSTP, a debugger)."""
    return _state_of(owner)[:1] in ([b"T"], [b"t"])


def _state_of(owner: Owner) -> list[bytes]:
    """Read from ``/proc`` the state of a run lock's holder; empty if it is on another host."""
    if not owner.pid or owner.host != os.uname().nodename:
        return []
    return read_process_stat(owner.pid)


def _identity(path: str | int, **options: Any) -> tuple[int, int]:
    """Return device and inode of a run's lock file or directory; (0, 0) if it is gone."""
    try:
        facts = os.stat(path, **options)  # noqa: PTH116 - for each epoch, or of a descriptor
    except OSError:
        return (0, 0)
    return (facts.st_dev, facts.st_ino)


def _replaced(subject: str) -> RunLostError:
    return RunLostError.of(
        "E355",
        f"{subject} was removed or replaced while this run held it",
        "make sure that nothing else writes to this run, then resume it where it is now",
    )


def _held(run: Path, owner: Owner) -> LockedError:
    held = f"run {run.name} is held by {owner}"
    if _is_stopped(owner):
        return LockedError.of(
            "E353",
            f"{held}, which is stopped",
            f"let it continue (fg in its terminal, or kill -CONT {owner.pid}), or end it for good "
            f"(kill -KILL {owner.pid}): what it has saved stays",
        )
    return LockedError.of(
        "E353", held, "wait for its end, or send it SIGTERM, which lets it save first"
    )
