"""What ``--profile`` costs: groups run with a meter against the same without one.

Run as ``python -m tests.benchmarks.bench_profile``. It is CPU time of the process. And what
hogwild instances gain on two cores.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import jobrun
from jobrun.runner.identity.blas_libraries import set_blas_threads
from jobrun.runtime.codegen.step_meter import Meter
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from tests.benchmarks.ratios import medians, show

# Name: calls that make one measurement, and the job.
_CASES = {
    "tiny operator, 200,000 passes": (
        1, "x = zeros(3), one = ones(3)", "{loop: 200000, steps: [x += one]}",
    ),
    "tiny operator with iter, 200,000 passes": (
        1, "x = zeros(3)", "{loop: 200000, steps: [x += iter]}",
    ),
    "ten tiny operators, 20,000 passes": (
        1, "x = zeros(3), one = ones(3)",
        "{loop: 20000, steps: [x += one, b = x * 2, c = b + x, d = c - b, e = d * c, f = e + 1, "
        "g = f - e, h = g * g, k = h + d, x = k - h]}",
    ),
    "logistic regression 10,000 x 64, batch 100": (
        50,
        '"X = rng.normal(size=(10000, 64))", "y = float64(X[:, 0] > 0)", w = zeros(64)',
        '{loop: 100, as: i, steps: ["a = X[i * 100:(i + 1) * 100]", "t = y[i * 100:(i + 1) * 100]",'
        ' "p = 1 / (1 + exp(-(a @ w)))", "w -= 0.1 * (a.T @ (p - t)) / 100"]}',
    ),
}  # fmt: skip
_PIECE = 1 << 15
_HOGWILD = "{loop: WORK, steps: ['x = sqrt(x * x + w)']}"


def main() -> None:
    """Print all ratios."""
    set_blas_threads(1)
    for name, (calls, init, steps) in _CASES.items():
        epoch = f"[{{task: t, steps: [{steps}]}}]"
        variants = {"without": _act(init, epoch), "--profile": _act(init, epoch, Meter())}
        seconds = medians(variants, rounds=15, calls=calls, clock=time.process_time)
        show(name, seconds, "without", {"--profile": 1.1})
    init = "w = ones(200000)"
    variants = {f"{count} instances": _act(init, _shared(count)) for count in (1, 2)}
    variants["floor: two bare threads, piece by piece"] = _two_threads
    show(
        "hogwild: the same work shared out, on 2 cores",
        medians(variants),
        "1 instances",
        {"2 instances": 0.55},
    )


def _shared(count: int) -> str:
    steps = _HOGWILD.replace("WORK", str(200 // count))
    head = f"task: t, hogwild: true, instances: {count}"
    return f"[{{{head}, steps: ['x = w * 1', {steps}, 'w += 0 * x']}}]"


def _two_threads() -> None:
    """The same by hand, in threads of which each has half of the work and memory of its own."""
    w = np.ones(200_000)

    def work() -> None:
        x, spare = w * 1, np.empty(_PIECE)
        for _ in range(100):
            for start in range(0, len(x), _PIECE):
                left_half, right_half = x[start : start + _PIECE], w[start : start + _PIECE]
                square = spare[: len(left_half)]
                np.multiply(left_half, left_half, square)
                np.add(square, right_half, square)
                np.sqrt(square, left_half)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _act(init: str, epoch: str, meter: Meter | None = None) -> Callable[[], object]:
    folder = tempfile.mkdtemp()
    path = Path(folder, "job.yaml")
    start = f"init: [{{task: start, steps: [{init}]}}]"
    path.write_text(f"jobrun: 1\nname: b\n{start}\nepoch: {epoch}\nstop: [{{epochs: 1}}]\n")
    job = jobrun.prepare(path).job
    session = ThreadsSession()
    session.open(job.cluster, RunContext(0, folder, folder, meter=meter))
    session.run(job.init, 0, {})
    numbers = itertools.count(1)
    return lambda: session.run(job.epoch, next(numbers), {})


if __name__ == "__main__":
    main()
