"""Make the system calls that only some systems have, with a substitute on the others.

Linux has all of them. macOS has no ``/proc``, ``prctl``, ``sigtimedwait``, ``memfd_create``,
``renameat2``, ``posix_fadvise`` and ``posix_fallocate``, no ``SOCK_SEQPACKET`` for local sockets,
no signals from ``SIGRTMIN`` on, and ``waitid`` only from Python 3.13 on. Code that needs one of
these calls it here: ``tests/e2e/test_other_systems.py`` takes them away.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import time
from _thread import get_ident

# Known to type checkers by its name. A supervisor's child waits for each import made before it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence, Set
    from typing import Any

# <linux/prctl.h>
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
# <linux/falloc.h>
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
# <fcntl.h>, <linux/fs.h>
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
# The kernel, the C library or the file system does not know the call or its flag.
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_POLL_S = 0.02
_PARENT_POLL_S = 0.2

# Descriptors that processes forked by tasks do not inherit.
_OWN_WAKEUPS: set[int] = set()
# The signal masks, before the fork, of threads that are forking.
_MASKS: dict[int, set[Any]] = {}


class ReceivedSignal:
    """A signal that was waited for.

    Args:
        si_signo: Its number.
        si_code: As in ``siginfo_t``: above zero if the kernel sent it, such as for Ctrl-C.
    """

    def __init__(self, si_signo: int, si_code: int) -> None:
        self.si_signo = si_signo
        self.si_code = si_code


def wait_for_signal(numbers: Set[int], limit_s: float) -> ReceivedSignal | None:
    """Wait by the system call ``sigtimedwait`` for a blocked signal; return None if none came.

    Where there is no ``sigtimedwait``, it returns None after a few milliseconds already, since
    some systems drop a blocked SIGCHLD: the caller looks for ended children itself.
    """
    wait = getattr(signal, "sigtimedwait", None)
    if wait is not None:
        info = wait(numbers, limit_s)
        return info and ReceivedSignal(info.si_signo, info.si_code)
    pending = signal.sigpending() & numbers
    if not pending:
        time.sleep(min(limit_s, _POLL_S))
        pending = signal.sigpending() & numbers
    if not pending:
        return None
    number = signal.sigwait(pending)
    return ReceivedSignal(number, int(number == signal.SIGINT and _is_in_foreground()))


def _is_in_foreground() -> bool:
    """Make the system call ``tcgetpgrp`` to find out whether Ctrl-C reaches this process."""
    for descriptor in (0, 1, 2):
        try:
            return os.tcgetpgrp(descriptor) == os.getpgrp()
        except OSError:
            continue
    return False


def set_own_wakeup(descriptor: int) -> int:
    """Call ``signal.set_wakeup_fd`` with a descriptor that processes forked by tasks do not keep.

    Returns:
        The descriptor that was set before; -1 for none.
    """
    _OWN_WAKEUPS.add(descriptor)
    return signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)


def _hold_signals() -> None:
    """Suspend signals in a thread about to fork: the child has jobrun's handlers at first."""
    # Here and not in the child, where another thread's import may never end.
    from jobrun.core.stop_signals import requested_signals  # noqa: PLC0415 - few commands fork

    _MASKS[get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, requested_signals())


