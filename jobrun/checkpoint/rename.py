"""Renaming a directory so that it never replaces another one. Makes nothing durable."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
# The kernel, the C library or the file system does not know the call or its flag.
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def rename_new(source: str, target: str) -> None:
    """Rename a directory that is not empty to a name that nothing has.

    ``renameat2`` with RENAME_NOREPLACE does it in one act. Where that is not known, a look
    and a plain rename do: between the two, only an empty directory could come to be
    replaced, since ``rename`` itself refuses all others; and the directories renamed here
    are never empty, so no two of them can take one name.

    Raises:
        FileExistsError: Something has the name.
        OSError: The disk says no.
    """
    code = _renameat2(source, target)
    if code in _UNKNOWN:
        _look_and_rename(source, target)
    elif code:
        raise OSError(code, os.strerror(code), source, None, target)


def _renameat2(source: str, target: str) -> int:
    """The error number of the call; 0 when it was done."""
    # Costs milliseconds, which commands that rename nothing should not pay.
    import ctypes  # noqa: PLC0415

    library = ctypes.CDLL(None, use_errno=True)
    try:
        call = library.renameat2
    except AttributeError:
        return errno.ENOSYS
    arguments = (_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target))
    done = call(*arguments, ctypes.c_uint(_RENAME_NOREPLACE))
    return ctypes.get_errno() if done else 0


def _look_and_rename(source: str, target: str) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
    try:
        Path(source).rename(target)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.ENOTDIR}:
            raise FileExistsError(errno.EEXIST, error.strerror, source, None, target) from error
        raise
