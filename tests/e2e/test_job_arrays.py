"""Elements of a job array: runs of one job, each known by its params and its seed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from jobrun.runner.rundir.lock import lock_starts
from tests.support.command import JOBRUN, environment, jobrun
from tests.support.thinning import thinned
from tests.support.waiting import wait_until

SPEC = """\
jobrun: 1
name: array
params: {k: {type: int, default: 0}, rate: 0.5}
init: [{task: i, steps: [s = 0]}]
epoch: [{task: e, steps: [{call: "slow:step", with: {s: s, k: k}, out: s}]}]
exit: [{task: x, steps: [{save: {s: "${run.dir}/artifacts/s.npy"}}]}]
metrics: {s: s}
stop: [{epochs: 25}]
checkpoint: {every: 1ep}
"""
SLOW = """\
import time
def step(s, k):
    time.sleep(0.03)
    return s * 31 % 1009 + k
"""
COUNT = 8


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "array.yaml").write_text(SPEC)
    (tmp_path / "slow.py").write_text(SLOW)
    return tmp_path


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*JOBRUN, "run", "array.yaml", *words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def records(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in folder.glob("runs/array/2*/run.json")]


def expected(k: int) -> int:
    s = 0
    for _ in range(25):
        s = s * 31 % 1009 + k
    return s


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_elements_that_start_together_and_are_killed_together_end_each_once(folder, seed):
    draw = random.Random(seed)
    by_seed = seed % 2
    name = "seed" if by_seed else "k"
    options = [("--resume", "auto", "--set", f"{name}={number}", "-q") for number in range(COUNT)]
    for _ in range(3):
        processes = [start(folder, *words) for words in options]
        time.sleep(draw.uniform(0.3, 4.0))
        for process in processes:
            process.send_signal(signal.SIGKILL)
        for process in processes:
            output = process.communicate()[1]
            assert process.returncode in (0, -signal.SIGKILL), output

    processes = [start(folder, *words) for words in options]
    ended = [(process.communicate()[1], process.returncode) for process in processes]
    assert [code for _, code in ended] == [0] * COUNT, ended

    actual = records(folder)
    assert Counter(
        entry["seed"] if by_seed else entry["params"]["k"] for entry in actual
    ) == Counter(range(COUNT))
    assert {entry["status"] for entry in actual} == {"finished"}
    # A directory without it was made by a process that was killed at its start.
    for record in folder.glob("runs/array/2*/run.json"):
        k = json.loads(record.read_text())["params"]["k"]
        assert int(np.load(record.parent / "artifacts" / "s.npy")) == expected(k)


@pytest.mark.parametrize("policy", thinned([("--resume", "auto"), ()], 1))
def test_of_processes_that_start_the_same_run_at_once_one_makes_it(folder, policy):
    processes = [start(folder, "--set", "k=1", *policy, "-q") for _ in range(4)]
    ended = [(process.communicate()[1], process.returncode) for process in processes]

    refusals = [(value, code) for value, code in ended if code]
    assert len(refusals) == 3
    for output, code in refusals:
        assert (code, output[:11]) == ((6, "error[E353]") if policy else (2, "error[E352]"))
        assert "held by process" in output
    assert [record["status"] for record in records(folder)] == ["finished"]


def test_a_start_waits_while_another_process_makes_a_run(folder):
    (folder / "runs" / "array").mkdir(parents=True)
    with lock_starts(folder / "runs" / "array"):
        process = start(folder, "--resume", "auto", "-q")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        assert records(folder) == []

    output = process.communicate(timeout=60)[1]
    assert (process.returncode, output, len(records(folder))) == (0, "", 1)


def test_runs_with_other_params_do_not_block_a_start(folder):
    def run(*words: str, code: int) -> str:
        done = jobrun("run", "array.yaml", "--max-epochs", "2", *words, cwd=folder)
        assert done.returncode == code, done.stderr
        return done.stderr

    first = run("--set", "k=1", code=75)
    assert "a new run" not in first
    output = run("--set", "k=2", code=75)
    assert "a new run: array/" in output
    assert "is unfinished, and has other params (params.k = 1)" in output
    run("--set", "k=1", "--set", "seed=7", code=75)
    assert len(records(folder)) == 3

    refused = run("--set", "k=2", "--set", "rate=0.50", code=2)
    assert "error[E352]" in refused
    assert "jobrun run array.yaml --set k=2 --set rate=0.50 --resume never" in refused
    assert "continues after epoch 2" in run("--set", "k=1", "--resume", "auto", code=75)
    assert "continues after epoch 4" in run("--set", "k=1", "--resume", "must", code=75)
    refused = run("--set", "k=5", "--resume", "must", code=4)
    assert "there is no run of array with these params" in refused
    assert "has params.k = 1" in refused
    assert len(records(folder)) == 3


def test_an_array_takes_its_params_from_files_and_from_the_environment(folder):
    spec = (folder / "array.yaml").read_text()
    text = spec.replace("rate: 0.5", 'rate: 0.5, place: "${env:PLACE,here}"')
    (folder / "array.yaml").write_text(
        text.replace("name: array", 'name: array\nseed: "${env:TASK,0}"')
    )
    for number in (1, 2):
        (folder / f"{number}.yaml").write_text(f"params: {{k: {number}}}\n")
    options = [
        ({}, ("--values", "1.yaml")),
        ({}, ("--values", "2.yaml")),
        ({"PLACE": "there"}, ("--values", "1.yaml")),
        ({"TASK": "1"}, ()),
        ({"TASK": "2"}, ()),
    ]
    for count in (1, 2):
        for variables, words in options:
            command = ("run", "array.yaml", "--resume", "auto", "--max-epochs", "2", *words)
            done = jobrun(*command, cwd=folder, env=environment(**variables))
            assert done.returncode == 75, done.stderr
        assert [record["epoch"] for record in records(folder)] == [2 * count] * len(options)


@pytest.mark.long
def test_many_runs_of_one_job_are_distinguished(folder):
    """Above some dozens of runs an index is read in place of their records."""
    words = ("run", "array.yaml", "--max-epochs", "1", "--resume", "auto", "-q")
    for number in range(70):
        assert jobrun(*words, "--set", f"k={number}", cwd=folder).returncode == 75

    for number in (3, 69, 40):
        assert jobrun(*words, "--set", f"k={number}", cwd=folder).returncode == 75
    assert {record["params"]["k"] for record in records(folder) if record["epoch"] == 2} == {
        3,
        40,
        69,
    }
    assert len(records(folder)) == 70


def test_a_live_element_is_refused_and_another_starts_beside_it(folder):
    (folder / "slow.py").write_text(SLOW.replace("0.03", "1"))
    process = start(folder, "--set", "k=1", "-q")
    wait_until(lambda: records(folder) != [])

    done = jobrun("run", "array.yaml", "--set", "k=1", "--resume", "auto", cwd=folder)
    assert (done.returncode, done.stderr[:11]) == (6, "error[E353]")
    other = jobrun("run", "array.yaml", "--set", "k=2", "--max-epochs", "1", cwd=folder)
    assert other.returncode == 75

    process.send_signal(signal.SIGKILL)
    process.communicate()
