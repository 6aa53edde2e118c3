"""Nets against the numpy a person would write, in one process: time, and peak of memory.

Run as ``python -m tests.benchmarks.bench_nets [part of a name]``. Both must give the same bits.
It is CPU time of the process, but wall time of chains, which may use two processors.
Each has a floor. Of elementwise chains it is the same calls by hand, piece by piece, in one thread;
of all others the calls as they are by hand, and an epoch around them in which nothing happens.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np

import jobrun
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.identity.environment import set_blas_threads
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.values.compare import same_bits
from tests.benchmarks.nets import CASES, Blobs, Case
from tests.benchmarks.ratios import medians, verdict
from tests.benchmarks.stencils import STENCILS

_ROUND_S = 0.02
_NOTHING = "\n      - nothing = 0\n"


def spec(case: Case, epoch: str = "") -> str:
    """The spec of a case, or of one that has other steps."""
    init = "\n".join(f'      - "{line}"' for line in case.init)
    return (
        "jobrun: 1\nname: net\ninit:\n  - task: start\n    steps:\n"
        + init
        + "\nepoch:\n  - task: work\n    steps:"
        + (epoch or case.epoch)
        + "stop: [{epochs: 1}]\n"
    )


def peak(act: Callable[[], object]) -> int:
    """How much more memory than before is in use at most, in bytes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        act()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def bench(case: Case, folder: str) -> None:
    """Print the two times of one case, and their ratio and that of the peaks."""
    job, bare = (_prepared(text, folder) for text in (spec(case), spec(case, _NOTHING)))
    keep = {node: (*names,) for node, names in job.state}
    session = ThreadsSession()
    session.open(job.cluster, RunContext(0, folder, folder))
    session.run(job.init, 0, {})
    blobs: Blobs = session.read("local", keep["local"])
    numbers = itertools.count(1)

    def run(group: TaskGroup) -> None:
        session.run(group, next(numbers), {})
        session.settle(keep)

    declared, written = partial(run, job.epoch), partial(case.by_hand, blobs)
    variants = {"by hand": written, "net": declared, "floor": partial(run, bare.epoch)}
    if case.in_pieces is not None:
        # Of its own: what comes out is not compared.
        own = {name: np.copy(value) for name, value in blobs.items()}
        variants["floor"] = partial(case.in_pieces, own)
    once = medians({"by hand": written, "net": declared}, rounds=1)["by hand"]
    calls = max(1, int(_ROUND_S / once))
    clock = time.perf_counter if case.in_pieces else time.process_time
    found = medians(variants, rounds=25, calls=calls, clock=clock)
    memory = peak(written), peak(declared)
    for name, value in session.read("local", keep["local"]).items():
        assert same_bits(value, blobs[name]), name
    session.close()
    ratio, floor = (found[name] / found["by hand"] for name in ("net", "floor"))
    print(
        f"{case.name:32} {found['by hand'] * 1e6:12,.1f} us {ratio:8.3f} x  "
        f"{verdict(ratio, case.aim)}   peak {memory[0] / 1e6:8.3f} MB by hand, "
        f"{memory[1] / 1e6:8.3f} MB   floor {floor if case.in_pieces else 1 + floor:.3f} x"
    )


def _prepared(text: str, folder: str) -> Job:
    path = f"{folder}/net.yaml"
    with open(path, "w") as file:  # noqa: PTH123
        file.write(text)
    return jobrun.prepare(path).job


def main() -> None:
    """Print a line for each case."""
    set_blas_threads(1)
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    print(f"{'':32} {'by hand':>15} {'net':>10}")
    # As numpy does if nothing is said: it looks for events after each call, which takes its time.
    looking = np.errstate(divide="call", over="call", invalid="call", call=lambda *_: None)
    with tempfile.TemporaryDirectory() as folder, looking:
        for case in (*CASES, *STENCILS):
            if wanted in case.name:
                bench(case, folder)


if __name__ == "__main__":
    main()
