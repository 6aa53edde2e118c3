"""Each signal that announces the end, sent to each process at each moment: saved, 75, and words."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from itertools import product
from pathlib import Path

import pytest

from jobrun.core.stop_signals import STOPPING, signal_name
from tests.support.command import JOBRUN, bash, environment, jobrun
from tests.support.stored_runs import blobs, epochs, only_run
from tests.support.thinning import thinned
from tests.support.waiting import wait_until

SPEC = """\
jobrun: 1
name: ends
seed: 5
init:
  - {task: start, steps: ["w = zeros(8)", {call: "ends:step", with: {x: w, epoch: 0}, out: w}]}
epoch:
  - task: step
    steps:
      - w += rng.normal(size=8)
      - {call: "ends:step", with: {x: w, epoch: epoch}, out: w}
      - {run: "test $JOBRUN_EPOCH != 3 || ! test -e armed-program || { touch inside; sleep 1; }"}
stop: [{epochs: 4}]
checkpoint: {every: 1ep, async: false}
"""
MODULE = """\
import ctypes, pathlib, signal, time
import numpy as np

def wait(moment):
    here = pathlib.Path(__file__)
    if here.with_name(f"armed-{moment}").exists():
        here.with_name("inside").touch()
        return True

if wait("import"):
    time.sleep(1)

def step(x, epoch):
    if epoch == 0 and wait("init"):
        time.sleep(1)
    if epoch == 3 and wait("python"):
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass
    if epoch == 3 and wait("sleep"):
        time.sleep(1)
    if epoch == 3 and wait("C with the GIL"):
        ctypes.PyDLL(None).usleep(1_000_000)
    if epoch == 3 and wait("numpy"):
        end = time.monotonic() + 1
        while time.monotonic() < end:
            np.ones((300, 300)) @ np.ones((300, 300))
    if epoch == 3 and wait("processor"):
        while time.process_time() < 6:
            pass
    return x
"""
TARGETS = ("parent", "child", "group")
# Those that batch systems send, of which each sends at any moment.
USUAL = ("SIGTERM", "SIGUSR2", "SIGXCPU", "SIGALRM")
MOMENTS = ("start", "import", "init", "python", "sleep", "C with the GIL", "numpy", "program",
           "save")  # fmt: skip
NUMBERS = {signal_name(number): number for number in STOPPING}
NAMES = [name for name in NUMBERS if "RT" not in name] + ["SIGRTMIN", "SIGRTMAX"]


def _folder(path: Path, moment: str) -> Path:
    path.mkdir()
    spec = SPEC
    if moment == "save":
        # Its file takes long enough to be seen while it is written.
        spec = SPEC.replace(
            '["w = zeros(8)",', '["w = zeros(8)", "big = rng.normal(size=30000000)",'
        )
        spec = spec.replace("      - w += rng", "      - big += 1\n      - w += rng")
    (path / "ends.yaml").write_text(spec)
    (path / "ends.py").write_text(MODULE)
    (path / f"armed-{moment}").touch()
    return path


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = _folder(tmp_path_factory.mktemp("unbroken") / "x", "never")
    assert jobrun("run", "ends.yaml", cwd=folder, started=True).returncode == 0
    return _content(folder)


def _content(folder: Path) -> dict[int, object]:
    run = only_run(folder / "runs")
    return {
        number: {name: blob for name, blob in blobs(path).items() if not name.endswith("big")}
        for number, path in epochs(run).items()
    }


def _started(
    folder: Path, moment: str, *words: str, **variables: str
) -> tuple[subprocess.Popen[str], int]:
    """Start the job, wait for the moment, and return its process and its child's number."""
    process = subprocess.Popen(
        [*JOBRUN, "run", "ends.yaml", "--grace", "60s", *words], cwd=folder,
        env=environment(**variables), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: children.read_text().split(), "child")
    child = int(children.read_text().split()[0])
    if moment == "save":
        wait_until(lambda: list((folder / "runs").glob("*/*/checkpoints/*/*.h5")), "a file")
    elif moment != "start":
        wait_until((folder / "inside").exists, "file 'inside'")
    return process, child


def _send(process: subprocess.Popen[str], child: int, number: int, target: str) -> None:
    if target == "group":
        os.killpg(process.pid, number)
    else:
        os.kill(process.pid if target == "parent" else child, number)


