"""Take from every interpreter what only some systems have: put this folder on PYTHONPATH.

The variable ``WITHOUT`` names what, separated by spaces; see ``_ATTRIBUTES`` and ``_AUDITED``.
"""

import errno
import os
import signal
import socket
import sys

_ATTRIBUTES = {
    "memfd_create": (os, "memfd_create"),
    "sched_getaffinity": (os, "sched_getaffinity"),
    "waitid": (os, "waitid"),
    "posix_fadvise": (os, "posix_fadvise"),
    "posix_fallocate": (os, "posix_fallocate"),
    "preadv": (os, "preadv"),
    "O_DIRECT": (os, "O_DIRECT"),
    "sigtimedwait": (signal, "sigtimedwait"),
    "SIGRTMIN": (signal, "SIGRTMIN"),
    "SOCK_SEQPACKET": (socket, "SOCK_SEQPACKET"),
}
# By functions of the C library, and by /proc and /sys as a whole.
_AUDITED = ("prctl", "renameat2", "mallopt", "proc")
ALL = (*_ATTRIBUTES, *_AUDITED)


def _refuse(event, arguments):
    if event == "ctypes.dlsym" and arguments[1] in _without:
        raise AttributeError(f"no function {arguments[1]} on this system")
    if "proc" in _without and event in {"open", "os.listdir", "os.scandir"}:
        path = arguments[0]
        if isinstance(path, str | bytes) and os.fsdecode(path).startswith(("/proc", "/sys/")):
            raise FileNotFoundError(errno.ENOENT, "no such file on this system", path)


_without = frozenset(os.environ.get("WITHOUT", "").split())
for _name in _without & _ATTRIBUTES.keys():
    delattr(*_ATTRIBUTES[_name])
if _without.intersection(_AUDITED):
    sys.addaudithook(_refuse)
