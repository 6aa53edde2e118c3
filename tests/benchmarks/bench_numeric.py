"""Declared steps against the numpy loop a person would write, in the same process.

Run as ``python -m tests.benchmarks.bench_numeric``. Also sees that both compute the same bits.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import jobrun
from jobrun.graph.types import Job
from jobrun.runner.identity.blas_libraries import set_blas_threads
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from tests.benchmarks.ratios import medians, show

Blobs = dict[str, Any]

LOOP = """
jobrun: 1
name: loop
init: [{task: start, steps: [x = 0.5]}]
epoch: [{task: t, steps: [{loop: 1000, steps: [x = 3.7 * x * (1 - x)]}]}]
stop: [{epochs: 1}]
"""

KMEANS = """
jobrun: 1
name: kmeans
init: [{task: start, steps: ["X = rng.random((1797, 64))", "C = X[:10]", shift = inf]}]
epoch:
  - task: lloyd
    steps:
      - "d2 = sum(C * C, axis=1) - 2 * X @ C.T"
      - "label = argmin(d2, axis=1)"
      - "M = (label[:, None] == arange(10)) * 1.0"
      - n = sum(M, axis=0)
      - "Cnew = where(n[:, None] > 0, M.T @ X / maximum(n, 1)[:, None], C)"
      - "shift = max(sqrt(sum((Cnew - C) ** 2, axis=1)))"
      - C = Cnew
stop: [{epochs: 1}]
"""

LOGISTIC = """
jobrun: 1
name: logistic
init:
  - task: start
    steps:
      - X = rng.normal(size=(2000, 32))
      - y = (rng.random(2000) < 0.5) * 1.0
      - w = zeros(32)
      - loss = inf
epoch:
  - task: descend
    steps:
      - p = 1 / (1 + exp(-(X @ w)))
      - g = X.T @ (p - y) / len(y)
      - w -= 0.1 * g
      - loss = -mean(y * log(p) + (1 - y) * log(1 - p))
stop: [{epochs: 1}]
"""


def loop(b: Blobs) -> None:
    """The logistic map, a thousand times, over a Python float."""
    x = b["x"]
    for _ in range(1000):
        x = 3.7 * x * (1 - x)
    b["x"] = x


def kmeans(b: Blobs) -> None:
    """One epoch of Lloyd's algorithm."""
    points, old = b["X"], b["C"]
    d2 = np.sum(old * old, axis=1) - 2 * points @ old.T
    label = np.argmin(d2, axis=1)
    member = (label[:, None] == np.arange(10)) * 1.0
    n = np.sum(member, axis=0)
    new = np.where(n[:, None] > 0, member.T @ points / np.maximum(n, 1)[:, None], old)
    b["shift"] = np.max(np.sqrt(np.sum((new - old) ** 2, axis=1)))
    b["C"] = new


def logistic(b: Blobs) -> None:
    """One step of gradient descent."""
    inputs, y, w = b["X"], b["y"], b["w"]
    p = 1 / (1 + np.exp(-(inputs @ w)))
    w -= 0.1 * (inputs.T @ (p - y) / len(y))
    b["loss"] = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))


def compiled(text: str, folder: str) -> Job:
    """The job of a spec's text."""
    path = f"{folder}/bench.yaml"
    with open(path, "w") as file:  # noqa: PTH123
        file.write(text)
    return jobrun.prepare(path).job


def bench(text: str, by_hand: Callable[[Blobs], None], calls: int, folder: str) -> None:
    """Print both times of one epoch, over one kind of job."""
    job = compiled(text, folder)
    keep = {node: (*names,) for node, names in job.state}
    session = ThreadsSession()
    session.open(job.cluster, RunContext(0, folder, folder))
    session.run(job.init, 0, {})
    blobs = session.read("local", keep["local"])
    numbers = itertools.count(1)

    def declared() -> None:
        session.run(job.epoch, next(numbers), {})
        session.settle(keep)

    def written() -> None:
        by_hand(blobs)

    seconds = medians({"numpy by hand": written, "declared epoch": declared}, calls=calls)
    for name, value in session.read("local", keep["local"]).items():
        assert np.array_equal(value, blobs[name], equal_nan=True), name
    session.close()
    # An epoch by itself may take 100 microseconds.
    aim = 1 + 100e-6 / seconds["numpy by hand"]
    show(job.name, seconds, "numpy by hand", {"declared epoch": aim})


def main() -> None:
    """Print a table for each job."""
    set_blas_threads(1)
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        bench(LOOP, loop, 50, folder)
        bench(KMEANS, kmeans, 20, folder)
        bench(LOGISTIC, logistic, 50, folder)


if __name__ == "__main__":
    main()
