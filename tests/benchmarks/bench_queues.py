"""Records through a pipeline of three stages against bare threads with ``queue.Queue``.

Both do the same numpy work on the same batches, hand them on in queues of the same capacity,
and end by a mark in the queue or by its close. Run as ``python -m tests.benchmarks.bench_queues``.
"""

from __future__ import annotations

import itertools
import queue
import tempfile
import threading
from pathlib import Path

import numpy as np

from jobrun.compile.pipeline import compile_job
from jobrun.runtime.context.bounded_queue import SpscQueue
from jobrun.runtime.context.cancel import CancelScope
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.spec.load import load_spec
from tests.benchmarks.ratios import medians, show

RECORDS = 3_000
_BLOCK_BYTES = 1 << 20
CAPACITY = 100
# By the length of a record.
_AIMS = {64: 0.8, 1_024: 0.8, 16_384: 1.0}
SPEC = """\
jobrun: 1
name: bench
readers: {{rows: {{counter: {{stop: {records}}}, fields: [n]}}}}
queues: {{a: {{capacity: {capacity}}}, b: {{capacity: {capacity}}}}}
init: [{{task: start, steps: ["total = zeros({rows})", "X = arange({rows}.0)"]}}]
epoch:
  - {{task: make, read: rows, steps: [x = X + n], write: {{a: [x]}}}}
  - {{task: scale, read: a, steps: [y = x * 0.5], write: {{b: [y]}}}}
  - {{task: add, read: b, steps: [total += y]}}
stop: [{{epochs: 1}}]
"""

ROWS = """\
jobrun: 1
name: rows
readers: {{rows: {{blobs: {{x: data}}, batch: {batch}}}}}
queues: {{a: {{capacity: 100}}, b: {{capacity: 100}}}}
init: [{{task: start, steps: ["total = zeros({width})", "data = ones(({rows}, {width}))"]}}]
epoch:
  - {{task: make, read: rows, steps: [x = x + 1.0], write: {{a: [x]}}}}
  - {{task: scale, read: a, steps: [y = x * 0.5], write: {{b: [y]}}}}
  - {{task: add, read: b, steps: ["total += sum(y, axis=0)"]}}
stop: [{{epochs: 1}}]
"""

REGRESSION = """\
jobrun: 1
name: regression
readers: {{train: {{npz: data.npz, fields: [x, y], batch: {batch}}}}}
queues: {{batches: {{capacity: 16}}}}
init: [{{task: start, steps: ["w = zeros({width})"]}}]
epoch:
  - {{task: prepare, read: train, steps: [x = (x - 8) / 4], write: {{batches: [x, y]}}}}
  - task: descend
    read: batches
    steps:
      - p = 1 / (1 + exp(-x @ w))
      - w -= 0.1 * (x.T @ (p - y) / len(y))
stop: [{{epochs: 1}}]
"""


def bare(rows: int) -> None:
    """The pipeline as a person writes it."""
    first: queue.Queue[np.ndarray | None] = queue.Queue(CAPACITY)
    second: queue.Queue[np.ndarray | None] = queue.Queue(CAPACITY)
    base, total = np.arange(float(rows)), np.zeros(rows)

    def make() -> None:
        for number in range(RECORDS):
            first.put(base + number)
        first.put(None)

    def scale() -> None:
        while (x := first.get()) is not None:
            second.put(x * 0.5)
        second.put(None)

    def add() -> None:
        nonlocal total
        while (y := second.get()) is not None:
            total += y

    _together(make, scale, add)


def lines(rows: int) -> None:
    """The same threads with the queues that tasks have: the floor of what tasks can take."""
    scope = CancelScope()
    first, second = SpscQueue(CAPACITY), SpscQueue(CAPACITY)
    base, total = np.arange(float(rows)), np.zeros(rows)

    def make() -> None:
        put = first.writer(scope)
        for number in range(RECORDS):
            put(number, (base + number,))
        first.leave_writer()

    def scale() -> None:
        put = second.writer(scope)
        for number, (x,) in first.records(scope):
            put(number, (x * 0.5,))
        second.leave_writer()

    def add() -> None:
        nonlocal total
        for _, (y,) in second.records(scope):
            total += y

    _together(make, scale, add)


def _together(*works) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bench(rows: int, folder: str) -> None:
    """Print the times of one record."""
    path = Path(folder, f"job{rows}.yaml")
    path.write_text(SPEC.format(records=RECORDS, capacity=CAPACITY, rows=rows))
    job = compile_job(load_spec(str(path))).job
    session = ThreadsSession()
    session.open(job.cluster, RunContext(0, folder, folder))
    session.run(job.init, 0, {})
    numbers = itertools.count(1)
    times = medians({
        "threads with queue.Queue": lambda: bare(rows),
        "floor: such threads with jobrun's queues": lambda: lines(rows),
        "a pipeline of tasks": lambda: session.run(job.epoch, next(numbers), {}),
    })  # fmt: skip
    session.close()
    each = {name: seconds / RECORDS for name, seconds in times.items()}
    show(
        f"{RECORDS} records of {rows} floats, three stages, each",
        each,
        "threads with queue.Queue",
        {"a pipeline of tasks": _AIMS[rows]},
    )


