from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from jobrun.core.errors import UsageError
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.run_directories import runs
from jobrun.runner.rundir.run_json import read_record
from jobrun.tools.runs.stop_signal import send_stop_signal, wait_for_end
from tests.support.command import JOBRUN, environment
from tests.support.sample_runs import make_run
from tests.support.waiting import wait_until

ENDLESS = """
jobrun: 1
name: endless
init: [{task: begin, steps: ["x = 0"]}]
epoch: [{task: step, steps: ["x = x + 1", {run: [sleep, "0.05"]}]}]
stop: [endless: true]
checkpoint: {every: 1ep}
"""


def test_a_live_run_is_asked_saves_and_ends(tmp_path):
    (tmp_path / "endless.yaml").write_text(ENDLESS)
    child = subprocess.Popen(
        [*JOBRUN, "run", str(tmp_path / "endless.yaml"), "--run-dir", str(tmp_path), "--quiet"],
        env=environment(),
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(
            lambda: any(
                (run.path / "checkpoints" / "epoch-000001").is_dir() for run in runs(tmp_path)
            )
        )
        assert child.poll() is None
        (run,) = runs(tmp_path)

        # The process that computes; it is watched by the one that was started.
        status = Path("/proc", str(send_stop_signal(run).pid), "stat").read_text()
        assert int(status.rpartition(") ")[2].split()[1]) == child.pid
        assert wait_for_end(run, 60)
        assert child.wait() == 75
        reason = read_record(run.path).reason
        assert reason.startswith("stopped (asked by 'jobrun stop'): epoch ")
    finally:
        child.kill()
        child.wait()


def test_one_that_has_ended_cannot_be_asked(tmp_path):
    with pytest.raises(UsageError, match="E425"):
        send_stop_signal(make_run(tmp_path))


def test_a_run_on_another_host_is_reported_with_the_command_to_use_there(tmp_path):
    run = make_run(tmp_path)
    with RunLock.acquire(run.path):
        owner = {"pid": 4711, "host": "elsewhere", "since": "now"}
        (run.path / "run.lock").write_text(json.dumps(owner))

        with pytest.raises(UsageError, match=r"elsewhere.*kill -TERM 4711"):
            send_stop_signal(run)


def test_stop_now_sends_the_signal_twice(tmp_path, monkeypatch):
    run = make_run(tmp_path)
    sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    with RunLock.acquire(run.path):
        send_stop_signal(run, now=True)

    assert sent == [(os.getpid(), signal.SIGTERM)] * 2


def test_the_wait_for_an_end_that_does_not_come_is_over_in_time(tmp_path):
    run = make_run(tmp_path)

    with RunLock.acquire(run.path):
        assert not wait_for_end(run, 0.1)
    assert wait_for_end(run, 0.1)
