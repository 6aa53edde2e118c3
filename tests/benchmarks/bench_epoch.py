"""What an epoch costs beside its work: trivial, ten thousand times, and with a checkpoint.

Run as ``python -m tests.benchmarks.bench_epoch``.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from msgspec.structs import replace

import jobrun
from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES, digest
from jobrun.checkpoint.write.direct_io import FileWriter, aligned
from jobrun.core.events import CheckpointTimes, EpochEnded
from jobrun.core.files.disk import sync_data, sync_directory
from jobrun.core.resource_usage import CostBudget
from jobrun.core.system_calls import start_writing
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.types import Job
from jobrun.runner.saving.background_thread import BackgroundThread
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from tests.benchmarks.ratios import medians, show, verdict

NO_CHECKPOINT = CheckpointPolicy(enabled=False)
_KEPT = 3
# Of the runs that show what a save adds: each fourth epoch is saved, so often, and each has so many
# products of matrices. Two epochs take longer than a save, but not far: what disturbs the machine
# grows with them, and what a save adds does not.
_EVERY, _SAVES, _PRODUCTS = 4, 16, 8
# What sets the floor for an epoch that is saved.
_BARE = {
    "an epoch, saved at the boundary": "floor: the calls of a commit and a removal",
    "an epoch, saved beside the run": "floor: the same in another thread",
}
_LEAST_ADDED = "floor: that, and one thread that writes them"
SMALL = ("x = x + 1.0", "a = a * 0.5 + 1.0", "b = b + x")


def job(statements: tuple[str, ...] = SMALL[:1]) -> Job:
    """A job of one task over three small blobs."""
    start = jobrun.Task(
        "start", "local", jobrun.steps("x = 0.0", "a = zeros(100)", "b = zeros((8, 8))")
    )
    step = jobrun.Task("step", "local", jobrun.steps(*statements))
    small_job = jobrun.Job(
        "small",
        jobrun.Cluster((jobrun.Node("local"),)),
        jobrun.TaskGroup("init", (start,)),
        jobrun.TaskGroup("epoch", (step,)),
        stop=(jobrun.StopAfterEpochs(1),),
    )
    return jobrun.prepare(small_job).job


def epoch_times(
    measured_job: Job,
    policy: CheckpointPolicy,
    epochs: int,
    folder: str,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Seconds from the end of one epoch to the end of the next, in a run of the whole job."""
    ended_at: list[float] = []

    def note(event: object) -> None:
        if isinstance(event, EpochEnded):
            ended_at.append(clock())

    whole = replace(measured_job, checkpoint=policy, stop=(jobrun.StopAfterEpochs(epochs),))
    options = jobrun.RunOptions(run_dir=Path(folder))
    jobrun.run(whole, options, resume="never", listener=note)
    return [after - before for before, after in itertools.pairwise(ended_at)]


def bench_trivial(folder: str) -> None:
    """One trivial epoch against the same addition in a function."""
    small_job = job()
    session = ThreadsSession()
    session.open(small_job.cluster, RunContext(0, folder, folder))
    session.run(small_job.init, 0, {})
    keep = {"local": ("a", "b", "x")}
    blobs = {"x": 0.0}
    numbers = itertools.count(1)

    def function() -> None:
        blobs["x"] = blobs["x"] + 1.0

    def epoch() -> None:
        session.run(small_job.epoch, next(numbers), {})
        session.settle(keep)

    seconds = medians({"a Python function": function, "session: run and settle": epoch}, calls=500)
    session.close()
    runs = [
        statistics.median(epoch_times(small_job, NO_CHECKPOINT, 1_000, folder)) for _ in range(5)
    ]
    seconds["runner: a whole epoch, no checkpoint"] = statistics.median(runs)
    show("trivial epoch", seconds, "a Python function")
    more_us = (seconds["runner: a whole epoch, no checkpoint"] - seconds["a Python function"]) * 1e6
    print(f"  {'microseconds more than the function':44} {more_us:12,.1f}{verdict(more_us, 100)}")


def bench_many() -> None:
    """Whether the ten-thousandth epoch costs what the first did.

    In memory where there is such a file system, and in seconds of the processor: a disk's
    moods, and what else the machine does, would hide what grows.
    """
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        _print_growth(folder)


