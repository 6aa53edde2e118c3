"""The promise: killed anywhere and resumed, a run ends with the bits of an unbroken one."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from jobrun.cli.run_command import invoke
from tests.support.command import JOBRUN, SPECS, environment, jobrun
from tests.support.stored_runs import blobs, epochs, only_run, progress
from tests.support.thinning import thinned

KEEP_ALL = ("--set", "checkpoint.every=1ep", "--set", "checkpoint.keep.last=1000")
# Fewer epochs, for the same reasons to stop.
SHORTER = {
    "logistic-sgd": ("--set", "stop[0].no_improvement.min_delta=4e-3"),
    "digits-pipeline": ("--set", "params.rate=0.5"),
}
# The first all day, the others too where there is time.
JOBS = thinned(
    ("digits-kmeans", "minibatch-kmeans", "digits-pipeline", "logistic-sgd", "two-nodes"), 5
)
# Values that make an epoch long enough to be hit, and the run short enough to wait for.
LONG_EPOCHS = {
    "digits-kmeans": ("--set", "params.k=300"),
    "digits-pipeline": ("--set", "readers.digits.batch=1", "--set", "params.rate=0.01"),
    "logistic-sgd": ("--set", "params.batch=1"),
    "minibatch-kmeans": ("--set", "params.k=400", "--set", "readers.digits.limit=10"),
    "two-nodes": ("--set", "params.points=100000", "--set", "params.goal=0.0006"),
}
TRIES = 40


def _run(spec: str, run_dir: Path, *more: str) -> Path:
    done = jobrun("run", SPECS / f"{spec}.yaml", "--run-dir", run_dir, *KEEP_ALL, *more)
    assert done.returncode == 0, done.stderr
    return only_run(run_dir)


def _same(expected: Path, actual: Path) -> None:
    """Every epoch of the two runs holds the same, and what was saved last."""
    whole, resumed = epochs(expected), epochs(actual)
    assert list(resumed) == list(whole)
    for number, path in resumed.items():
        assert blobs(path) == blobs(whole[number]), f"epoch {number}"
        assert progress(path) == progress(whole[number]), f"epoch {number}"
    for path in sorted((expected / "artifacts").iterdir()):
        assert (actual / "artifacts" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.fixture(scope="module", params=JOBS)
def unbroken(request, tmp_path_factory) -> tuple[str, Path]:
    """A spec, and a run of it that nothing disturbed, with all checkpoints."""
    return request.param, _run(
        request.param, tmp_path_factory.mktemp(request.param), *SHORTER.get(request.param, ())
    )


@pytest.mark.long
def test_resumed_from_every_epoch_the_run_ends_with_the_same_bits(unbroken, capsys):
    _, whole = unbroken
    last = max(epochs(whole))
    assert last >= 5
    for number in range(last):
        # Beside the original: a run refers to its spec's folder by a relative path.
        copy = whole.parent / f"copy-{number}"
        shutil.copytree(whole, copy)
        assert invoke(["resume", str(copy), "--epoch", str(number), "--quiet"]) == 0, number
        _same(whole, copy)
        capsys.readouterr()
        shutil.rmtree(copy)


@pytest.mark.long
def test_a_finished_run_resumed_runs_no_further_epoch(unbroken, capsys):
    _, whole = unbroken
    before = list(epochs(whole))
    assert invoke(["resume", str(whole)]) == 0
    capsys.readouterr()
    assert list(epochs(whole)) == before


def _events(run: Path) -> list[dict[str, Any]]:
    text = (run / "events.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _running_epoch(run_dir: Path) -> int | None:
    """The epoch whose tasks run now and which is not saved, if the files show one."""
    actual = [path for path in run_dir.glob("*/2*") if (path / "events.jsonl").is_file()]
    if not actual:
        return None
    groups = [event for event in _events(actual[0]) if event["event"].startswith("Group")]
    if not groups or (groups[-1]["event"], groups[-1]["group"]) != ("GroupStarted", "epoch"):
        return None
    epoch = groups[-1]["epoch"]
    return epoch if epoch > 1 and epoch not in epochs(actual[0]) else None


def _killed_inside_an_epoch(spec: str, run_dir: Path) -> tuple[Path, int]:
    """Start a run and kill it while it computes an epoch.

    The process is stopped first, so that what its files say is what it is doing; only when
    they say that it is inside an epoch it is killed, else it goes on.
    """
    for number in range(TRIES):
        folder = run_dir / str(number)
        folder.mkdir(parents=True)
        child = subprocess.Popen(
            [*JOBRUN, "run", str(SPECS / f"{spec}.yaml"), "--run-dir", str(folder), *KEEP_ALL,
             *LONG_EPOCHS[spec]],
            env=environment(JOBRUN_UNGUARDED="1"), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            while child.poll() is None:
                child.send_signal(signal.SIGSTOP)
                time.sleep(0.001)
                epoch = _running_epoch(folder)
                if epoch is not None:
                    child.kill()
                    assert child.wait() == -signal.SIGKILL
                    return only_run(folder), epoch
                child.send_signal(signal.SIGCONT)
                time.sleep(0.003)
        finally:
            child.kill()
            child.wait()
    raise AssertionError("no run could be caught inside an epoch")


@pytest.mark.parametrize("spec", JOBS)
def test_killed_inside_an_epoch_and_resumed_the_run_ends_with_the_same_bits(spec, tmp_path):
    whole = _run(spec, tmp_path / "unbroken", *LONG_EPOCHS[spec])
    killed, epoch = _killed_inside_an_epoch(spec, tmp_path / "killed")
    assert max(epochs(killed)) < epoch
    assert json.loads((killed / "run.json").read_text())["exit_code"] is None
    done = jobrun("resume", killed)
    assert done.returncode == 0, done.stderr
    _same(whole, killed)
