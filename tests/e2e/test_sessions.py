"""The same job in another session: the same bits, also when nodes are lost on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT, SPECS, environment, jobrun
from tests.support.session_runs import (
    AVERAGING,
    EXACT,
    SLOW,
    is_alive,
    kill_node,
    nodes_under,
    run,
    same,
    same_in,
    started,
)
from tests.support.stored_runs import only_run
from tests.support.waiting import wait_until


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A spec with epochs long enough to be hit."""
    (tmp_path / "slow_library.py").write_text(
        "import time\n\n\ndef pause(seconds):\n    time.sleep(seconds)\n"
    )
    path = tmp_path / "slow.yaml"
    path.write_text(SLOW)
    return path


# What libraries warn of is no error outside of tests.
@pytest.mark.long
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", EXACT)
def test_a_shipped_spec_gives_the_same_bits_in_processes(name, tmp_path):
    same_in("processes", SPECS / name, tmp_path)


@pytest.mark.long
def test_parameters_are_averaged_alike_on_four_nodes(tmp_path):
    same_in("processes", SPECS / AVERAGING, tmp_path, "nodes.trainer.count=4")


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), [("threads", "processes"), ("processes", "threads")])
def test_a_run_of_one_session_continues_in_the_other(first, second, tmp_path):
    short = ("--set", "stop[1].epochs=6", "--set", "checkpoint.keep.last=1000", "--set",
             "expect=[]")  # fmt: skip
    whole = run(SPECS / AVERAGING, tmp_path / "whole", *short)
    folder = tmp_path / "parts"
    spec = SPECS / AVERAGING

    begun = jobrun(
        "run",
        spec,
        "--run-dir",
        folder,
        "--max-epochs",
        "3",
        "--session",
        first,
        *short,
        started=True,
    )
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
            victim = kill_node(process.pid, f"trainer_{number % 2}")
            wait_until(lambda gone=victim: _is_replaced(process, gone), "new process")
        _, output = process.communicate(timeout=60)

    assert process.returncode == 0, output
    assert output.count("is lost: its process was ended by SIGKILL") == times
    same(whole, only_run(tmp_path / "hit"))


def _is_replaced(process: subprocess.Popen[str], gone: int, count: int = 2) -> bool:
    if process.poll() is not None:
        pytest.fail(f"it ended with {process.returncode}")
    nodes = nodes_under(process.pid)
    return len(nodes) == count and gone not in nodes.values()


@pytest.mark.long
def test_nodes_that_are_lost_again_and_again_end_the_command_and_resume_continues(slow, tmp_path):
    whole = run(slow, tmp_path / "whole")

    with started(slow, tmp_path / "hit", "--max-failures", "0") as process:
        kill_node(process.pid, "trainer_1")
        _, output = process.communicate(timeout=60)
    done = jobrun("resume", "--run-dir", tmp_path / "hit", "--session", "processes", started=True)

    assert process.returncode == 7, output
    assert "error[E395]" in output
    assert done.returncode == 0, done.stderr
    same(whole, only_run(tmp_path / "hit"))


@pytest.mark.long
def test_ctrl_c_ends_all_processes_in_good_order(slow, tmp_path):
    with started(slow, tmp_path / "hit") as process:
        nodes = nodes_under(process.pid)
        # As a terminal does: to all of them.
        os.killpg(process.pid, signal.SIGINT)
        _, output = process.communicate(timeout=60)

    assert len(nodes) == 2
    assert process.returncode == 130, output
    assert "is lost" not in output
    assert not any(map(is_alive, nodes.values()))


@pytest.mark.long
def test_nodes_end_with_their_master_and_the_run_continues_later(slow, tmp_path):
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


FALLS = """\
jobrun: 1
name: falls
seed: 3
nodes: {trainer: {count: 2}}
init:
  - task: data
    node: trainer
    rebuild: true
    steps: [{call: "falls:rebuild"}, "c = arange(100.0)"]
  - {task: make, node: trainer, needs: [data], steps: ["w = rng.random(100)", {call: "falls:init"}]}
epoch:
  - task: average
    node: trainer
    steps: [{pull: {m: {from: trainer, blob: w, reduce: mean}}}]
    outputs: [m]
  - task: walk
    node: trainer
    needs: [average]
    steps:
      - w = average.m + c * rng.random(100)
      - {call: "falls:walk", with: {epoch: epoch}}
      - metric: {first: "w[0]"}
download:
  - task: gather
    node: trainer_1
    steps: [{pull: {every: {from: trainer, blob: w, reduce: stack}}}, {call: "falls:download"}]
exit:
  - task: keep
    node: trainer_1
    steps: [{save: {every: "${run.dir}/artifacts/every.npz::w"}}, {call: "falls:leave"}]
stop: [{epochs: 4}]
checkpoint: {every: 1ep, keep: {last: 100}}
"""
FALLS_LIBRARY = """\
import os
import pathlib
import signal

LEFT = pathlib.Path(__file__).with_name("left.txt")


def fall(place, node):
    left = LEFT.read_text().split()
    if node == "trainer_1" and left and left[0] == place:
        LEFT.write_text(" ".join(left[1:]))
        os.kill(os.getpid(), signal.SIGKILL)


def rebuild(node):
    fall("rebuild", node)


def init(node):
    fall("init", node)


def walk(node, epoch):
    fall(f"epoch-{epoch}", node)


def download(node):
    fall("download", node)


def leave(node):
    fall("exit", node)
"""


