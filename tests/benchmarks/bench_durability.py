"""What it costs that nothing is lost: commits, checks at a resume, coming back, and very long runs.

Run as ``python -m tests.benchmarks.bench_durability [--soak EPOCHS]``; with it, the long run alone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import jobrun
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.events import CheckpointCommitted, Event
from jobrun.core.files.disk import sync_directory
from tests.benchmarks.bench_epoch import BareCommits
from tests.benchmarks.ratios import medians, verdict
from tests.durability.soak import growth, soak
from tests.support.command import environment
from tests.support.stored_runs import only_run

SIZES = (64 << 10, 4 << 20, 64 << 20)
ROUNDS = 5
_EPOCHS = 12
# The first epochs have none before them whose place they could take.
_FIRST = 5
_MANIFEST_BYTES = 1_400
_RECORD = 1 << 20
JOB = """\
jobrun: 1
name: bench
seed: 3
init: [{{task: start, steps: ["w = zeros({count})"]}}]
epoch: [{{task: step, steps: ["w += 1.0"]}}]
stop: [{{epochs: {epochs}}}]
checkpoint: {{every: 1ep, async: false, keep: {{last: 2}}}}
"""
CALLING = """\
jobrun: 1
name: back
seed: 3
init: [{task: start, steps: ["w = zeros(131072)"]}]
epoch:
  - task: step
    steps:
      - w += 1.0
      - {call: "note:note", with: {epoch: epoch}}
stop: [{epochs: 1000000}]
checkpoint: {every: 1ep, keep: {last: 2}}
"""
# The monotonic clock is the same for all processes.
NOTING = """\
import pathlib, time

def note(epoch):
    with pathlib.Path(__file__).with_name("noted").open("a") as file:
        file.write(f"{epoch} {time.monotonic()}\\n")
    time.sleep(0.02)
"""


def _spec(folder: Path, size: int) -> Path:
    path = folder / f"bench-{size}.yaml"
    path.write_text(JOB.format(count=size // 8, epochs=_EPOCHS))
    return path


def _commit_s(spec: Path, folder: Path) -> float:
    """Seconds from standing still to the acknowledgement, the median of a run's epochs."""
    took: list[float] = []

    def hear(event: Event) -> None:
        if isinstance(event, CheckpointCommitted) and event.epoch >= _FIRST:
            took.append(event.seconds)

    options = jobrun.RunOptions(run_dir=folder / "runs")
    jobrun.run(str(spec), options, resume="never", listener=hear)
    return statistics.median(took)


def _store_s(writer: NodeWriter, values: dict[str, np.ndarray], folder: Path) -> float:
    """Seconds of the same file without an epoch around it."""
    begun = time.perf_counter()
    writer.write(str(folder / "bare.h5"), epoch=1, run_id="bench", values=values)
    sync_directory(folder)
    took = time.perf_counter() - begun
    (folder / "bare.h5").unlink()
    return took


def _copy_s(data: bytes, folder: Path) -> float:
    """Seconds of the same bytes, written and synced."""
    begun = time.perf_counter()
    descriptor = os.open(folder / "copy", os.O_CREAT | os.O_WRONLY)
    at = memoryview(data)
    while at:
        at = at[os.write(descriptor, at) :]
    os.fsync(descriptor)
    os.close(descriptor)
    sync_directory(folder)
    took = time.perf_counter() - begun
    (folder / "copy").unlink()
    return took