def bench_rows(folder: str) -> None:
    """Print the times of one row, where rows are handed on one by one or in batches."""
    rows, width, batch = 20_000, 16, 50
    path = Path(folder, "rows.yaml")
    path.write_text(ROWS.format(rows=rows, width=width, batch=batch))
    job = compile_job(load_spec(str(path))).job
    session = ThreadsSession()
    session.open(job.cluster, RunContext(0, folder, folder))
    session.run(job.init, 0, {})
    data, numbers = np.ones((rows, width)), itertools.count(1)
    times = medians({
        "threads with queue.Queue, row by row": lambda: by_row(data),
        f"a pipeline of tasks, {batch} rows a record": lambda: session.run(
            job.epoch, next(numbers), {}),
    })  # fmt: skip
    session.close()
    each = {name: seconds / rows for name, seconds in times.items()}
    show(
        f"{rows} rows of {width} floats, three stages, each",
        each,
        "threads with queue.Queue, row by row",
        {f"a pipeline of tasks, {batch} rows a record": 0.8},
    )


def by_row(data: np.ndarray) -> None:
    """Three stages that hand on a row at a time."""
    first: queue.Queue[np.ndarray | None] = queue.Queue(CAPACITY)
    second: queue.Queue[np.ndarray | None] = queue.Queue(CAPACITY)
    total = np.zeros(data.shape[1])

    def make() -> None:
        for row in data:
            first.put(row + 1.0)
        first.put(None)

    def scale() -> None:
        while (x := first.get()) is not None:
            second.put(x * 0.5)
        second.put(None)

    def add() -> None:
        nonlocal total
        while (y := second.get()) is not None:
            total += y

    _together(make, scale, add)


def bench_regression(folder: str, rows: int, width: int, batch: int) -> None:
    """Print the times of one epoch of logistic regression, by hand and through reader and pipe."""
    random = np.random.default_rng(3)
    x = random.normal(8.0, 4.0, size=(rows, width))
    y = (x @ random.normal(size=width) > 0).astype(float)
    np.savez(Path(folder, "data.npz"), x=x, y=y)
    path = Path(folder, "regression.yaml")
    path.write_text(REGRESSION.format(width=width, batch=batch))
    job = compile_job(load_spec(str(path))).job
    session = ThreadsSession()
    session.open(job.cluster, RunContext(0, folder, folder))
    session.run(job.init, 0, {})
    numbers = itertools.count(1)
    w = np.zeros(width)

    def plain() -> None:
        nonlocal w
        with np.load(Path(folder, "data.npz")) as data:
            xs, ys = data["x"], data["y"]
        for at in range(0, rows, batch):
            part, wanted = (xs[at : at + batch] - 8) / 4, ys[at : at + batch]
            p = 1 / (1 + np.exp(-part @ w))
            w -= 0.1 * (part.T @ (p - wanted) / len(wanted))

    def threads() -> None:
        nonlocal w
        handed: queue.Queue[tuple[np.ndarray, np.ndarray] | None] = queue.Queue(16)

        def prepare() -> None:
            with np.load(Path(folder, "data.npz")) as data:
                xs, ys = data["x"], data["y"]
            for at in range(0, rows, batch):
                handed.put(((xs[at : at + batch] - 8) / 4, ys[at : at + batch]))
            handed.put(None)

        def descend() -> None:
            nonlocal w
            while (record := handed.get()) is not None:
                part, wanted = record
                p = 1 / (1 + np.exp(-part @ w))
                w -= 0.1 * (part.T @ (p - wanted) / len(wanted))

        _together(prepare, descend)

    x.tofile(Path(folder, "x"))

    def in_blocks() -> None:
        nonlocal w
        block = np.empty((_BLOCK_BYTES // (8 * width * batch) * batch, width))
        with open(Path(folder, "x"), "rb", buffering=0) as file:  # noqa: PTH123
            for start in range(0, rows, len(block)):
                many = file.readinto(block) // (8 * width)
                for at in range(0, many, batch):
                    part = (block[at : min(at + batch, many)] - 8) / 4
                    wanted = y[start + at : start + at + batch]
                    p = 1 / (1 + np.exp(-part @ w))
                    w -= 0.1 * (part.T @ (p - wanted) / len(wanted))

    times = medians({
        "a plain loop of numpy": plain,
        "floor: that loop, reading in blocks": in_blocks,
        "two threads with queue.Queue": threads,
        "reader, queue and two tasks": lambda: session.run(job.epoch, next(numbers), {}),
    })  # fmt: skip
    session.close()
    title = f"logistic regression, {rows} rows of {width} in batches of {batch}, one epoch"
    show(title, times, "a plain loop of numpy", {"reader, queue and two tasks": 0.8})


def main() -> None:
    """Print a table for each size of a record."""
    with tempfile.TemporaryDirectory() as folder:
        for rows in (64, 1_024, 16_384):
            bench(rows, folder)
        bench_rows(folder)
        bench_regression(folder, 100_000, 64, 64)
        bench_regression(folder, 100_000, 64, 512)


if __name__ == "__main__":
    main()
