"""No depth of calls has each call take a page from the kernel: the pages are counted."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from jobrun.core.interpreter import call_with_large_stack
from tests.support.command import environment
from tests.support.stored_runs import Stored, blobs, epochs, only_run

CALLS = 1000
LIBRARY = f"""\
import resource


def nothing():
    # A frame that is larger than what most_faults adds at each depth, so that none is left out.
    a = b = c = d = e = f = g = h = i = j = k = l = m = n = o = p = q = r = s = t = u = v = 0


def count_faults():
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range({CALLS}):
        nothing()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def most_faults(depth=300):
    own = count_faults()
    return float(own if depth == 0 else max(own, most_faults(depth - 1)))
"""
SPEC = """\
jobrun: 1
name: deep
nodes: {one: {}, two: {}}
init: [{task: start, node: one, steps: [x = 0.0]}, {task: begin, node: two, steps: [y = 0.0]}]
epoch:
  - {task: first, node: one, steps: [{call: "library:most_faults", out: x}]}
  - {task: second, node: two, steps: [{call: "library:most_faults", out: y}]}
stop: [{epochs: 1}]
"""


def _counter():
    names: dict[str, object] = {}
    exec(LIBRARY, names)
    return names["most_faults"]


def _number(stored: Stored) -> float:
    return float(np.frombuffer(stored.content, stored.dtype)[0])


def test_with_a_large_block_no_depth_is_slow():
    assert call_with_large_stack(_counter()) < CALLS / 10


def test_without_it_python_has_such_a_depth():
    assert _counter()() >= CALLS


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "jobrun", "run", "deep.yaml"],
        ["-m", "jobrun", "run", "deep.yaml", "--session", "processes"],
        ["-c", "import jobrun; jobrun.run('deep.yaml')"],
    ],
)
def test_no_depth_is_slow_in_a_task(tmp_path, words):
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "deep.yaml").write_text(SPEC)

    subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment(), check=True)

    stored = blobs(epochs(only_run(tmp_path / "runs"))[1])
    assert stored
    assert all(_number(blob) < CALLS / 10 for blob in stored.values())
