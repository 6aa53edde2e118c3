"""Require free disk space for the files that are about to be written.

A disk that fills up in the middle loses nothing, but it costs the time of a whole save to find
out, and the other users of the disk get no space either.
"""

from __future__ import annotations

import os

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.units import size

# What file systems add for their own tables.
_SURCHARGE = 1.05
_SURCHARGE_BYTES = 1 << 16
# A staging directory, its manifest, and what the journal or a log may need.
_SPARE_INODES = 4


def require_space(place: str, needed_bytes: int, files: int) -> None:
    """Require free disk space for ``files`` new files of that many bytes together.

    Raises:
        EnvironmentFaultError: E381, they do not.
    """
    try:
        facts = os.statvfs(place)
    except OSError:
        # statvfs failed: writing will report why.
        return
    free_bytes = facts.f_bavail * facts.f_frsize
    wanted_bytes = int(needed_bytes * _SURCHARGE) + _SURCHARGE_BYTES
    if free_bytes < wanted_bytes:
        raise EnvironmentFaultError.of(
            "E381",
            f"the disk of {place} is too full: a checkpoint needs {size(wanted_bytes)}, "
            f"and {size(free_bytes)} are free",
            "free space, keep fewer checkpoints (checkpoint.keep), then resume",
        )
    # File systems without a fixed number of inodes say 0 of 0.
    if facts.f_files and facts.f_favail < files + _SPARE_INODES:
        raise EnvironmentFaultError.of(
            "E381",
            f"the disk of {place} can hold {facts.f_favail} more files, and a checkpoint needs "
            f"{files + _SPARE_INODES}",
            "remove files that are not needed, then resume",
        )
