"""Jobs run, are killed and continue where system calls that only Linux has are missing."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.command import JOBRUN, environment, jobrun
from tests.support.other_system.sitecustomize import ALL
from tests.support.session_runs import same
from tests.support.stored_runs import epochs, only_run
from tests.support.waiting import wait_until

SPEC = """\
jobrun: 1
name: walk
seed: 3
nodes: {a: {count: 2}}
init: [{task: make, node: a, steps: ["w = rng.random(100)"]}]
epoch:
  - task: average
    node: a
    steps:
      - pull: {m: {from: a, blob: w, reduce: mean}}
      - {run: "sleep 0.02; echo walked"}
    outputs: [m]
  - {task: walk, node: a, needs: [average], steps: ["w = average.m + rng.random(100)"]}
stop: [{epochs: 12}]
checkpoint: {every: 1ep}
"""
SUPPORT = Path(__file__).parent.parent / "support" / "other_system"


def _system(*missing):
    paths = os.pathsep.join((str(SUPPORT), str(Path.cwd()), os.environ.get("PYTHONPATH", "")))
    return environment(WITHOUT=" ".join(missing), PYTHONPATH=paths.rstrip(os.pathsep))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "walk.yaml").write_text(SPEC)
    done = jobrun("run", "walk.yaml", cwd=folder, env=_system(), started=True)
    assert done.returncode == 0, done.stderr
    return only_run(folder / "runs")


def _killed_and_resumed(folder, *missing, session):
    """Kill a run after its second epoch, resume it, and return its directory."""
    (folder / "walk.yaml").write_text(SPEC)
    words = ("run", "walk.yaml", "--session", session)
    with subprocess.Popen(
        [*JOBRUN, *words],
        cwd=folder,
        env=_system(*missing),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    ) as process:
        wait_until(lambda: len(_saved(folder)) > 1)
        process.kill()
    before = _saved(folder)
    done = jobrun("resume", "runs/walk/latest", cwd=folder, env=_system(*missing), started=True)
    assert done.returncode == 0, done.stderr
    assert "continu" in done.stderr
    assert 1 < len(before) < 12
    return only_run(folder / "runs")


def _saved(folder):
    latest = folder / "runs" / "walk" / "latest"
    return epochs(latest) if latest.exists() else {}


@pytest.mark.long
@pytest.mark.parametrize("session", ["threads", "processes"])
def test_a_killed_job_continues_without_any_of_them(tmp_path, unbroken, session):
    same(unbroken, _killed_and_resumed(tmp_path, *ALL, session=session))


@pytest.mark.long
@pytest.mark.parametrize("missing", ALL)
def test_a_job_computes_the_same_without_one_of_them(tmp_path, unbroken, missing):
    (tmp_path / "walk.yaml").write_text(SPEC)
    words = ("run", "walk.yaml", "--session", "processes")
    done = jobrun(*words, cwd=tmp_path, env=_system(missing), started=True)
    assert done.returncode == 0, done.stderr
    same(unbroken, only_run(tmp_path / "runs"))


@pytest.mark.long
def test_signals_and_commands_that_look_at_runs_work_without_any_of_them(tmp_path, unbroken):
    (tmp_path / "walk.yaml").write_text(SPEC)
    with subprocess.Popen(
        [*JOBRUN, "run", "walk.yaml"],
        cwd=tmp_path,
        env=_system(*ALL),
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        wait_until(lambda: len(_saved(tmp_path)) > 1)
        process.send_signal(signal.SIGTERM)
        output = process.stderr.read()
    assert process.returncode == 75, output
    assert "stopped early (signal SIGTERM)" in output

    for words in (("status",), ("logs",), ("runs",), ("doctor",), ("inspect-checkpoint",)):
        on = () if words[0] in {"runs", "doctor"} else ("runs/walk/latest",)
        done = jobrun(*words, *on, cwd=tmp_path, env=_system(*ALL), started=True)
        assert done.returncode == 0, (words, done.stderr)

    done = jobrun("resume", "runs/walk/latest", cwd=tmp_path, env=_system(*ALL), started=True)
    assert done.returncode == 0, done.stderr
    same(unbroken, only_run(tmp_path / "runs"))
