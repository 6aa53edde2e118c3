"""Run specs in any session, interrupt them in mid-run, and compare two runs bit for bit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobrun.compile.pipeline import compile_job
from jobrun.runner.options import RunOptions
from jobrun.runner.start_or_resume import start_run
from jobrun.spec.load import load_spec
from tests.support.command import JOBRUN, SPECS, environment, jobrun
from tests.support.stored_runs import blobs, epochs, only_run, progress
from tests.support.waiting import wait_until

# What races on purpose has other bits each time, in any session.
EXACT = sorted(
    path.name for path in SPECS.glob("*.yaml") if "hogwild: true" not in path.read_text()
)
AVERAGING = "parameter-averaging.yaml"
# So many show it: each begins with what the last one left, wherever that is.
EPOCHS = 3
SLOW = """\
jobrun: 1
name: slow
seed: 3
nodes: {trainer: {count: 2}}
init:
  - {task: make, node: trainer, steps: ["w = rng.random(100)"]}
epoch:
  - task: average
    node: trainer
    steps: [{pull: {m: {from: trainer, blob: w, reduce: mean}}}]
    outputs: [m]
  - task: walk
    node: trainer
    needs: [average]
    steps:
      - {call: "slow_library:pause", with: {seconds: 0.1}}
      - w = average.m + rng.random(100) * (1 + node.index)
      - metric: {first: "w[0]"}
stop: [{epochs: 15}]
checkpoint: {every: 1ep}
"""


def run(spec: Path, folder: Path, *more: str) -> Path:
    """Run a spec to its end, and return the directory of the run."""
    done = jobrun("run", spec, "--run-dir", folder, *more, started=True)
    assert done.returncode == 0, done.stderr
    return only_run(folder)


def run_here(session: str, spec: Path, folder: Path, *sets: str, **more: Any) -> Path:
    """Run a spec as the command does, but in this process, and return the directory of the run."""
    loaded = load_spec(str(spec), overrides=sets)
    options = RunOptions(run_dir=folder, session=session, **more)
    start_run(loaded, compile_job(loaded).job, options)
    return only_run(folder)


def same_in(session: str, spec: Path, folder: Path, *sets: str) -> None:
    """Require that some epochs of a spec give the same bits in a session as in threads."""
    all_saved = ("checkpoint.every=1ep", "checkpoint.keep.last=1000")
    here = run_here("threads", spec, folder / "threads", *all_saved, *sets, epochs=EPOCHS)
    there = run_here(session, spec, folder / "other", *all_saved, *sets, epochs=EPOCHS)
    same(here, there)


def same(first: Path, second: Path) -> None:
    """Require that two runs saved the same epochs with the same bits, and measured the same."""
    expected, actual = epochs(first), epochs(second)
    assert actual.keys() == expected.keys()
    for number in expected:
        assert blobs(actual[number]) == blobs(expected[number]), f"epoch {number}"
        actual_progress, expected_progress = progress(actual[number]), progress(expected[number])
        # Libraries that other tests have imported are in this process, and not in those of nodes.
        actual_progress.pop("settings", None)
        expected_progress.pop("settings", None)
        assert actual_progress == expected_progress, f"epoch {number}"
    for path in sorted((first / "artifacts").glob("*")):
        assert (second / "artifacts" / path.name).read_bytes() == path.read_bytes(), path.name
    assert measured(second) == measured(first)


def measured(run_: Path) -> list[tuple[object, ...]]:
    """Return the measured values of a run, without their times, in an order of their own."""
    path = run_ / "metrics.jsonl"
    lines = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    return sorted(
        (event["epoch"], event["name"], event["node"], event["task"], event["value"])
        for event in lines
        if event["event"] == "Measured"
    )


@contextlib.contextmanager
def started(spec: Path, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Start a run with node processes, and yield it in its third epoch; kill it at the end."""
    words = [*JOBRUN, "run", str(spec), "--run-dir", str(folder), "--session", "processes", *more]
    process = subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    try:
        wait_until(lambda: 2 in of_run(folder), "epoch 2")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def of_run(folder: Path) -> dict[int, Path]:
    """Return the saved epochs of the one run below a folder, or nothing before the first."""
    folders = list(folder.glob("*/2*/checkpoints"))
    return epochs(folders[0].parent) if folders else {}


def nodes_under(pid: int) -> dict[str, int]:
    """Return the process ids of the nodes that a command started, by the names of the nodes."""
    pids, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                stat = (entry / "stat").read_bytes().rpartition(b") ")[2].split()
                parents[int(entry.name)] = int(stat[1])
                if b"jobrun.session.processes.worker" in words and stat[0] != b"Z":
                    pids[words[-2].decode()] = int(entry.name)

    def is_below(ancestor: int) -> bool:
        while ancestor > 1:
            ancestor = parents.get(ancestor, 0)
            if ancestor == pid:
                return True
        return False

    return {node: child for node, child in pids.items() if is_below(child)}


def kill_node(pid: int, node: str) -> int:
    """Kill the process of a node that a command started, and return its process id."""
    wait_until(lambda: node in nodes_under(pid), f"process of {node}")
    victim = nodes_under(pid)[node]
    os.kill(victim, signal.SIGKILL)
    return victim


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    with contextlib.suppress(OSError):
        return Path("/proc", str(pid), "stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    return False