def _release_signals() -> None:
    """Let signals come again after a fork, in the parent, or in the child once it can end."""
    mask = _MASKS.pop(get_ident(), None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _drop_own_handlers() -> None:
    """Give a forked process Python's default signal handlers in place of jobrun's own."""
    from jobrun.core.stop_signals import is_own_handler, requested_signals  # noqa: PLC0415 - loaded

    for number in requested_signals():
        if is_own_handler(signal.getsignal(number)):
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
    before = signal.set_wakeup_fd(-1)
    if before != -1 and before not in _OWN_WAKEUPS:
        signal.set_wakeup_fd(before)
    _release_signals()


os.register_at_fork(
    before=_hold_signals, after_in_parent=_release_signals, after_in_child=_drop_own_handlers
)


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> bool:
    """Request a signal for this process when its parent ends; return whether the parent lives.

    Where there is no ``prctl``, a thread watches the parent; it sees the end a moment later, and
    not while a call of C code holds the GIL.

    Args:
        parent: The process ID of the parent, as it was before this process could ask.
        number: The signal.
    """
    has_prctl = bind_parent_death_signal()(number)
    if os.getppid() != parent:
        # It ended before the call took effect.
        return False
    if not has_prctl:
        import threading  # noqa: PLC0415 - seldom

        def watch() -> None:
            while os.getppid() == parent:
                time.sleep(_PARENT_POLL_S)
            os.kill(os.getpid(), number)

        threading.Thread(target=watch, name="jobrun-parent", daemon=True).start()
    return True


def bind_parent_death_signal() -> Callable[[int], bool]:
    """Look up ``prctl(PR_SET_PDEATHSIG)``, and return the function that calls it.

    That may be called between ``fork`` and ``exec``; it returns False where there is no ``prctl``.
    """
    call = find_c_function("prctl")
    return lambda number: call is not None and call(_PR_SET_PDEATHSIG, number, 0, 0, 0) == 0


def adopt_orphans() -> bool:
    """Make this process the parent of orphaned descendants (``prctl(PR_SET_CHILD_SUBREAPER)``)."""
    call = find_c_function("prctl")
    return call is not None and call(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def find_c_function(name: str) -> Callable[..., int] | None:
    """Return the C library's function of a name, such as a system call; None if it is missing."""
    # Importing ctypes takes milliseconds, which other commands should not pay.
    import ctypes  # noqa: PLC0415

    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    except AttributeError:
        return None
    return function


def read_proc(*path: object) -> bytes:
    """Ask the operating system for the bytes of a file in ``/proc``; empty if it has none."""
    try:
        # Opening through pathlib takes longer than the read.
        with open("/".join(("/proc", *map(str, path))), "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def count_memory_kills() -> int:
    """Ask the operating system how many processes it has killed so far for lack of memory.

    0 where it does not say (``oom_kill`` in ``/proc/vmstat``).
    """
    counts = dict(line.split() for line in read_proc("vmstat").splitlines())
    return int(counts.get(b"oom_kill", 0))


def read_process_stat(pid: int) -> list[bytes]:
    """Ask the operating system for a process's fields of ``/proc/PID/stat``; [] if it has none."""
    return read_proc(pid, "stat").rpartition(b") ")[2].split()


def list_processes() -> list[int]:
    """Ask the operating system (``/proc``) for the IDs of all processes; [] if it cannot say."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def usable_cpus() -> int:
    """Ask the operating system how many processors this process may use (``sched_getaffinity``)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def open_anonymous_file(name: str) -> int:
    """Open an anonymous file by the system call ``memfd_create`` or an unlinked temporary one."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    import tempfile  # noqa: PLC0415 - not on Linux

    descriptor, path = tempfile.mkstemp(prefix=name)
    os.unlink(path)  # noqa: PTH108
    return descriptor


def has_ended(pid: int, poll: Callable[[], object]) -> bool:
    """Make the system call ``waitid`` to find out whether a child has ended, without reaping it.

    Args:
        pid: The child's process ID.
        poll: Reaps the child if it has ended, and returns None as long as it has not; called only
            where there is no ``waitid``.

    Raises:
        ChildProcessError: There is no such child.
    """
    if not hasattr(os, "waitid"):
        return poll() is not None
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def has_children() -> bool:
    """Make the system call ``waitid`` to find out whether this process has unreaped children."""
    if hasattr(os, "waitid"):
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return False
    return True


def open_message_sockets() -> tuple[socket.socket, socket.socket]:
    """Make the system call for a socket pair that keeps message boundaries; return the pair."""
    import socket  # noqa: PLC0415 - only with several processes

    kind = getattr(socket, "SOCK_SEQPACKET", None)
    if kind is not None:
        try:
            return socket.socketpair(socket.AF_UNIX, kind)
        except OSError:
            pass
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def allocate_file(descriptor: int, size_bytes: int) -> None:
    """Allocate a new file's blocks by the system call ``posix_fallocate``, where there is one.

    Raises:
        OSError: There is no room (``ENOSPC``).
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size_bytes)


def free_beginning(descriptor: int, size_bytes: int) -> None:
    """Free the blocks of a file's first bytes (system call ``fallocate``); they read as zeros."""
    call = find_c_function("fallocate")
    if call is not None:
        import ctypes  # noqa: PLC0415 - see above

        call(descriptor, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size_bytes))


def advise_sequential(descriptor: int) -> None:
    """Make the system call ``posix_fadvise`` to announce that a file is read sequentially."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)


def advise_needed(descriptor: int, begin: int, length: int) -> None:
    """Make the system call ``posix_fadvise`` to read a range of a file ahead of its use."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, begin, length, os.POSIX_FADV_WILLNEED)


def start_writing(descriptor: int) -> None:
    """Make the system call that starts to write a file's cached bytes to disk, without waiting.

    It does not wait for them, as ``fsync`` does: memory that is not needed is free once written.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def read_into(descriptor: int, buffers: Sequence[Any], offset: int) -> int:
    """Read from an offset of a file into several buffers by the system call ``preadv``."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, buffers, offset)
    view = next(memoryview(buffer).cast("B") for buffer in buffers if memoryview(buffer).nbytes)
    data = os.pread(descriptor, len(view), offset)
    view[: len(data)] = data
    return len(data)


def rename_noreplace(source: str, target: str) -> None:
    """Rename a directory by the system call ``renameat2``, never over an existing name.

    ``renameat2`` with RENAME_NOREPLACE does it in one act. Where that is not known, a look
    and a plain rename do: between the two, only an empty directory could come to be
    replaced, since ``rename`` itself refuses all others; and the directories renamed here
    are never empty, so no two of them can take one name.

    Raises:
        FileExistsError: Something has the name.
        OSError: The system refuses.
    """
    code = _renameat2(source, target)
    if code in _UNKNOWN:
        _look_and_rename(source, target)
    elif code:
        raise OSError(code, os.strerror(code), source, None, target)


def _renameat2(source: str, target: str) -> int:
    """Make the system call ``renameat2`` with its no-replace flag; return its errno, or 0."""
    call, last_error = _bind_renameat2()
    if call is None:
        return errno.ENOSYS
    names = (_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target))
    return last_error() if call(*names, _RENAME_NOREPLACE) else 0


@functools.cache
def _bind_renameat2() -> tuple[Any, Callable[[], int]]:
    """Look up the system call ``renameat2``; return it with the function that reads ``errno``."""
    # Costs milliseconds, which commands that rename nothing should not pay.
    import ctypes  # noqa: PLC0415

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        path = ctypes.c_char_p
        call.argtypes = (ctypes.c_int, path, ctypes.c_int, path, ctypes.c_uint)
    return call, ctypes.get_errno


def _look_and_rename(source: str, target: str) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
    try:
        os.rename(source, target)  # noqa: PTH104
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.ENOTDIR}:
            raise FileExistsError(errno.EEXIST, error.strerror, source, None, target) from error
        raise
