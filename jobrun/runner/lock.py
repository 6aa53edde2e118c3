"""One live runner per run: a lock the kernel holds, and takes back when its holder dies.

The text in the lock file is for people only; nothing is ever decided by it. The run's directory
stays open as long as the lock is held, so that a directory, or a link, that is put in its place
meanwhile is noticed before anything is committed into it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jobrun.core.errors import EnvironmentFaultError, LockedError
from jobrun.formats.files import is_locked
from jobrun.runner.durable import disk_faults, write_all

LOCK_NAME = "run.lock"
_TEXT_LIMIT_BYTES = 4096
# A process that was killed while it waits for a disk holds its locks until the disk answers.
_DYING_S, _LOOK_EVERY_S = 10.0, 0.01
# Of /proc/PID/stat: the place of a process's flags behind its name, and PF_EXITING among them.
_FLAGS, _EXITING = 6, 0x4


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a run, as the holder wrote it; fields it did not write are empty."""

    pid: int = 0
    host: str = ""
    since: str = ""

    def __str__(self) -> str:
        if not self.pid:
            return "another process"
        return f"process {self.pid} on {self.host or 'an unnamed host'}, since {self.since}"


class RunLock:
    """The lock of one run, held from ``acquire`` to ``release`` or the process's death."""

    def __init__(self, run: Path, directory: int) -> None:
        self._run = run
        self._directory = directory
        self._descriptor = -1

    @classmethod
    def acquire(cls, run: Path) -> Self:
        """Take the run's lock, at once or not at all.

        A lock file that is replaced while we take it is not the lock: the inode we hold
        must be the one the name leads to.

        Raises:
            LockedError: A live process holds it.
            EnvironmentFaultError: The file cannot be made.
        """
        where = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with disk_faults(f"open {run}"):
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
        """See that the names still lead to what we hold: the lock file, and the run's directory.

        Raises:
            EnvironmentFaultError: One of them was deleted, moved or replaced under us.
        """
        if not _same(os.fstat(self._descriptor), _facts(LOCK_NAME, self._directory)):
            raise _replaced(f"the lock file {self._run / LOCK_NAME}")
        if not _same(os.fstat(self._directory), _facts(str(self._run))):
            raise _replaced(f"the directory {self._run}")

    def release(self) -> None:
        """Give the lock back; may be called twice."""
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
        with disk_faults(f"open {LOCK_NAME} in {self._run}"):
            self._descriptor = os.open(LOCK_NAME, flags, 0o644, dir_fd=self._directory)
        try:
            self._lock_unless_held()
        except BlockingIOError:
            raise
        except OSError as error:
            raise EnvironmentFaultError.of(
                "E355",
                f"the file system of {self._run} knows no locks: {error.strerror or error}",
                "choose a --run-dir on a local disk, or one whose mount allows locks",
            ) from error
        self.check()
        self._sign()

    def _lock_unless_held(self) -> None:
        """Take the kernel's lock; a holder that is dying already is waited for."""
        deadline = time.monotonic() + _DYING_S
        while True:
            # Looked at before the try: one that is gone by then holds nothing any more.
            is_dying = time.monotonic() < deadline and _is_dying(owner_of(self._run))
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not is_dying:
                    raise
            else:
                return
            time.sleep(_LOOK_EVERY_S)

    def _sign(self) -> None:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        with disk_faults(f"write {LOCK_NAME}"):
            os.ftruncate(self._descriptor, 0)
            write_all(self._descriptor, json.dumps(owner).encode() + b"\n")


def owner_of(run: Path) -> Owner:
    """What the lock file says of its holder; says nothing of whether it lives."""
    fields: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(run / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            read = json.loads(os.read(descriptor, _TEXT_LIMIT_BYTES))
        finally:
            os.close(descriptor)
        fields = read if isinstance(read, dict) else {}
    pid = fields.get("pid")
    return Owner(
        pid if isinstance(pid, int) else 0,
        str(fields.get("host", "")),
        str(fields.get("since", "")),
    )


def is_live(run: Path) -> bool:
    """Whether a live process holds the run just now."""
    return is_locked(run / LOCK_NAME)


def _is_dying(owner: Owner) -> bool:
    """Whether the holder, if it is a process here, has been killed and is only not gone yet."""
    state = _state_of(owner)
    try:
        flags = int(state[_FLAGS])
        said = Path("/proc", str(owner.pid), "status").read_text(errors="replace")
    except (OSError, ValueError, IndexError):
        # It is gone, or nothing tells about processes here.
        return False
    pending = [int(line.split()[1], 16) for line in said.splitlines() if line[3:6] == "Pnd"]
    killed = 1 << (signal.SIGKILL - 1)
    return bool(flags & _EXITING or any(mask & killed for mask in pending))


def _is_stopped(owner: Owner) -> bool:
    """Whether the holder, if it is a process here, is stopped (Ctrl-Z, or a debugger)."""
    return _state_of(owner)[:1] in ([b"T"], [b"t"])


def _state_of(owner: Owner) -> list[bytes]:
    """What the kernel says of a process here, behind its name; nothing of one elsewhere."""
    if not owner.pid or owner.host != socket.gethostname():
        return []
    with contextlib.suppress(OSError):
        return Path("/proc", str(owner.pid), "stat").read_bytes().rpartition(b") ")[2].split()
    return []


def _facts(name: str, directory: int | None = None) -> os.stat_result | None:
    try:
        # Of the run's own directory a link's target counts: people name runs by links.
        return os.stat(name, dir_fd=directory, follow_symlinks=directory is None)
    except OSError:
        return None


def _same(held: os.stat_result, named: os.stat_result | None) -> bool:
    return named is not None and (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)


def _replaced(what: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E355",
        f"{what} was removed or replaced while this run held it",
        "make sure that nothing else works in this run, then resume",
    )


def _held(run: Path, owner: Owner) -> LockedError:
    held = f"run {run.name} is held by {owner}"
    if _is_stopped(owner):
        return LockedError.of(
            "E353",
            f"{held}, which is stopped",
            f"let it go on (fg in its terminal, or kill -CONT {owner.pid}), or end it for good "
            f"(kill -KILL {owner.pid}): what it has saved stays",
        )
    return LockedError.of(
        "E353", held, "wait for its end, or send it SIGTERM, which lets it save first"
    )
