"""Keep the memory of freed arrays in the process, so that the next arrays need not fetch it again.

The C library returns memory at the end of its heap to the system as soon as 128 KiB are free there,
and each page that it asks for again costs a page fault: an expression over arrays of a few hundred
kilobytes, whose results in between are freed at once, takes up to three times as long. It raises
both of its thresholds itself, up to 32 and 64 MiB, when arrays of such a size are freed. This sets
them so from the start.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

# From malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# glibc's DEFAULT_MMAP_THRESHOLD_MAX where a long has 64 bits, and twice that.
MMAP_THRESHOLD_BYTES = 32 << 20
TRIM_THRESHOLD_BYTES = 64 << 20


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Raise the thresholds of the C library's allocator; return whether it has taken them.

    Args:
        environment: Where a user may have set the thresholds; then they are left as they are.
    """
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in environment):
        return False
    # Other C libraries have none.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    taken = [
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
    ]
    return all(taken)
