"""Lock files and directories with ``flock``: the kernel releases the lock when its holder dies.

The lock belongs to the open file description, so a descriptor that a forked process inherits holds
the same lock. A file system without locks (some NFS mounts) raises ``OSError`` (ENOLCK, ENOTSUP);
each caller decides what that means.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the ``flock`` of an open file without waiting; return whether this succeeded.

    Args:
        descriptor: The file or directory. NFS gives an exclusive lock only to a descriptor that
            may write.
        shared: Allow other holders of a shared lock.

    Raises:
        OSError: The file system has no locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(descriptor: int) -> None:
    """Take the exclusive ``flock`` of an open file; wait while another process holds it.

    Raises:
        OSError: The file system has no locks.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def unlock(descriptor: int) -> None:
    """Release the ``flock`` of an open file, also for forked processes that inherited it."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def close_locked(descriptor: int) -> None:
    """Release the ``flock`` of an open file and close it.

    Closing alone would leave the lock to a process that was forked meanwhile, for as long as that
    process lives.
    """
    unlock(descriptor)
    os.close(descriptor)


def is_locked(path: str | Path) -> bool:
    """Return whether a live process holds the ``flock`` of a file or directory now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared: two processes that look at the same time must not see each other as the holder.
        return not try_lock(descriptor, shared=True)
    except OSError:
        # The file system has no locks, so no process can hold one.
        return False
    finally:
        os.close(descriptor)
