"""The same job in another session: the same bits, also when nodes are lost on the way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import JOBRUN, ROOT, SPECS, environment, jobrun
from tests.support.stored import blobs, epochs, only_run, progress

# What races on purpose has other bits each time, in any session.
EXACT = sorted(
    path.name for path in SPECS.glob("*.yaml") if "hogwild: true" not in path.read_text()
)
AVERAGING = "parameter-averaging.yaml"
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
"""


def run(spec: Path, folder: Path, *more: str) -> Path:
    done = jobrun("run", spec, "--run-dir", folder, *more, started=True)
    assert done.returncode == 0, done.stderr
    return only_run(folder)


def same(one: Path, other: Path) -> None:
    """All epochs hold the same, and so do the artifacts and the metrics."""
    expected, found = epochs(one), epochs(other)
    assert list(found) == list(expected)
    for number, path in found.items():
        assert blobs(path) == blobs(expected[number]), f"epoch {number}"
        assert progress(path) == progress(expected[number]), f"epoch {number}"
    for path in sorted((one / "artifacts").glob("*")):
        assert (other / "artifacts" / path.name).read_bytes() == path.read_bytes(), path.name
    assert measured(other) == measured(one)


def measured(run_: Path) -> list[tuple[object, ...]]:
    lines = map(json.loads, (run_ / "metrics.jsonl").read_text().splitlines())
    return sorted(
        (one["epoch"], one["name"], one["node"], one["task"], one["value"])
        for one in lines
        if one["event"] == "Measured"
    )


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A spec with epochs long enough to be hit."""
    (tmp_path / "slow_library.py").write_text(
        "import time\n\n\ndef pause(seconds):\n    time.sleep(seconds)\n"
    )
    path = tmp_path / "slow.yaml"
    path.write_text(SLOW)
    return path


@contextlib.contextmanager
def started(spec: Path, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The command, under way in its third epoch."""
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
    found = list(folder.glob("*/2*/checkpoints"))
    return epochs(found[0].parent) if found else {}


def wait_until(is_so, what: str) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.01)


def nodes_under(pid: int) -> dict[str, int]:
    """The processes of the nodes of a command, by the names of the nodes."""
    found, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                stat = (entry / "stat").read_bytes().rpartition(b") ")[2].split()
                parents[int(entry.name)] = int(stat[1])
                if b"jobrun.session.worker" in words and stat[0] != b"Z":
                    found[words[-2].decode()] = int(entry.name)

    def is_below(one: int) -> bool:
        while one > 1:
            one = parents.get(one, 0)
            if one == pid:
                return True
        return False

    return {node: one for node, one in found.items() if is_below(one)}


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path("/proc", str(pid), "stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    return False


@pytest.mark.long
@pytest.mark.parametrize("name", EXACT)
def test_a_shipped_spec_gives_the_same_bits_in_processes(name, tmp_path):
    more = ("--set", "checkpoint.keep.last=1000") if "keep" in (SPECS / name).read_text() else ()

    here = run(SPECS / name, tmp_path / "threads", *more)
    there = run(SPECS / name, tmp_path / "processes", "--session", "processes", *more)

    same(here, there)


@pytest.mark.long
def test_parameters_are_averaged_alike_on_four_nodes(tmp_path):
    four = ("--set", "nodes.trainer.count=4")

    here = run(SPECS / AVERAGING, tmp_path / "threads", *four)
    there = run(SPECS / AVERAGING, tmp_path / "processes", *four, "--session", "processes")

    same(here, there)


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), [("threads", "processes"), ("processes", "threads")])
def test_a_run_of_one_session_goes_on_in_the_other(first, second, tmp_path):
    short = ("--set", "stop[1].epochs=6", "--set", "checkpoint.keep.last=1000", "--set",
             "expect=[]")  # fmt: skip
    whole = run(SPECS / AVERAGING, tmp_path / "whole", *short)
    folder = tmp_path / "parts"
    spec = SPECS / AVERAGING

    begun = jobrun("run", spec, "--run-dir", folder, "--max-epochs", "3", "--session", first,
                   *short, started=True)  # fmt: skip
    ended = jobrun("resume", "--run-dir", folder, "--session", second, started=True)

    assert (begun.returncode, ended.returncode) == (75, 0), ended.stderr
    same(whole, only_run(folder))


