"""Decide by the free memory whether a save may copy the state and run in the background."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
# Memory of the file writer, for a state of any size.
_WRITER_BYTES = 64 << 20
# The remaining memory is for the tasks, whose needs are unknown.
_MEMORY_FRACTION = 0.5
# A growing state is checked again when it has grown by this factor.
_GROWN = 1.125


class MemoryBudget:
    """Decides whether a save may copy the state to run in the background.

    Args:
        wanted: What the spec says; None: as is best.
        free_bytes: Asks for the memory that is free.
    """

    def __init__(self, wanted: bool | None, free_bytes: Callable[[], int]) -> None:
        self._wanted = wanted
        self._free_bytes = free_bytes
        self._judged_bytes = -1
        self._allowed = False
        self.free_bytes = 0

    def allows(self, state_bytes: int) -> bool:
        """Return whether the memory budget allows a save to copy a state of that size."""
        if self._wanted is not None:
            return self._wanted
        if self._judged_bytes < 0 or state_bytes > self._judged_bytes * _GROWN:
            # The memory allowed before is in use already.
            taken = self._judged_bytes if self._allowed else 0
            self.free_bytes = self._free_bytes()
            needed = state_bytes - taken + _WRITER_BYTES
            self._allowed = needed <= self.free_bytes * _MEMORY_FRACTION
            self._judged_bytes = state_bytes
        return self._allowed


def free_memory_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int:
    """Return how many bytes of memory are free for copies of a save; 0 if it is unknown."""
    free = _read_available_bytes(meminfo)
    limit, used = _read_number(cgroup / "memory.max"), _read_number(cgroup / "memory.current")
    return free if limit < 0 or used < 0 else min(free, max(0, limit - used))


def _read_available_bytes(meminfo: Path) -> int:
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return 0
    fields = (line.split() for line in lines if line.startswith("MemAvailable:"))
    return next((int(words[1]) << 10 for words in fields), 0)


def _read_number(path: Path) -> int:
    """Read a number of bytes for the memory budget from a cgroup's file, or return -1."""
    try:
        text = path.read_text().strip()
    except OSError:
        return -1
    return int(text) if text.isdecimal() else -1