def falling(folder: Path, *places: str) -> Path:
    """A spec whose second node kills itself when it reaches these places, one after the other."""
    folder.mkdir(exist_ok=True)
    (folder / "falls.py").write_text(FALLS_LIBRARY)
    (folder / "left.txt").write_text(" ".join(places))
    (folder / "falls.yaml").write_text(FALLS)
    return folder / "falls.yaml"


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    return run(falling(folder), folder / "runs")


@pytest.mark.long
@pytest.mark.parametrize(
    "places",
    ["init", "epoch-3", "download", "exit", "rebuild", "epoch-2 rebuild rebuild epoch-2",
     "epoch-4 download exit"],
)  # fmt: skip
def test_a_node_that_dies_in_any_phase_costs_no_bit(places, unbroken, tmp_path):
    spec = falling(tmp_path / "hit", *places.split())

    actual = run(spec, tmp_path / "runs", "--session", "processes", "--max-failures", "4")

    assert (tmp_path / "hit" / "left.txt").read_text() == ""
    same(unbroken, actual)


@pytest.mark.long
@pytest.mark.parametrize("point", ["checkpoint.file-half-written", "checkpoint.file-synced"])
def test_nodes_that_die_at_every_third_save_cost_no_bit(point, unbroken, tmp_path):
    spec = falling(tmp_path / "hit")
    env = environment(JOBRUN_CRASHPOINT=f"{point}:3")

    done = jobrun(
        "run", spec, "--run-dir", tmp_path / "runs", "--session", "processes", env=env, started=True
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is lost: its process was ended by SIGKILL") >= 2
    same(unbroken, only_run(tmp_path / "runs"))


WITHIN = """\
jobrun: 1
name: within
seed: 4
readers:
  rows: {counter: {stop: 40}, fields: [i]}
init:
  - {task: make, steps: ["w = zeros(50)", "seen = 0"]}
epoch:
  - task: fit
    read: rows
    steps:
      - {call: "slow_library:pause", with: {seconds: 0.01}}
      - w = w * 0.5 + rng.random(50) * i
      - seen += 1
      - metric: {first: "w[0]"}
metrics: {seen: seen}
checkpoint: {every: 4 records, keep: {last: 100}}
stop: [{epochs: 4}]
"""


@pytest.mark.long
def test_a_node_that_is_killed_within_an_epoch_continues_where_that_was_saved(slow, tmp_path):
    slow.write_text(WITHIN)
    whole = run(slow, tmp_path / "whole")

    with started(slow, tmp_path / "hit") as process:
        for _ in range(3):
            wait_until(lambda: len(nodes_under(process.pid)) == 1, "process of the node")
            (victim,) = nodes_under(process.pid).values()
            before = within(tmp_path / "hit")
            wait_until(lambda known=before: within(tmp_path / "hit") - known, "save in an epoch")
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda gone=victim: _is_replaced(process, gone, 1), "new process")
        _, output = process.communicate(timeout=60)

    assert process.returncode == 0, output
    assert output.count("of its records (loss") >= 2
    same(whole, only_run(tmp_path / "hit"))


def within(folder: Path) -> set[str]:
    """Checkpoints within epochs that are there now."""
    return {path.name for path in folder.glob("*/2*/checkpoints/epoch-*.records-*")}


@pytest.mark.long
def test_a_profile_has_the_steps_and_a_lane_of_each_node(tmp_path):
    actual = run(
        SPECS / AVERAGING,
        tmp_path,
        "--session",
        "processes",
        "--profile",
        "--epochs",
        "2",
        "--set",
        "expect=[]",
    )

    table = json.loads((actual / "profile" / "table-1.json").read_text())
    trace = json.loads((actual / "profile" / "trace-1.json").read_text())["traceEvents"]
    calls = {row["path"]: row["calls"] for row in table["steps"]}
    assert calls["epoch/train/steps[1]"] == 4
    assert {row["node"] for row in table["nodes"]} == {"trainer_0", "trainer_1"}
    lanes = {
        entry["pid"]: entry["args"]["name"] for entry in trace if entry["name"] == "process_name"
    }
    bars = [entry for entry in trace if entry["name"] == "epoch/train"]
    assert sorted((lanes[bar["pid"]], bar["args"]["epoch"]) for bar in bars) == [
        (f"node trainer_{number}", epoch) for number in (0, 1) for epoch in (1, 2)
    ]
