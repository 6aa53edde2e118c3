"""Where the time of a run went, and what its processes used: in all commands, and after a kill."""

from __future__ import annotations

import csv
import io
import json

import pytest

from jobrun.cli.run_command import invoke
from tests.support.command import jobrun

JOB = """
jobrun: 1
name: use
init: [{task: begin, steps: ["x = 0.0"]}]
epoch: [{task: step, steps: ["x = x + 1"]}]
metrics: {x: x}
stop: [epochs: 3]
checkpoint: {every: 1ep}
"""
GROWING = """
import os, signal, time
from pathlib import Path
import numpy as np

kept = []

def step(epoch, run_dir):
    marker = Path(run_dir, "killed")
    if epoch == 3 and not marker.exists():
        kept.append(np.ones(25 << 20))
        time.sleep(1.5)
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(epoch)
"""
CALLING = JOB.replace('"x = x + 1"', '{call: "growing:step", out: x}')
NODES = """
jobrun: 1
name: nodes
nodes: {a: {}, b: {}}
readers: {rows: {counter: {stop: 8}, fields: {i: i}}}
init: [{task: begin, node: a, steps: ["x = 0"]}, {task: other, node: b, steps: ["y = 0"]}]
epoch:
  - {task: read, node: a, read: rows, steps: ["x = x + i", {call: "napping:nap"}]}
  - {task: wait, node: b, steps: ["y = y + 1"]}
stop: [epochs: 2]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def as_json(capsys, *words):
    capsys.readouterr()
    assert invoke([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_times_add_up_and_are_the_same_in_all_commands(folder, capsys):
    (folder / "use.yaml").write_text(JOB)

    output = as_json(capsys, "run", "use.yaml")

    times = output["times_s"]
    assert sum(times[row] for row in times if row != "total") == pytest.approx(times["total"])
    assert times["startup"] > 0
    assert times["computing"] > 0
    assert times["saves"] > 0
    assert output["processes"][0]["peak_bytes"] > 1 << 20
    for command in (["status"], ["report", "latest"]):
        other = as_json(capsys, *command)
        assert (other.get("runs") or [other])[0]["times_s"] == times


def test_people_are_shown_where_the_time_went(folder, capsys):
    (folder / "use.yaml").write_text(JOB)

    assert invoke(["run", "use.yaml", "--profile"]) == 0
    output = capsys.readouterr().err
    assert output.count("start-up") == 2
    assert "memory" in output
    assert invoke(["status"]) == 0
    output = capsys.readouterr().out
    assert "start-up" in output
    assert "processor" in output


def test_resources_are_a_table_by_epoch(folder, capsys):
    (folder / "use.yaml").write_text(JOB)
    assert invoke(["run", "use.yaml", "-q"]) == 0
    capsys.readouterr()

    assert invoke(["metrics", "latest", "--resources", "--csv"]) == 0

    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows[-1]["epoch"] == "3"
    assert int(rows[-1]["peak_bytes"]) > 1 << 20


def test_metrics_hold_no_resources(folder, capsys):
    (folder / "use.yaml").write_text(JOB)
    assert invoke(["run", "use.yaml", "-q"]) == 0

    assert as_json(capsys, "metrics", "latest")["names"] == ["x"]


@pytest.mark.long
def test_a_killed_start_counts_and_shows_the_epoch_in_which_memory_grew(folder, capsys):
    (folder / "growing.py").write_text(GROWING)
    (folder / "use.yaml").write_text(CALLING)
    assert jobrun("run", "use.yaml", "-q", cwd=folder, started=True).returncode == 7

    killed = as_json(capsys, "status")
    assert killed["starts"] == 1
    rows = as_json(capsys, "metrics", "latest", "--resources")["epochs"]
    assert rows[-1]["epoch"] == 3
    assert rows[-1]["resident_bytes"] - rows[0]["resident_bytes"] > 100 << 20
    assert invoke(["status"]) == 0
    assert "epoch 3, in which memory grew" in capsys.readouterr().out

    assert jobrun("resume", "-q", cwd=folder).returncode == 0

    whole = as_json(capsys, "status")
    assert whole["starts"] == 2
    assert whole["times_s"]["total"] > killed["times_s"]["total"] > 0


@pytest.mark.long
@pytest.mark.parametrize("session", ["threads", "processes"])
def test_a_node_that_waits_for_another_is_accounted_for_in_each_session(folder, session):
    (folder / "nodes.yaml").write_text(NODES)
    (folder / "napping.py").write_text("import time\ndef nap():\n    time.sleep(0.1)\n")

    ended = jobrun("run", "nodes.yaml", "-q", "--json", "--session", session, cwd=folder)

    output = json.loads(ended.stdout)
    # Of 1.6 s in which one node works, the other one waits nearly all.
    assert output["times_s"]["nodes"] > 0.4
    assert output["times_s"]["computing"] > 0.4
    nodes = [entry["node"] for entry in output["processes"]]
    assert nodes == ([""] if session == "threads" else ["", "a", "b"])
