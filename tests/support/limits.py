"""Limit the memory of a test by tracing it, and of processes by a control group of the kernel."""

from __future__ import annotations

import contextlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def no_larger_than(most_bytes: int) -> Iterator[None]:
    """Fail if the body allocates more than that at any time, in Python or numpy."""
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most_bytes, f"{peak} bytes"


# Version 1, and version 2 where the controller is switched on for children.
_ROOTS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path | None]:
    """Make a group of processes with that much memory together; None where none can be made.

    A process joins it by writing its number into ``cgroup.procs``.
    """
    group = next(
        (group_ for group_ in (_made(*root, limit_bytes) for root in _ROOTS) if group_), None
    )
    try:
        yield group
    finally:
        if group is not None:
            # A process that was just killed may still be in it.
            with contextlib.suppress(OSError):
                group.rmdir()


def _made(root: Path, limit: str, limit_bytes: int) -> Path | None:
    group = root / f"jobrun-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        return None
    try:
        # In a directory that is no such group the files are not there.
        if (group / limit).is_file() and (group / "cgroup.procs").is_file():
            (group / limit).write_text(str(limit_bytes))
            return group
    except OSError:
        pass
    group.rmdir()
    return None
