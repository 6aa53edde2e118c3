"""Let a process and its children write below some directories only, by Landlock (Linux 5.19).

Landlock needs no privileges, and holds for root, for programs that are started, and for paths that
lead out by symbolic links. What is read is not restricted; nor are times and permissions of files.
``landlock(7)`` explains the calls.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# <asm-generic/unistd.h>: the same numbers on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
# <linux/landlock.h>
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
# Before version 2 no file could be renamed into another directory.
_FIRST_VERSION = 2
_WRITE_FILE = 1 << 1
_CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 14))  # remove, make, refer
_TRUNCATE = 1 << 14
_TRUNCATE_VERSION = 3


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_version() -> int:
    """Return the kernel's version of Landlock; 0 if it has none that can restrict writing."""
    if sys.platform != "linux":
        return 0
    version = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    return version if version >= _FIRST_VERSION else 0


def bind_write_limit(writable: Sequence[Path]) -> Callable[[], None]:
    """Build the function by which a process gives up writing elsewhere, for good.

    It may be called between ``fork`` and ``exec``, in a process with a single thread: nothing is
    imported or looked up by then. Where there is no Landlock it does nothing.

    Args:
        writable: The directories and files that may be changed, with all that is below them; those
            that do not exist are passed over.
    """
    version = landlock_version()
    libc = _libc()
    access = _WRITE_FILE | _CHANGE_DIRECTORY | (_TRUNCATE if version >= _TRUNCATE_VERSION else 0)
    paths = [os.fsencode(path) for path in writable]

    def restrict() -> None:
        if not version:
            return
        attributes = _RulesetAttributes(access)
        ruleset = _checked(
            libc.syscall(
                _CREATE_RULESET,
                ctypes.byref(attributes),
                ctypes.c_size_t(ctypes.sizeof(attributes)),
                0,
            )
        )
        for path in paths:
            _allow(libc, ruleset, path, access)
        _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0))
        os.close(ruleset)

    return restrict


def _allow(libc: ctypes.CDLL, ruleset: int, path: bytes, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    # The kernel refuses rights of directories for a file.
    is_directory = os.path.isdir(path)  # noqa: PTH112 - of bytes
    rights = access if is_directory else access & (_WRITE_FILE | _TRUNCATE)
    rule = _PathBeneath(rights, descriptor)
    _checked(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    os.close(descriptor)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
