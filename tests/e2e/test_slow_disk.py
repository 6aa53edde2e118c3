"""Signals while the disk takes its time: the first waits until all is durable, the second does not.

The disk is held up by a file: as long as it is there, no fsync of a checkpoint comes back.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.support.command import environment, jobrun
from tests.support.stored_runs import blobs, epochs, only_run

SPEC = """\
jobrun: 1
name: slow
init: [{task: start, steps: ["w = zeros(1000)"]}]
epoch:
  - task: step
    steps:
      - w += rng.normal(size=1000)
      - run: 'while [ -e calm ]; do sleep 0.02; done'
stop: [{epochs: 4}]
checkpoint: {async: true}
"""
# Waits in the first save after init.
PROGRAM = """
import os, pathlib, sys, time
whole = os.fsync
def fsync(descriptor):
    name = os.readlink(f"/proc/self/fd/{descriptor}")
    if name.endswith("local.h5") and "000001" in name:
        pathlib.Path("reached").touch()
        while os.path.exists("held"):
            time.sleep(0.01)
    whole(descriptor)
os.fsync = fsync
from jobrun.__main__ import main
sys.exit(main(["run", "slow.yaml", "--grace", "1000s"]))
"""


@pytest.fixture
def process(tmp_path):
    (tmp_path / "slow.yaml").write_text(SPEC)
    (tmp_path / "held").touch()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE
    ) as single:
        while not (tmp_path / "reached").exists():
            assert single.poll() is None, single.stderr.read()
            time.sleep(0.01)
        yield single
        single.kill()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "slow.yaml").write_text(SPEC)
    assert jobrun("run", "slow.yaml", cwd=folder).returncode == 0
    return blobs(epochs(only_run(folder / "runs"))[4])


def _acknowledged(run):
    lines = (run / "committed.jsonl").read_text().splitlines()
    return [json.loads(line).get("epoch") for line in lines]


def _ends_like(unbroken, folder):
    done = jobrun("resume", cwd=folder)
    assert done.returncode == 0, done.stderr
    return blobs(epochs(only_run(folder / "runs"))[4]) == unbroken


@pytest.mark.long
def test_row_82_the_first_signal_waits_until_the_save_is_durable(process, tmp_path, unbroken):
    run = only_run(tmp_path / "runs")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    assert _acknowledged(run) == [0]

    (tmp_path / "held").unlink()

    assert process.wait(60) == 75
    assert _acknowledged(run)[:2] == [0, 1]
    assert _ends_like(unbroken, tmp_path)


@pytest.mark.long
def test_row_82_the_second_signal_does_not_wait_and_loses_only_that_save(
    process, tmp_path, unbroken
):
    run = only_run(tmp_path / "runs")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 75
    assert (tmp_path / "held").exists()
    assert _acknowledged(run) == [0]
    (tmp_path / "held").unlink()
    assert _ends_like(unbroken, tmp_path)
