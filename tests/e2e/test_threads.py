"""Threads: those of instances that share blobs, and those of BLAS."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest

from jobrun.values.compare import same_bits
from tests.support.command import jobrun
from tests.support.stored_runs import epochs, only_run
from tests.support.thinning import thinned

# Each goes on until it sees that the other has: one after the other they would never end.
_SHARED = """\
jobrun: 1
name: shared
init: [{task: start, steps: [w = zeros(2)]}]
epoch:
  - task: climb
    instances: 2
    HOGWILD
    timeout: 60s
    steps:
      - loop: forever
        steps:
          - w[instance] += 1
          - stop_if: min(w) > 1000
stop: [{epochs: 1}]
expect: [min(w) > 1000]
"""
_BLAS = """\
jobrun: 1
name: blas
blas_threads: 2
init: [{task: start, steps: ["A = rng.normal(size=(300, 300))", seen = 0]}]
epoch:
  - task: work
    steps:
      - B = A @ A
      - {call: "reading:threads", out: seen}
stop: [{epochs: 2}]
"""
# Asks the library itself, and not what jobrun says of it.
_READING = """\
import ctypes
import re


def threads():
    paths = set(re.findall(r"(/\\S*openblas\\S*\\.so\\S*)", open("/proc/self/maps").read()))
    names = ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads")
    for library in map(ctypes.CDLL, paths):
        for name in names:
            if hasattr(library, name):
                return getattr(library, name)()
    return 0
"""

# Large enough for chains of elementwise operators to be computed in pieces.
_MOMENTS = """\
jobrun: 1
name: moments
init:
  - task: start
    steps: ["g = rng.normal(size=140000)", m = g * 2, v = g * g, w = zeros(140000)]
epoch:
  - task: adam
    steps:
      - loop: 2
        steps:
          - m = 0.9 * m + 0.1 * g
          - v = 0.999 * v + 0.001 * g * g
          - w = w - 0.01 * m / (sqrt(v) + 1e-8)
checkpoint: {every: 2ep, async: ASYNC}
stop: [{epochs: 7}]
"""


def moments(g, passes):
    m, v, w = g * 2, g * g, np.zeros(140000)
    for _ in range(passes):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        w = w - 0.01 * m / (np.sqrt(v) + 1e-8)
    return {"m": m, "v": v, "w": w}


@pytest.mark.parametrize("asynchronous", ["true", "false"])
def test_files_hold_what_was_computed_in_the_memory_of_what_it_replaced(tmp_path, asynchronous):
    spec = _MOMENTS.replace("ASYNC", asynchronous)
    (tmp_path / "job.yaml").write_text(spec)

    assert jobrun("run", "job.yaml", "-q", cwd=tmp_path).returncode == 0

    run = only_run(tmp_path / "runs")
    saved = sorted((run / "checkpoints").glob("epoch-*/local.h5"))
    assert len(saved) >= 4
    for path in saved:
        with h5py.File(path, locking=False) as file:
            epoch = int(path.parent.name.removeprefix("epoch-"))
            for name, wanted in moments(file["blobs/g"][()], 2 * epoch).items():
                assert same_bits(file[f"blobs/{name}"][()], wanted), (epoch, name)
    # A digest that was kept from the last file would be that of other bits.
    assert jobrun("ckpt", "verify", str(run), cwd=tmp_path).returncode == 0


def test_hogwild_instances_work_on_one_blob_at_the_same_time(tmp_path):
    (tmp_path / "shared.yaml").write_text(_SHARED.replace("HOGWILD", "hogwild: true"))

    done = jobrun("run", "shared.yaml", cwd=tmp_path)

    assert done.returncode == 0, done.stderr


def test_without_the_word_it_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "shared.yaml").write_text(_SHARED.replace("    HOGWILD\n", ""))

    done = jobrun("run", "shared.yaml", cwd=tmp_path)

    assert done.returncode == 3
    assert "race on 'w'" in done.stderr
    assert "hogwild: true" in done.stderr
    assert not (tmp_path / "runs").exists()


def _blas(folder):
    (folder / "blas.yaml").write_text(_BLAS)
    (folder / "reading.py").write_text(_READING)


@pytest.mark.long
@pytest.mark.parametrize(("more", "count"), thinned([(("--set", "blas_threads=1"), 1), ((), 2)], 2))
def test_blas_has_the_threads_of_the_job_and_the_manifest_says_so(tmp_path, more, count):
    _blas(tmp_path)

    done = jobrun(
        "run",
        "blas.yaml",
        *more,
        "--set",
        f"expect=['seen == {count}']",
        cwd=tmp_path,
        started=True,
    )

    assert done.returncode == 0, done.stderr
    for path in epochs(only_run(tmp_path / "runs")).values():
        assert json.loads((path / "manifest.json").read_text())["environment"]["blas_threads"] == (
            count
        )


def test_another_thread_count_at_a_resume_is_reported_and_refused_if_exact(tmp_path):
    _blas(tmp_path)
    assert jobrun("run", "blas.yaml", "--max-epochs", "1", cwd=tmp_path).returncode == 75

    refused = jobrun("resume", "--set", "blas_threads=1", "--strict", cwd=tmp_path)
    reported = jobrun("resume", "--set", "blas_threads=1", cwd=tmp_path)

    assert (refused.returncode, reported.returncode) == (5, 0), reported.stderr
    assert "blas_threads" in refused.stderr
    assert "numerics" in reported.stderr
