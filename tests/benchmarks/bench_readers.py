"""A reader against the numpy loop that a person would write over the same file; and reading ahead.

Run as ``python -m tests.benchmarks.bench_readers [GIB]``; with a number it also reads a file of
that size and tells how much the memory of the process grows.
"""

from __future__ import annotations

import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np

from jobrun.compile.pipeline import compile_job
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.spec.load import load_spec
from tests.benchmarks.ratios import medians, show

ROWS, COLUMNS, BATCH = 100_000, 64, 64

SPEC = """\
jobrun: 1
name: bench
readers: {{r: {{npz: a.npz, fields: [x, y], batch: {batch}, {keys}}}}}
init: [{{task: i, steps: ["w = zeros({columns})"]}}]
epoch:
  - task: t
    read: r
    steps: {steps}
stop: [{{epochs: 1}}]
"""
GRADIENT = ["g = x.T @ (x @ w - y) / len(y)", "w -= 0.001 * g"]


def epoch(folder: Path, keys: str, steps: list[Any], batch: int = BATCH) -> Callable[[], None]:
    """What runs one epoch of a spec that reads the file."""
    path = folder / "job.yaml"
    text = dedent(SPEC).format(batch=batch, keys=keys, columns=COLUMNS, steps=steps)
    path.write_text(text)
    job = compile_job(load_spec(str(path))).job
    session = ThreadsSession()
    session.open(job.cluster, RunContext(0, str(folder), str(folder)))
    session.run(job.init, 0, {})
    numbers = itertools.count(1)
    return lambda: (session.run(job.epoch, next(numbers), {}), None)[1]


def by_hand(folder: Path, *, shuffle: bool) -> Callable[[], None]:
    """The same by hand: arrays mapped into memory, a loop over slices of them."""
    x, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in "xy")
    w = np.zeros(COLUMNS)
    random = np.random.default_rng(0)

    def run() -> None:
        nonlocal w
        order = random.permutation(ROWS) if shuffle else None
        for at in range(0, ROWS, BATCH):
            rows = slice(at, at + BATCH) if order is None else order[at : at + BATCH]
            part, wanted = x[rows], y[rows]
            w -= 0.001 * (part.T @ (part @ w - wanted) / len(wanted))

    return run


def overlap(folder: Path) -> None:
    """A source that takes as long as the work: with reading ahead, about half the time."""
    wait_s, records = 0.002, 100

    (folder / "lib.py").write_text(
        "import time\ndef work(x):\n    time.sleep(0.002)\n    return float(x.sum())\n"
    )
    work = [{"call": "lib:work", "with": {"x": "x"}, "out": "s"}]
    ahead = epoch(folder, f"delay: 2ms, limit: {records}", work)

    def in_turn() -> None:
        for _ in range(records):
            time.sleep(wait_s)
            time.sleep(wait_s)

    seconds = medians({"wait for each record, then work": in_turn, "read ahead": ahead}, rounds=3)
    show(
        f"{records} records, 2 ms to read and 2 ms to work on",
        seconds,
        "wait for each record, then work",
        {"read ahead": 0.6},
    )


def large(folder: Path, gib: float) -> None:
    """A file larger than what the process may grow by."""
    rows = int(gib * 2**30) // (COLUMNS * 8)
    array = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float64, (rows, COLUMNS))
    array.flush()
    del array
    text = SPEC.format(batch=4096, keys="KEYS", columns=COLUMNS, steps=["s = sum(x)"])
    for keys in ("", "shuffle: true, limit: 2000"):
        changed = text.replace("npz: a.npz, fields: [x, y]", "npy: x.npy, fields: [x]")
        path = folder / "large.yaml"
        path.write_text(changed.replace("KEYS", keys))
        job = compile_job(load_spec(str(path))).job
        session = ThreadsSession()
        session.open(job.cluster, RunContext(0, str(folder), str(folder)))
        session.run(job.init, 0, {})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        session.run(job.epoch, 1, {})
        seconds = time.perf_counter() - begun
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        session.close()
        print(f"\n{gib:g} GiB, {keys or 'in order'}: {seconds:.1f} s, grown by {grown:.0f} MiB")


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        random = np.random.default_rng(1)
        x, y = random.normal(size=(ROWS, COLUMNS)), random.normal(size=ROWS)
        np.save(folder / "x.npy", x)
        np.save(folder / "y.npy", y)
        np.savez(folder / "a.npz", x=x, y=y)
        for shuffle in (False, True):
            seconds = medians({
                "numpy by hand": by_hand(folder, shuffle=shuffle),
                "reader": epoch(folder, f"shuffle: {str(shuffle).lower()}", GRADIENT),
            })  # fmt: skip
            title = f"one pass of {ROWS} rows in batches of {BATCH}, shuffled: {shuffle}"
            show(title, seconds, "numpy by hand", {"reader": 1.1})
        overlap(folder)
        if len(sys.argv) > 1:
            large(folder, float(sys.argv[1]))


if __name__ == "__main__":
    main()