def _check(folder: Path, name: str, target: str, moment: str, unbroken: dict[int, object]) -> None:
    process, child = _started(folder, moment)
    _send(process, child, NUMBERS[name], target)
    _, output = process.communicate(timeout=120)

    assert process.returncode == (130 if name == "SIGINT" else 75), output
    assert name in output or (name == "SIGINT" and "interrupted" in output), output
    for path in folder.glob("armed-*"):
        path.unlink()
    done = jobrun("run", "ends.yaml", "--resume", "auto", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert _content(folder) == unbroken


@pytest.mark.parametrize(("name", "target"), thinned(product(NAMES, TARGETS), 10, 4))
def test_each_signal_to_each_process_saves_and_ends_with_75(name, target, tmp_path, unbroken):
    folder = _folder(tmp_path / "x", "sleep")
    _check(folder, name, target, "sleep", unbroken)


@pytest.mark.parametrize(
    ("moment", "name", "target"), thinned(product(MOMENTS, USUAL, TARGETS), 17, 5)
)
def test_a_signal_at_each_moment_saves_and_ends_with_75(moment, name, target, tmp_path, unbroken):
    folder = _folder(tmp_path / "x", moment)
    _check(folder, name, target, moment, unbroken)


@pytest.mark.parametrize("session", thinned(["threads", "processes"], 1))
def test_a_soft_limit_of_processor_time_saves_and_ends_with_75(session, tmp_path, unbroken):
    folder = _folder(tmp_path / "x", "processor")
    code, _, output = bash(
        f"ulimit -St 5; jobrun run ends.yaml --grace 60s --session {session} --max-failures 1",
        folder,
    )
    assert code == 75, output
    assert "SIGXCPU" in output
    (folder / "armed-processor").unlink()
    assert jobrun("resume", cwd=folder).returncode == 0
    assert _content(folder) == unbroken


def test_an_alarm_that_a_launcher_has_set_saves_and_ends_with_75(tmp_path):
    folder = _folder(tmp_path / "x", "sleep")
    text = MODULE.replace("time.sleep(1)", "time.sleep(20)")
    (folder / "ends.py").write_text(text)
    code, _, output = bash(
        f"perl -e 'alarm 6; exec @ARGV' {' '.join(JOBRUN)} run ends.yaml --grace 1s", folder
    )
    assert code == 75, output
    assert "SIGALRM" in output


def test_a_signal_that_code_of_the_job_handles_stops_nothing(tmp_path, unbroken):
    folder = _folder(tmp_path / "x", "never")
    # Tasks run in threads, in which Python sets no handler: it is done by code in C.
    text = MODULE.replace(
        "    if epoch == 0 and",
        """\
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    time.sleep(0.2)
    if epoch == 0 and""",
    )
    text = text.replace(
        "def step",
        """\
import faulthandler
faulthandler.register(signal.SIGALRM, open("stacks", "w"))

def step""",
    )
    (folder / "ends.py").write_text(text)
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    assert done.returncode == 0, done.stderr
    assert "in step" in (folder / "stacks").read_text()
    assert _content(folder) == unbroken


@pytest.mark.parametrize("delay_ms", thinned(range(30), 6, 4))
def test_a_signal_as_the_process_ends_does_not_change_the_result(delay_ms, tmp_path):
    folder = _folder(tmp_path / "job", "never")
    process = subprocess.Popen(
        [*JOBRUN, "run", "ends.yaml", "--quiet"], cwd=folder, env=environment(),
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    runs = folder / "runs" / "ends"
    # The moments that matter are shorter than the pauses of ``wait_until``.
    while not any('"finished"' in path.read_text() for path in runs.glob("2*/run.json")):
        assert process.poll() is None
    time.sleep(delay_ms / 1000)
    process.send_signal(signal.SIGTERM)

    assert (process.communicate()[1], process.returncode) == ("", 0)


@pytest.mark.parametrize("manner", ["option", "variable"])
def test_a_signal_that_the_site_names_saves_and_ends_with_75(manner, tmp_path):
    folder = _folder(tmp_path / "x", "sleep")
    if manner == "option":
        process, child = _started(folder, "sleep", "--stop-signal", "QUIT")
    else:
        process, child = _started(folder, "sleep", JOBRUN_STOP_SIGNAL="URG,QUIT")
    _send(process, child, signal.SIGQUIT, "group")
    _, output = process.communicate(timeout=120)
    assert process.returncode == 75, output
    assert "SIGQUIT" in output
    assert "epoch 3 is saved" in output


def test_a_stop_signal_that_is_none_is_refused_before_anything_runs(tmp_path):
    folder = _folder(tmp_path / "x", "never")
    done = jobrun("run", "ends.yaml", "--stop-signal", "KILL", cwd=folder)
    assert done.returncode == 2
    assert "'KILL' is not a signal that can mean to save and stop" in done.stderr
    assert not (folder / "runs").exists()


def test_a_paused_run_continues(tmp_path, unbroken):
    folder = _folder(tmp_path / "x", "sleep")
    process, child = _started(folder, "sleep")
    _send(process, child, signal.SIGSTOP, "group")
    wait_until(lambda: Path(f"/proc/{child}/stat").read_text().split()[2] == "T", "a pause")
    _send(process, child, signal.SIGCONT, "group")
    _, output = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert _content(folder) == unbroken
