"""Whether the disk has room for what is about to be written. Asks; writes nothing.

A disk that fills up in the middle loses nothing, but it costs the time of a whole save to find
out, and the other users of the disk get no space either.
"""

from __future__ import annotations

import os

from jobrun.compile.plan_text import size_text
from jobrun.core.errors import EnvironmentFaultError

# What file systems add for their own tables.
_SURCHARGE = 1.05
_SURCHARGE_BYTES = 1 << 16
# A staging directory, its manifest, and what the journal or a log may need.
_SPARE_INODES = 4


def expect_space(place: str, needed_bytes: int, files: int) -> None:
    """See that ``files`` new files of that many bytes in all fit on the disk of ``place``.

    Raises:
        EnvironmentFaultError: E381, they do not.
    """
    try:
        facts = os.statvfs(place)
    except OSError:
        # Not there, or not told: writing will say.
        return
    free_bytes = facts.f_bavail * facts.f_frsize
    wanted_bytes = int(needed_bytes * _SURCHARGE) + _SURCHARGE_BYTES
    if free_bytes < wanted_bytes:
        raise EnvironmentFaultError.of(
            "E381",
            f"the disk of {place} is too full: a checkpoint needs {size_text(wanted_bytes)}, "
            f"and {size_text(free_bytes)} are free",
            "free space, keep fewer checkpoints (checkpoint.keep), then resume",
        )
    # File systems without a fixed number of inodes say 0 of 0.
    if facts.f_files and facts.f_favail < files + _SPARE_INODES:
        raise EnvironmentFaultError.of(
            "E381",
            f"the disk of {place} can hold {facts.f_favail} more files, and a checkpoint needs "
            f"{files + _SPARE_INODES}",
            "remove files that nobody needs, then resume",
        )