def commits(folder: Path) -> None:
    """Print what an epoch costs on its way to the disk."""
    # The floor: the calls of a commit, with as many bytes, and nothing else.
    print("\na commit against the bare store, and the store against write + fsync")
    for size in SIZES:
        spec, values = _spec(folder, size), {"w": np.random.default_rng(3).random(size // 8)}
        writer, data = NodeWriter("n"), values["w"].tobytes()
        commits = BareCommits(folder / f"bare-{size}", data, b"x" * _MANIFEST_BYTES)
        rounds = []
        for _ in range(ROUNDS):
            whole = _commit_s(spec, folder)
            bare = statistics.median(_store_s(writer, values, folder) for _ in range(_EPOCHS))
            copy = statistics.median(_copy_s(data, folder) for _ in range(_EPOCHS))
            least = statistics.median(_seconds(commits.write) for _ in range(_EPOCHS))
            rounds.append((whole, bare, copy, least))
        whole, bare, copy, _ = (statistics.median(column) for column in zip(*rounds, strict=True))
        against = statistics.median(row[0] / row[1] for row in rounds)
        lower = statistics.median(row[0] / row[2] for row in rounds)
        floor = statistics.median(row[3] / row[1] for row in rounds)
        print(
            f"  {size >> 10:8,} KiB   commit {whole * 1e3:8.1f} ms   store {bare * 1e3:8.1f} ms   "
            f"write + fsync {copy * 1e3:8.1f} ms   {against:5.2f} x store{verdict(against, 2)}   "
            f"floor {floor:.2f} x   {lower:5.2f} x write"
        )


def checks(folder: Path) -> None:
    """Print how fast a resume looks at all bytes of an epoch."""
    size = SIZES[-1]
    jobrun.run(
        str(_spec(folder, size)), jobrun.RunOptions(run_dir=folder / "checked"), resume="never"
    )
    store = DirectoryStore(str(only_run(folder / "checked") / "checkpoints"))
    newest = store.epochs()[-1]
    file = next(Path(store.path(newest)).glob("*.h5"))

    def read() -> None:
        memory = bytearray(_RECORD)
        with file.open("rb", buffering=0) as source:
            while source.readinto(memory):
                pass

    def verify() -> None:
        assert store.verify(newest) is None

    seconds = medians({"read": read, "verify": verify}, rounds=9)
    rate = file.stat().st_size / seconds["verify"] / 1e9
    print(
        f"\nchecking an epoch of {size >> 20} MiB at a resume\n"
        f"  {rate:.2f} GB/s{verdict(rate, least=1)}   "
        f"{seconds['verify'] / seconds['read']:.2f} x reading it"
    )


def _noted(folder: Path, after: int) -> tuple[int, float]:
    """The first note behind so many, and how many there are; waits for it."""
    path, deadline = folder / "noted", time.monotonic() + 60
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) > after:
            return len(lines), float(lines[after].split()[1])
        time.sleep(0.002)
    raise TimeoutError(path)


def _start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def coming_back(folder: Path) -> None:
    """Print how long it takes from a SIGKILL until a resume computes again."""
    (folder / "back.yaml").write_text(CALLING)
    (folder / "note.py").write_text(NOTING)
    process = _start(folder, "-m", "jobrun", "run", "back.yaml")
    count, _ = _noted(folder, 3)
    took, bare = [], []
    for _ in range(ROUNDS + 1):
        dying = _seconds(partial(_kill, process))
        bare.append(_seconds(lambda: _start(folder, "-c", "import numpy, h5py").wait()))
        count = len((folder / "noted").read_text().splitlines())
        started = time.monotonic()
        process = _start(folder, "-m", "jobrun", "resume")
        count, begun = _noted(folder, count)
        took.append(dying + begun - started)
    _kill(process)
    ratio = statistics.median(
        back / bare_s for back, bare_s in zip(took[1:], bare[1:], strict=True)
    )
    print(
        f"\nfrom SIGKILL to computing again   (1 MiB of state)\n"
        f"  {statistics.median(took[1:]) * 1e3:.0f} ms   "
        f"{ratio:.2f} x python -c 'import numpy, h5py'"
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _seconds(act: Callable[[], object]) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


def long_run(epochs: int) -> None:
    """Print what a run of so many epochs holds on its way."""
    begun = time.monotonic()
    samples = soak(epochs)
    print(f"\n{epochs:,} tiny epochs, in {time.monotonic() - begun:.0f} s   (aim: flat)")
    print(f"  {'epoch':>9} {'descriptors':>12} {'threads':>8} {'memory':>10} {'inodes':>8}")
    for sample in samples:
        print(
            f"  {sample.epoch:9,} {sample.descriptors:12} {sample.threads:8} "
            f"{sample.memory_bytes / 1e6:7.1f} MB {sample.entries:8}"
        )
    grown = growth(samples)
    print("  growth since a third was over: " + ", ".join(f"{k} {v:,}" for k, v in grown.items()))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--soak", type=int, metavar="EPOCHS", help="run so many epochs, alone")
    epochs = parser.parse_args().soak
    if epochs:
        long_run(epochs)
        return
    with tempfile.TemporaryDirectory(prefix="jobrun-bench-") as text:
        commits(Path(text))
        checks(Path(text))
        coming_back(Path(text))


if __name__ == "__main__":
    main()
