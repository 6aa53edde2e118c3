"""Nets against the numpy a person would write, in one process: time, and peak of memory.

Run as ``python -m tests.benchmarks.bench_nets [part of a name]``. Both must give the same bits.
It is CPU time of the process, but wall time of chains, which may use two processors.
Both work on the same arrays: where in memory an array lies decides up to a twentieth of the time
of a stencil. Each has a floor. Of elementwise chains it is the same calls by hand, piece by piece,
in one thread; of all others the calls as they are by hand, and around them the least of an epoch:
a context of its own, two looks at the clock, an event, and a new table of the state.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from contextvars import copy_context
from functools import partial

import numpy as np

import jobrun
from jobrun.core.events import TaskEnded
from jobrun.graph.types import Job
from jobrun.runner.identity.blas_libraries import set_blas_threads
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.values.compare import same_bits
from tests.benchmarks.nets import CASES, Blobs, Case
from tests.benchmarks.ratios import medians, verdict
from tests.benchmarks.stencils import STENCILS

_ROUND_S = 0.02
# An epoch follows another one, whose memory it uses again while it is in the caches. Behind the
# other variant, a pass over 35 MB of temporaries takes 1.05 times as long.
_LEAST_CALLS = 3


def spec(case: Case) -> str:
    """The spec of a case."""
    init = "\n".join(f'      - "{line}"' for line in case.init)
    return (
        "jobrun: 1\nname: net\ninit:\n  - task: start\n    steps:\n"
        + init
        + "\nepoch:\n  - task: work\n    steps:"
        + case.epoch
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
    job = _prepared(spec(case), folder)
    keep = {node: (*names,) for node, names in job.state}
    session = ThreadsSession()
    session.open(job.cluster, RunContext(0, folder, folder))
    session.run(job.init, 0, {})
    numbers = itertools.count(1)

    def declared() -> None:
        session.run(job.epoch, next(numbers), {})
        session.settle(keep)

    apart: Blobs = session.read("local", keep["local"])
    declared()
    case.by_hand(apart)
    for name, value in session.read("local", keep["local"]).items():
        assert same_bits(value, apart[name]), name
    blobs = session._workspaces["local"]
    written = partial(case.by_hand, blobs)
    variants = {"by hand": written, "net": declared, "floor": partial(_least_epoch, dict(blobs))}
    if case.in_pieces is not None:
        variants["floor"] = partial(case.in_pieces, apart)
    once = medians({"by hand": written, "net": declared}, rounds=1)["by hand"]
    calls = max(_LEAST_CALLS, int(_ROUND_S / once))
    clock = time.perf_counter if case.in_pieces else time.process_time
    seconds = medians(variants, rounds=25, calls=calls, clock=clock)
    memory = peak(written), peak(declared)
    session.close()
    ratio, floor = (seconds[name] / seconds["by hand"] for name in ("net", "floor"))
    print(
        f"{case.name:32} {seconds['by hand'] * 1e6:12,.1f} us {ratio:8.3f} x  "
        f"{verdict(ratio, case.aim)}   peak {memory[0] / 1e6:8.3f} MB by hand, "
        f"{memory[1] / 1e6:8.3f} MB   floor {floor if case.in_pieces else 1 + floor:.3f} x"
    )


def _least_epoch(blobs: Blobs) -> None:
    begun = time.perf_counter()
    copy_context().run(dict)
    TaskEnded("work", "local", 1, time.perf_counter() - begun, failed=False)
    settled = {name: blobs[name] for name in sorted(blobs)}
    blobs.clear()
    blobs.update(settled)


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