@pytest.mark.long
def test_the_session_can_be_chosen_by_a_variable(slow, tmp_path):
    env = environment(JOBRUN_SESSION="processes")
    text = slow.read_text().replace("with: {seconds: 0.1}", "with: {seconds: 0}")
    slow.write_text(text.replace('"slow_library:pause"', '"slow_library:same"'))
    (tmp_path / "slow_library.py").write_text(
        "import os, pathlib\n\n\n"
        "def same(seconds, node):\n    pathlib.Path(f'{node}.pid').write_text(str(os.getpid()))\n"
    )

    done = jobrun("run", slow, "--run-dir", tmp_path / "r", cwd=tmp_path, env=env, started=True)

    assert done.returncode == 0, done.stderr
    pids = {path.read_text() for path in tmp_path.glob("*.pid")}
    assert len(pids) == 2


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 3])
def test_a_node_that_is_killed_costs_an_epoch_and_no_bit(slow, tmp_path, times):
    whole = run(slow, tmp_path / "whole")

    with started(slow, tmp_path / "hit") as process:
        for number in range(times):
            victim = nodes_under(process.pid)[f"trainer_{number % 2}"]
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda gone=victim: _is_replaced(process, gone), "new process")
        _, said = process.communicate(timeout=60)

    assert process.returncode == 0, said
    assert said.count("is lost: its process was ended by SIGKILL") == times
    same(whole, only_run(tmp_path / "hit"))


def _is_replaced(process: subprocess.Popen[str], gone: int) -> bool:
    if process.poll() is not None:
        pytest.fail(f"it ended with {process.returncode}")
    nodes = nodes_under(process.pid)
    return len(nodes) == 2 and gone not in nodes.values()


@pytest.mark.long
def test_nodes_that_are_lost_again_and_again_end_the_command_and_resume_goes_on(slow, tmp_path):
    whole = run(slow, tmp_path / "whole")

    with started(slow, tmp_path / "hit", "--max-failures", "0") as process:
        os.kill(nodes_under(process.pid)["trainer_1"], signal.SIGKILL)
        _, said = process.communicate(timeout=60)
    done = jobrun("resume", "--run-dir", tmp_path / "hit", "--session", "processes", started=True)

    assert process.returncode == 7, said
    assert "error[E395]" in said
    assert done.returncode == 0, done.stderr
    same(whole, only_run(tmp_path / "hit"))


@pytest.mark.long
def test_ctrl_c_ends_all_processes_in_good_order(slow, tmp_path):
    with started(slow, tmp_path / "hit") as process:
        nodes = nodes_under(process.pid)
        # As a terminal does: to all of them.
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)

    assert len(nodes) == 2
    assert process.returncode == 130, said
    assert "is lost" not in said
    assert not any(map(is_alive, nodes.values()))


@pytest.mark.long
def test_nodes_end_with_their_master_and_the_run_goes_on_later(slow, tmp_path):
    whole = run(slow, tmp_path / "whole")

    with started(slow, tmp_path / "hit") as process:
        nodes = nodes_under(process.pid)
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(is_alive, nodes.values())), "end of the nodes")
    done = jobrun("resume", "--run-dir", tmp_path / "hit", started=True)

    assert done.returncode == 0, done.stderr
    same(whole, only_run(tmp_path / "hit"))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_conformance_case_holds_in_processes():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not long",
         "--benchmark-disable", "tests/conformance"],
        cwd=ROOT, env=environment(PYTEST_ADDOPTS=None, CONFORMANCE_SESSION="processes"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-3000:]
