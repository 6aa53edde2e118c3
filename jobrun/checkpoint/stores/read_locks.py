"""Hold an epoch against deletion while it is read, and delete only epochs without readers.

A lock of the kernel on the epoch's manifest, shared by readers, exclusive to the one who deletes.
It ends with the process that holds it. A file system without locks holds nothing: there a reader
of a live run meets an epoch that goes away.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from types import TracebackType

from jobrun.checkpoint.store_protocol import EpochHold
from jobrun.checkpoint.stores import manifest as manifests
from jobrun.core.errors import CheckpointError, JobrunError, LockedError
from jobrun.core.files.file_lock import close_locked, try_lock

_TRIES, _PAUSE_S = 200, 0.001
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# NFS gives an exclusive lock only to a descriptor that may write.
_CHANGE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def hold_epoch(directory: str) -> EpochHold | None:
    """Take a read lock on an epoch's directory; return None if it is missing or being deleted."""
    path = os.path.join(directory, manifests.NAME)  # noqa: PTH118 - for each epoch that goes
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        # Without its manifest an epoch is damaged, and there is nothing to lock.
        return EpochHold() if os.path.isdir(directory) else None  # noqa: PTH112
    hold = EpochHold(descriptor)
    try:
        if not try_lock(descriptor, shared=True):
            return None
    except OSError:
        return hold
    # Renamed between the two calls? Then the locked epoch is being removed.
    return hold if _is_named(descriptor, path) else None


def hold_chosen(
    choose: Callable[[], int], hold: Callable[[int], EpochHold | None], where: str
) -> tuple[int, EpochHold]:
    """Choose an epoch and take a read lock on it; choose again if it was deleted meanwhile.

    Args:
        choose: Returns an epoch that is there now, or raises.
        hold: Holds it; None where it is gone.
        where: The run, or the directory of its epochs, for the message.

    Raises:
        CheckpointError: E389, each one that was chosen went away.
        LockedError: E353, another program has locked the one that is chosen again and again.
    """
    chosen: set[int] = set()
    for _ in retry_attempts():
        epoch = choose()
        chosen.add(epoch)
        held = hold(epoch)
        if held is not None:
            return epoch, held
    raise not_held_error(where, chosen)


def retry_attempts() -> Iterator[int]:
    """Yield the numbers of the attempts to take a read lock on an epoch, with pauses."""
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_S)
        yield number


def not_held_error(where: str, chosen: Collection[int]) -> JobrunError:
    """Build the error for epochs of which no read lock could be taken in any attempt.

    Args:
        where: The run, or the directory of its epochs.
        chosen: The epochs: always the same one is locked by another program, and several were
            deleted one after the other.
    """
    if len(chosen) == 1:
        (epoch,) = chosen
        return LockedError.of(
            "E353",
            f"another program has locked the manifest of epoch {epoch} in {where}",
            "close what has it open; 'fuser -v' on the file shows which process that is",
        )
    return CheckpointError.of(
        "E389",
        f"{where}: each of {_TRIES} epochs that were chosen was deleted before it could be held",
        "let the run keep more of them (checkpoint: {keep: {last: 10}}), or wait for its end",
    )


class exclude_readers:  # noqa: N801 - it reads as a function
    """Refuse read locks on an epoch that is deleted; the context is False when a reader has one."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/{manifests.NAME}"
        self._descriptor = -1

    def __enter__(self) -> bool:
        """Take the lock that refuses readers; return False if one holds the epoch."""
        try:
            self._descriptor = os.open(self._path, _CHANGE)
        except OSError:
            return True
        return _lock_unless_held(self._descriptor)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._descriptor >= 0:
            close_locked(self._descriptor)


def _lock_unless_held(descriptor: int) -> bool:
    try:
        return try_lock(descriptor)
    except OSError:
        return True


def _is_named(descriptor: int, path: str) -> bool:
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), status)
