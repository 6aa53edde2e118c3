"""Each pass of the optimizer of generated code, on and off: how much longer a net takes without it.

Run as ``python -m tests.benchmarks.bench_optimizer [part of a case's name]``. Variants take turns
in short slices, and the least time of each counts: other load on the machine only adds to a time.
It is CPU time of the process, but wall time of work in two threads, which uses two processors.
A pass stays only as long as some case needs it. Measured on two shared cores, noise about 10 %:

========================  ===============  ============  ======  ========  ============
time without / time with  copy_elision     direct calls  fusion  refcount  buffer_reuse
========================  ===============  ============  ======  ========  ============
arrays that swap names    110 - 123
reductions, small arrays                   2.5
sigmoid of 2000                                                            1.15 - 1.27
sigmoid of 20                                                              1.36 - 1.49
a million in place                                       2.2-2.4 1.3 - 1.5
a polynomial of a million                                1.9-2.0
a step of Adam                                           1.3     1.16
========================  ===============  ============  ======  ========  ============

Empty fields are within the noise. ``split_in_two`` shows only where both processors are idle.
A pass for columns beside short rows (``label[:, None] == arange(10)``) made that statement 1.3
times faster, and k-means, for which it was made, by nothing that could be measured: it is gone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

import jobrun
from jobrun.graph.types import Job
from jobrun.runner.identity.blas_libraries import set_blas_threads
from jobrun.runtime.codegen import compiler, copy_elision, expressions, fused_kernel
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from tests.benchmarks.bench_nets import spec
from tests.benchmarks.nets import CASES

_ROUNDS = 25
_SLICE_S = 0.004
_OF_TWO_PROCESSORS = "split_in_two"
# Loops over single numbers have nothing that a pass could improve.
_SKIPPED = ("tiny", "map")
_NEVER = 1 << 62

# For each pass what it is for, in a loop, so that the constant of an epoch does not count.
OWN_CASES = {
    "arrays that swap names": (
        ["a = zeros(200000)", "b = ones(200000)"], 20, ["a[0] = b[1]", "a, b = b, a"],
    ),
    "reductions of small arrays": (
        ["v = rng.random(20)", "s = 0.0", "m = 0.0"],
        500, ["s = sum(v)", "m = max(v) + mean(v)"],
    ),
    "sigmoid of 2000": (
        ["X = rng.normal(size=(2000, 8))", "w = ones(8)", "p = X @ w"],
        50, ["p = 1 / (1 + exp(-(X @ w)))"],
    ),
    "sigmoid of 20": (
        ["X = rng.normal(size=(20, 8))", "w = ones(8)", "p = X @ w"],
        500, ["p = 1 / (1 + exp(-(X @ w)))"],
    ),
    "a million in place": (
        ["x = rng.random(1000000)"], 2, ["x = x * 0.5 + x * x * 0.25 + 0.1"],
    ),
}  # fmt: skip


# What is replaced, while code is generated and while it runs, to leave a pass out.
_Patch = tuple[Any, str, Any]
PASSES: dict[str, tuple[_Patch, ...]] = {
    "copy_elision": ((compiler, "find_moves", lambda *_: copy_elision.NO_MOVES),),
    "direct calls": ((expressions, "_DIRECT", {}),),
    "fusion": (
        (expressions, "is_fusible", lambda _: False),
        (compiler, "is_fusible", lambda _: False),
    ),
    "split_in_two": ((fused_kernel, "_SHARED", _NEVER),),
    "refcount": ((fused_kernel, "has_one_reference", lambda *_: False),),
    "buffer_reuse": ((expressions, "find_reuse_chain", lambda *_, **__: None),),
}


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Leave a pass out; none for an empty name."""
    with contextlib.ExitStack() as stack:
        for module, attribute, value in PASSES.get(name, ()):
            stack.enter_context(mock.patch.object(module, attribute, value))
        yield


def own_spec(init: list[str], passes: int, steps: list[str]) -> str:
    """Return the spec of a job whose epoch is a loop over these steps."""
    lines = [
        "jobrun: 1", "name: net",
        f"init: [{{task: start, steps: {json.dumps(init)}}}]",
        f"epoch: [{{task: work, steps: [{{loop: {passes}, steps: {json.dumps(steps)}}}]}}]",
        "stop: [{epochs: 1}]", "",
    ]  # fmt: skip
    return "\n".join(lines)


class Variant:
    """A job whose code was generated without one pass."""

    def __init__(self, job: Job, left_out: str, folder: str) -> None:
        self._job = job
        self._left_out = left_out
        self._keep = {node: (*names,) for node, names in job.state}
        self._epochs = itertools.count(1)
        self._session = ThreadsSession()
        with without(left_out):
            self._session.open(job.cluster, RunContext(0, folder, folder))
            self._session.run(job.init, 0, {})
            self._run()

    def seconds(self, calls: int) -> tuple[float, float]:
        """Run so many epochs; return the CPU time and the wall time of one of them."""
        with without(self._left_out):
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            for _ in range(calls):
                self._run()
            return (time.process_time() - cpu_s) / calls, (time.perf_counter() - wall_s) / calls

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _run(self) -> None:
        self._session.run(self._job.epoch, next(self._epochs), {})
        self._session.settle(self._keep)


def ratios(text: str, folder: str) -> dict[str, float]:
    """Return for each pass how many times as long an epoch of the spec takes without it."""
    path = f"{folder}/net.yaml"
    with open(path, "w") as file:  # noqa: PTH123
        file.write(text)
    job = jobrun.prepare(path).job
    variants = {name: Variant(job, name, folder) for name in ("", *PASSES)}
    slowest = max(min(variant.seconds(1)[0] for _ in range(4)) for variant in variants.values())
    calls = max(1, int(_SLICE_S / slowest))
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for _ in range(_ROUNDS):
        # In any order: a fixed one may fall into step with the scheduler.
        for name in random.sample(list(variants), len(variants)):
            taken[name].append(variants[name].seconds(calls))
    for variant in variants.values():
        variant.close()
    cpu = {name: min(processor_s for processor_s, _ in times) for name, times in taken.items()}
    wall = {name: min(wall_s for _, wall_s in times) for name, times in taken.items()}
    return {
        name: wall[name] / wall[""] if name == _OF_TWO_PROCESSORS else cpu[name] / cpu[""]
        for name in PASSES
    }


def main(run: Callable[[str, str], dict[str, float]] = ratios) -> None:
    """Print a line for each case, a column for each pass."""
    set_blas_threads(1)
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    cases = [case for case in CASES if not any(word in case.name for word in _SKIPPED)]
    texts = {name: own_spec(*parts) for name, parts in OWN_CASES.items()}
    texts |= {case.name: spec(case) for case in cases}
    print(f"{'time without / time with':32}" + "".join(f"{name:>14}" for name in PASSES))
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        for name, text in texts.items():
            if wanted in name:
                measured = run(text, folder)
                print(
                    f"{name:32}" + "".join(f"{measured[pass_name]:14.2f}" for pass_name in PASSES),
                    flush=True,
                )


if __name__ == "__main__":
    main()