def _memory() -> str | None:
    """Return a directory in memory, or None where there is none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _print_growth(folder: str) -> None:
    print("\nan epoch's cost over 10,000 epochs")
    for name, policy in (
        ("no checkpoint", NO_CHECKPOINT),
        ("checkpoint, keep last 3", CheckpointPolicy(keep_last=3, every_epochs=1)),
    ):
        times = epoch_times(job(SMALL), policy, 10_000, folder, time.process_time)
        first, last = times[:1_000], times[-1_000:]
        ratio = statistics.mean(last) / statistics.mean(first)
        middle = statistics.median(last) / statistics.median(first)
        print(
            f"  {name:26} first {statistics.mean(first) * 1e6:10,.1f} us"
            f"  last {statistics.mean(last) * 1e6:10,.1f} us  {ratio:5.2f} x"
            f"  (medians {middle:5.2f} x){verdict(middle, 1.1)}"
        )


def bench_usage(folder: str) -> None:
    """What recording memory, processor and time costs: the time in records, and in looks for one.

    By the clock of the records: two runs differ by more anyway.
    """
    small_job, epochs = job(SMALL), 10_000
    spent_s = 0.0
    spend = CostBudget.spend

    def note(budget: CostBudget, began: float) -> None:
        nonlocal spent_s
        spent_s += budget.cost_clock() - began
        spend(budget, began)

    budget = CostBudget()
    budget.spend(budget.cost_clock() - 1.0)
    look_s = medians({"look": lambda: budget.is_due}, calls=10_000)["look"]
    seconds: dict[str, list[float]] = {"without records": [], "with records": []}
    CostBudget.spend = note  # type: ignore[method-assign]
    for _ in range(5):
        spent_s = 0.0
        began = time.perf_counter()
        epoch_times(small_job, NO_CHECKPOINT, epochs, folder)
        total_s = time.perf_counter() - began
        seconds["without records"].append((total_s - spent_s) / epochs - look_s)
        seconds["with records"].append(total_s / epochs)
    CostBudget.spend = spend  # type: ignore[method-assign]
    middle = {name: statistics.median(times) for name, times in seconds.items()}
    show("records of usage, an epoch", middle, "without records", {"with records": 1.005})


def write_raw(folder: Path, content: bytes) -> None:
    """The least that makes bytes durable under a name."""
    staged = folder / "staged"
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(descriptor, content)
    os.fsync(descriptor)
    os.close(descriptor)
    staged.rename(folder / "whole")
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


class BareCommits:
    """The system calls of the commit protocol and nothing else: they set the floor.

    Args:
        folder: Made here.
        content: Of the one file of each epoch.
        manifest: Of its manifest.
    """

    def __init__(self, folder: Path, content: bytes, manifest: bytes) -> None:
        self._root = folder / "epochs"
        self._root.mkdir(parents=True)
        self._content, self._manifest = content, manifest
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._journal = os.open(folder / "journal", flags)
        self._epochs = 0

    def write(self) -> None:
        """Commit an epoch into the place of a removed one, acknowledge it, and remove another."""
        self._epochs += 1
        staged, epoch = self._root / "staged", self._root / str(self._epochs)
        # Removed by the one before last: what the last one has synced.
        removed = self._root / f"-{self._epochs - _KEPT - 2}"
        if removed.exists():
            removed.rename(staged)
        else:
            staged.mkdir()
        file = _open_to_write(staged / "local.h5", self._content)
        os.fsync(file)
        os.close(file)
        manifest = _open_to_write(staged / "manifest.json", self._manifest)
        start_writing(manifest)
        sync_directory(staged)
        sync_data(manifest)
        os.close(manifest)
        staged.rename(epoch)
        sync_directory(self._root)
        os.write(self._journal, b"x" * 119)
        os.fsync(self._journal)
        old = self._epochs - _KEPT
        if old > 0:
            (self._root / str(old)).rename(self._root / f"-{old}")


def _open_to_write(path: Path, content: bytes) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(descriptor, content)
    os.ftruncate(descriptor, len(content))
    return descriptor


def bench_checkpoint(folder: str) -> None:
    """A checkpointed epoch against the raw writing of as many bytes, turn by turn.

    Beside it two parts that make up the whole: the system calls of the protocol (the node's file;
    the manifest, together with its directory; the directory above it; and the journal are synced,
    one after the other, for each promises what the next one builds on), and the processor's time of
    the same epochs in memory. Beside the run, epochs as short as these wait for another thread.
    """
    raw: list[float] = []
    bare: dict[str, list[float]] = {name: [] for name in _BARE.values()}
    thread = BackgroundThread("bare")
    epochs: dict[str, list[float]] = {"at the boundary": [], "beside the run": []}
    size = 0
    for _ in range(7):
        for variant, times in epochs.items():
            policy = CheckpointPolicy(
                keep_last=_KEPT, every_epochs=1, asynchronous=variant.startswith("beside")
            )
            times.append(statistics.median(epoch_times(job(SMALL), policy, 31, folder)))
        files = sorted(Path(folder).glob("small/*/checkpoints/epoch-000031/*"))
        contents = [path.read_bytes() for path in files[-2:]]
        size = sum(map(len, contents))
        commits = BareCommits(Path(folder, f"bare{len(raw)}"), *contents)
        raw.append(_median_of(partial(write_raw, Path(folder), b"x" * size)))
        acts = (commits.write, partial(_write_beside, commits, thread))
        for times, act in zip(bare.values(), acts, strict=True):
            times.append(_median_of(act))
    thread.close()
    with tempfile.TemporaryDirectory(dir=_memory()) as memory:
        policy = CheckpointPolicy(keep_last=_KEPT, every_epochs=1, asynchronous=False)
        times = epoch_times(job(SMALL), policy, 501, memory, time.process_time)
    seconds = {
        f"write, fsync, rename, fsync ({size} bytes)": statistics.median(raw),
        **{name: statistics.median(times) for name, times in bare.items()},
        "the processor's time of such an epoch": statistics.mean(times),
        **{
            f"an epoch, saved {variant}": statistics.median(times)
            for variant, times in epochs.items()
        },
    }
    aims = dict.fromkeys(_BARE, 3.5)
    show("checkpoint of a few small blobs", seconds, next(iter(seconds)), aims, _BARE)


def _write_beside(commits: BareCommits, thread: BackgroundThread) -> None:
    """Let another thread commit an epoch, and wait for it, as a run of short epochs does."""
    thread.start(lambda _: commits.write())
    thread.wait(lambda: False)


def _median_of(act: Callable[[], object]) -> float:
    times = []
    for _ in range(30):
        begun = time.perf_counter()
        act()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def large_job(blobs: int, items: int) -> Job:
    """A job that changes every one of its blobs in place, and then computes for a while."""
    names = [f"b{number}" for number in range(blobs)]
    start = jobrun.Task("start", "local", jobrun.steps(*(f"{n} = ones({items})" for n in names)))
    work = ("m = ones((700, 700))", *("m = m @ m * 1e-3",) * _PRODUCTS)
    step = jobrun.Task("step", "local", jobrun.steps(*(f"{n} += 0.5" for n in names), *work))
    built = jobrun.Job(
        "large",
        jobrun.Cluster((jobrun.Node("local"),)),
        jobrun.TaskGroup("init", (start,)),
        jobrun.TaskGroup("epoch", (step,)),
        stop=(jobrun.StopAfterEpochs(1),),
    )
    return jobrun.prepare(built).job


def saves_of(
    measured_job: Job, asynchronous: bool, folder: str
) -> tuple[list[CheckpointTimes], list[float]]:
    """What the saves of a run took, and for each how many seconds it added to the run.

    Every fourth epoch is saved: what it and the next one take, less what the two behind them take.
    The machine's other load is about the same for both.
    """
    saves: list[CheckpointTimes] = []
    ended_at: list[float] = []

    def note(event: object) -> None:
        if isinstance(event, CheckpointTimes):
            saves.append(event)
        elif isinstance(event, EpochEnded):
            ended_at.append(time.perf_counter())

    policy = CheckpointPolicy(keep_last=2, asynchronous=asynchronous, every_epochs=_EVERY)
    epochs = _EVERY * (_SAVES + 2) + 1
    whole = replace(measured_job, checkpoint=policy, stop=(jobrun.StopAfterEpochs(epochs),))
    jobrun.run(whole, jobrun.RunOptions(run_dir=Path(folder)), resume="never", listener=note)
    # Of the second epoch, the third, …; the first two saves are epoch 0 and that of the layout.
    took = [after - before for before, after in itertools.pairwise(ended_at)]
    added = [
        sum(took[at : at + 2]) - sum(took[at + 2 : at + 4])
        for at in range(2 * _EVERY - 2, len(took) - 3, _EVERY)
    ]
    return saves[2 : 2 + len(added)], added


def work(arrays: list[Any]) -> None:
    """Compute what an epoch of ``large_job`` does."""
    for array in arrays:
        np.add(array, 0.5, out=array)
    matrix = np.ones((700, 700))
    for _ in range(_PRODUCTS):
        matrix = matrix @ matrix * 1e-3


def least_added_s(blobs: int, items: int, folder: str) -> tuple[float, float]:
    """Seconds to copy as many arrays, one by one, and what the least of a save beside work adds.

    What a task changes in place must be copied before, into memory that is there. Then one thread
    digests all of the copies, and writes them in one piece over a file of the same size. It waits
    for the disk most of the time, but takes a processor from the work in between.
    """
    arrays = [np.ones(items) for _ in range(blobs)]
    memory = aligned(blobs * items * 8)
    copies, path = memory.view(np.float64), Path(folder, "least")
    path.write_bytes(memory)

    def write() -> None:
        for at in range(0, memory.size, BLOCK_BYTES):
            digest(memory[at : at + BLOCK_BYTES])
        descriptor = os.open(path, os.O_RDWR)
        FileWriter(descriptor, direct=True).write(memory, 0)
        os.fsync(descriptor)
        os.close(descriptor)

    copying, added = [], []
    for _ in range(2 * _SAVES):
        begun = time.perf_counter()
        work(arrays)
        alone = time.perf_counter()
        np.concatenate(arrays, out=copies)
        copied = time.perf_counter()
        thread = Thread(target=write)
        thread.start()
        work(arrays)
        ended = time.perf_counter()
        thread.join()
        copying.append(copied - alone)
        added.append((ended - alone) - (alone - begun))
    return statistics.median(copying), statistics.median(added)


def bench_beside(folder: str) -> None:
    """How long a save beside the run makes it wait, against how long the save takes."""
    for title, shape in (
        ("100 MiB in 4 blobs, all changed in place", (4, 25 << 17)),
        ("10,000 blobs of 4 KiB, all changed in place", (10_000, 512)),
    ):
        measured_job = large_job(*shape)
        blocking_saves: list[CheckpointTimes] = []
        async_saves: list[CheckpointTimes] = []
        added: dict[str, list[float]] = {"at the boundary": [], "beside it": []}
        for _ in range(2):
            for variant, saves in (("at the boundary", blocking_saves), ("beside it", async_saves)):
                found_here, added_here = saves_of(measured_job, variant == "beside it", folder)
                saves.extend(found_here)
                added[variant].extend(added_here)
        save_s = statistics.median(save.stall_s for save in blocking_saves)
        copying_s, least_s = least_added_s(*shape, folder)
        seconds = {
            "a save": save_s,
            "a copy of each blob": copying_s,
            _LEAST_ADDED: least_s,
            "the blocking call": statistics.median(save.hold_s for save in async_saves),
            "what tasks wait for copies": statistics.median(
                max(node.gate_s for node in save.nodes) for save in async_saves
            ),
            "the wait for the save before": statistics.median(save.wait_s for save in async_saves),
            **{
                f"added by a save {variant}": statistics.median(times)
                for variant, times in added.items()
            },
        }
        name = "added by a save beside it"
        show(title, seconds, "a save", {name: 0.3}, {name: _LEAST_ADDED})


def main() -> None:
    """Print all tables."""
    with tempfile.TemporaryDirectory() as folder:
        bench_trivial(folder)
        bench_usage(folder)
        bench_checkpoint(folder)
        bench_beside(folder)
    bench_many()


if __name__ == "__main__":
    main()
