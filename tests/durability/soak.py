"""A run of very many tiny epochs, and what its process and its directory hold meanwhile."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jobrun
from jobrun.core.events import EpochEnded, Event

SPEC = """\
jobrun: 1
name: soak
seed: 3
nodes: {left: {}, right: {}}
init:
  - {task: a, node: left, steps: ["w = zeros(8)"]}
  - {task: b, node: right, steps: ["v = ones(4)"]}
epoch:
  - {task: c, node: left, steps: ["w = 0.9 * w + rng.normal(size=8)"]}
  - {task: d, node: right, steps: ["v = 0.9 * v + rng.normal(size=4)"]}
metrics: {top: max(w)}
stop: [{epochs: 1000000}]
checkpoint: {keep: {last: 3}}
"""
# Where saving is no matter of a disk, which would only make it slow.
_MEMORY = Path("/dev/shm")
# Of so many epochs in a row the least counts: a save may go on beside any of them.
_WINDOW = 8
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """What there is after an epoch, the least of a few in a row.

    Attributes:
        epoch: The first of them.
        descriptors: Open ones of the process.
        threads: Of the process.
        memory_bytes: Of it that is in memory.
        entries: Files and directories of the run.
    """

    epoch: int
    descriptors: int
    threads: int
    memory_bytes: int
    entries: int


class Sampler:
    """Listens to a run, and counts every so many epochs."""

    def __init__(self, folder: Path, every: int) -> None:
        self._folder = folder
        self._every = every
        self._window: list[Sample] = []
        self.samples: list[Sample] = []

    def hear(self, event: Event) -> None:
        """Count, if it is the end of an epoch whose turn it is."""
        if not isinstance(event, EpochEnded) or event.epoch < self._every:
            return
        if event.epoch % self._every < _WINDOW:
            self._window.append(_count(event.epoch, self._folder))
        elif self._window:
            self.samples.append(_least(self._window))
            self._window = []


def soak(epochs: int, samples: int = 10) -> list[Sample]:
    """Run so many epochs in this process, and count so often."""
    beneath = _MEMORY if _MEMORY.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=beneath))
    try:
        spec = folder / "soak.yaml"
        spec.write_text(SPEC)
        sampler = Sampler(folder, epochs // samples)
        options = jobrun.RunOptions(run_dir=folder / "runs", epochs=epochs + _WINDOW)
        result = jobrun.run(str(spec), options, listener=sampler.hear)
        assert result.epoch == epochs + _WINDOW, result
        return sampler.samples
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def growth(samples: list[Sample]) -> dict[str, int]:
    """By how much each count is larger at the end than when a third was over; by its name."""
    settled, last = samples[len(samples) // 3], samples[-1]
    names = ("descriptors", "threads", "memory_bytes", "entries")
    return {name: getattr(last, name) - getattr(settled, name) for name in names}


def _count(epoch: int, folder: Path) -> Sample:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(
        epoch,
        _length("/proc/self/fd"),
        _length("/proc/self/task"),
        pages * _PAGE_BYTES,
        sum(1 for _ in _entries(folder)),
    )


def _length(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def _entries(folder: Path) -> Iterator[str]:
    for _, folders, files in os.walk(folder):
        yield from folders
        yield from files


def _least(window: list[Sample]) -> Sample:
    return Sample(
        window[0].epoch,
        min(sample.descriptors for sample in window),
        min(sample.threads for sample in window),
        min(sample.memory_bytes for sample in window),
        min(sample.entries for sample in window),
    )
