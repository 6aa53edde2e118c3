"""Measure the resource usage of processes: memory, processor time, disk and GPU.

All of it is in Linux's ``/proc``; elsewhere ``resource.getrusage`` gives less, and what is unknown
is 0.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct


class ProcessUse(Struct, frozen=True):
    """What one process has used since it started.

    Attributes:
        node: The node that it runs; empty for the process of the run itself, which runs the nodes
            that have no process of their own.
        resident_bytes: Memory that it has now (RSS); 0 where that is unknown.
        peak_bytes: The most that it had at a time.
        cpu_s: Processor time, user and system, with that of programs that have ended.
        read_bytes: What was read from disks for it; the page cache does not count.
        written_bytes: What it had written to disks.
        gpu_bytes: GPU memory that it holds now; 0 unless the job has loaded torch or pynvml.
        gpu_peak_bytes: The most that it held at a time.
        gpu_percent: How busy its GPUs were lately, in percent, in the mean; None where unknown.
    """

    node: str = ""
    resident_bytes: int = 0
    peak_bytes: int = 0
    cpu_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    gpu_bytes: int = 0
    gpu_peak_bytes: int = 0
    gpu_percent: float | None = None


def measure_process(node: str = "") -> ProcessUse:
    """Measure the resource usage of this process, which takes some 50 microseconds."""
    resident, peak = _memory_bytes()
    read, written = _disk_bytes()
    gpu, gpu_peak, percent = _gpu_use()
    return ProcessUse(
        node, resident, peak, round(_cpu_s(), 3), read, written, gpu, gpu_peak, percent
    )


class CostBudget:
    """Limits the cost of measuring to a share of the time.

    Args:
        share: At most this part of the time is spent on it, from 0 to 1.
        clock: Gives the present time in seconds.
        cost_clock: Gives the processor time of the thread in seconds.
    """

    def __init__(
        self,
        share: float = 0.0025,
        clock: Callable[[], float] = time.monotonic,
        cost_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._share = share
        self._clock = clock
        self.cost_clock = cost_clock
        self._due_at = 0.0

    @property
    def is_due(self) -> bool:
        """Return whether resource usage may be measured again within its budget of time."""
        return self._clock() >= self._due_at

    def spend(self, began: float) -> None:
        """Postpone the next measurement of resource usage the longer the more this one has cost."""
        self._due_at = self._clock() + (self.cost_clock() - began) / self._share


# Growth that is worth a record within an epoch: this part, and so many bytes.
_GROWN, _GROWN_BYTES = 1.1, 32 << 20
_LOOK_EVERY_S = 0.25


class MemoryWatch:
    """Calls a function when the memory of this process has grown, from a thread of its own.

    So that the last record before the kernel kills the process for lack of memory shows it.

    Args:
        grown: Is called each time that the memory is a tenth, and 32 MiB, more than the last time.
        every_s: How often to look.
    """

    def __init__(self, grown: Callable[[], None], every_s: float = _LOOK_EVERY_S) -> None:
        self._grown = grown
        self._every_s = every_s
        self._known_bytes = _resident_bytes()
        self._closing = threading.Event()
        if self._known_bytes:
            threading.Thread(target=self._watch, name="jobrun-memory", daemon=True).start()

    def close(self) -> None:
        """Stop the thread that watches the memory usage of this process."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(self._every_s):
            resident = _resident_bytes()
            if resident > self._known_bytes * _GROWN + _GROWN_BYTES:
                self._known_bytes = resident
                self._grown()


def process_start(pid: int) -> float:
    """Return when a process started, on the monotonic clock, to count its resource usage."""
    now = time.monotonic()
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - cheap
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return now
    return now - max(0.0, age_s)


def _memory_bytes() -> tuple[int, int]:
    """Measure this process's memory usage in bytes: resident now, and its peak."""
    text = _read("/proc/self/status")
    if not text:
        usage = _rusage()
        # In KiB, but on macOS in bytes.
        unit = 1 if sys.platform == "darwin" else 1024
        return 0, usage[1] * unit
    return _status_bytes(text, b"VmRSS:"), _status_bytes(text, b"VmHWM:")


def _status_bytes(text: bytes, name: bytes) -> int:
    _, _, behind = text.partition(name)
    words = behind[:40].split()
    return int(words[0]) << 10 if words and words[0].isdigit() else 0


def _resident_bytes() -> int:
    words = _read("/proc/self/statm").split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if len(words) > 1 else 0


def _disk_bytes() -> tuple[int, int]:
    lines = _read("/proc/self/io").split(b"\n")
    counts = dict(line.split(b": ") for line in lines if b": " in line)
    return int(counts.get(b"read_bytes", 0)), int(counts.get(b"write_bytes", 0))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a third of the time
            return file.read()
    except OSError:
        return b""


def _cpu_s() -> float:
    return _rusage()[0] or time.process_time()


def _rusage() -> tuple[float, int]:
    """Measure processor seconds, with those of ended children, and peak memory of this process."""
    try:
        import resource  # noqa: PLC0415 - not on all platforms
    except ImportError:
        return 0.0, 0
    used = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + ended.ru_utime + ended.ru_stime, used.ru_maxrss


def _gpu_use() -> tuple[int, int, float | None]:
    """Measure GPU memory, its peak and GPU load by torch or pynvml, where imported already."""
    torch, nvml = sys.modules.get("torch"), sys.modules.get("pynvml")
    unknown: tuple[int, int, float | None] = (0, 0, None)
    # Libraries that are half imported, drivers that are gone: that must not end a run.
    with contextlib.suppress(Exception):
        cuda = getattr(torch, "cuda", None)
        if cuda is not None and cuda.is_initialized():
            return _torch_use(cuda, nvml)
        if nvml is not None:
            return _nvml_use(nvml)
    return unknown


def _torch_use(cuda: Any, nvml: Any) -> tuple[int, int, float | None]:
    devices = [device for device in range(cuda.device_count()) if cuda.max_memory_reserved(device)]
    percent = None
    if nvml is not None and devices:
        with contextlib.suppress(Exception):
            percent = sum(cuda.utilization(device) for device in devices) / len(devices)
    held = sum(cuda.memory_reserved(device) for device in devices)
    return held, sum(cuda.max_memory_reserved(device) for device in devices), percent


def _nvml_use(nvml: Any) -> tuple[int, int, float | None]:
    pid, busy, held = os.getpid(), [], 0
    for number in range(nvml.nvmlDeviceGetCount()):
        device = nvml.nvmlDeviceGetHandleByIndex(number)
        used = [
            process.usedGpuMemory or 0
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(device)
            if process.pid == pid
        ]
        if used:
            held += sum(used)
            busy.append(nvml.nvmlDeviceGetUtilizationRates(device).gpu)
    return held, held, sum(busy) / len(busy) if busy else None


def peak_memory_bytes(max_rss: int) -> int:
    """Convert the peak memory usage in ``ru_maxrss`` to bytes: from KiB, on macOS from bytes."""
    return max_rss if sys.platform == "darwin" else max_rss << 10
