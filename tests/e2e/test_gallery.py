"""Every spec that is shipped keeps the promise: killed and resumed, it ends with the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.support.command import JOBRUN, SPECS, environment, jobrun
from tests.support.drawing import differs
from tests.support.gallery import PICTURES, SWEEP, SWEPT, drawn, swept
from tests.support.limits import memory_group
from tests.support.stored_runs import epochs, only_run
from tests.support.waiting import wait_until

ALL = sorted(path.name for path in SPECS.glob("*.yaml"))


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ALL)
def test_a_shipped_spec_is_proven(name, tmp_path):
    done = jobrun(
        "prove", SPECS / name, "--kills", "4", "--json", cwd=tmp_path, timeout_s=280, started=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["landed"] >= 2


@pytest.mark.long
def test_the_sweep_of_temperatures_is_killed_continues_and_gives_its_picture(tmp_path):
    command = [*JOBRUN, *map(str, SWEEP), "--jobs", "2"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: len([*tmp_path.glob("runs/ising.*/2*/checkpoints/epoch-000004")]) >= 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

    done = jobrun(*SWEEP, cwd=tmp_path, started=True)

    assert done.returncode == 0, done.stderr
    assert len([*tmp_path.glob("runs/ising.*/2*/run.json")]) == 7
    table = jobrun(*SWEPT, cwd=tmp_path).stdout
    assert differs((PICTURES / "ising-sweep.svg").read_text(), swept(table), 0.03) == ""


ROWS = 12_000_000


@pytest.mark.long
def test_the_statistics_of_a_file_larger_than_the_memory_are_those_of_the_file(tmp_path):
    """A third of a gigabyte, killed half way and resumed, with 200 MB for all of it."""
    with memory_group(200 << 20) as group:
        # Where no group can be made, what is shown is that the result is right.
        join = f"echo $$ > {group}/cgroup.procs; " if group else ""
        run = ["sh", "-c", f'{join}exec "$@"', "sh", *JOBRUN]
        begin = [*run, "run", str(SPECS / "stream-statistics.yaml"), "--set", f"params.rows={ROWS}"]
        process = subprocess.Popen(
            begin,
            cwd=tmp_path,
            env=environment(),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        saved = "runs/stream-statistics/2*/checkpoints/epoch-0000[0-9][1-9]"
        wait_until(lambda: [*tmp_path.glob(saved)])
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done = subprocess.run(
            [*run, "resume"], cwd=tmp_path, env=environment(), capture_output=True, text=True,
            timeout=200, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "continuing from epoch" in done.stderr

    run_dir = only_run(tmp_path / "runs")
    data = np.load(run_dir / "readings.npy", mmap_mode="r")
    assert data.nbytes > 300 << 20
    counts = np.load(run_dir / "artifacts" / "statistics.npz")["counts"]
    assert counts.sum(axis=1).tolist() == [ROWS] * 4
    covariance = np.load(run_dir / "artifacts" / "statistics.npz")["covariance"]
    np.testing.assert_allclose(covariance, np.full((4, 4), 0.25) + np.eye(4), atol=5e-3)
    last = epochs(run_dir)[max(epochs(run_dir))]
    with h5py.File(next(last.glob("*.h5"))) as file:
        np.testing.assert_allclose(file["blobs/centre"][:], data.mean(axis=0), rtol=0, atol=1e-9)


@pytest.mark.long
def test_a_missing_program_is_named_with_what_to_install(tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    (empty / "bash").symlink_to("/bin/bash")

    done = jobrun("run", SPECS / "factoring.yaml", cwd=tmp_path, env=environment(PATH=str(empty)))

    assert done.returncode == 7, done.stderr
    assert "ecm is missing; install it with: apt-get install gmp-ecm" in done.stderr


@pytest.mark.long
def test_factors_are_found_by_calls_that_ask_to_be_made_again(tmp_path):
    done = jobrun("run", SPECS / "factoring.yaml", "--set", "params.calls=3", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    run_dir = only_run(tmp_path / "runs")
    # Three calls of 100,000 in each epoch, the last of which did not ask for another.
    bounds = [value for name, value in _measured(run_dir) if name == "bound"]
    assert bounds == [300_000 * epoch for epoch in range(1, len(bounds) + 1)]
    lines = (run_dir / "artifacts" / "factors.csv").read_text().splitlines()
    factors = [int(line.partition(",")[2]) for line in lines]
    assert factors[-1] == 49858990580788843054012690078841
    assert all((2**977 - 1) % factor == 0 for factor in factors)


def test_a_picture_that_shows_something_else_differs(tmp_path):
    retained = (PICTURES / "digits-kmeans.svg").read_text()
    (tmp_path / "metrics.jsonl").write_text(
        "".join(
            json.dumps({"event": "Measured", "name": "loss", "value": value, "epoch": at}) + "\n"
            for at, value in enumerate((3.0, 2.0, 1.0), start=1)
        )
    )
    single = drawn("logistic-sgd", tmp_path)

    assert differs(retained, retained, 0.03) == ""
    assert differs(retained, single, 0.03) == "their parts are not the same"
    assert differs(single, single.replace("107.0", "86.0"), 0.03).endswith("21.0 away")


def _measured(run: Path) -> list[tuple[str, float]]:
    events = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(event["name"], event["value"]) for event in events if event["event"] == "Measured"]
