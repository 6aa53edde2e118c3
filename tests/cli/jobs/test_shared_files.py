"""Files that runs write side by side in one folder are named."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from jobrun.cli.run_command import invoke

HABITS = """
import sqlite3

def step(k):
    open("traj.csv", "a").write("1")
    open(f"own-{k}.csv", "a").write("1")
    open("read.csv").read()
    sqlite3.connect("read.db").execute("select * from t")
"""
SPEC = """
jobrun: 1
name: NAME
params: {k: 1}
init: [{task: b, steps: [x = zeros(2)]}]
epoch:
  - task: s
    steps: [x += k, {call: "habits:step", with: {k: k}}, {run: "echo x >> shell.txt"}]
exit:
  - task: e
    steps: [{save: {x: w.npy}}, {save: {x: "${run.dir}/artifacts/w.npy"}}]
stop: [epochs: 2]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.yaml").write_text(SPEC.replace("NAME", name))
    Path("habits.py").write_text(HABITS)
    Path("read.csv").write_text("1")
    with sqlite3.connect("read.db") as base:
        base.execute("create table t(v)")
    return tmp_path


def shared(text: str) -> dict[str, list[str]]:
    return {Path(file["path"]).name: file["runs"] for file in json.loads(text)["shared_files"]}


@pytest.mark.long
@pytest.mark.parametrize("session", ["threads", "processes"])
def test_files_that_several_points_of_a_sweep_write_are_named(folder, capsys, session):
    words = ["sweep", "a.yaml", "--grid", "k=1,2", "--json", "--session", session]

    assert invoke(words) == 0

    captured = capsys.readouterr()
    both = ["k=1", "k=2"]
    assert shared(captured.out) == {"shell.txt": [], "traj.csv": both, "w.npy": both}
    assert f"warning: k=1, k=2 write {folder / 'traj.csv'}" in captured.err
    assert f"warning: {folder / 'shell.txt'} has changed" in captured.err
    assert "write it below ${run.dir}" in captured.err


@pytest.mark.long
def test_files_that_several_smoke_tests_write_are_named(folder, capsys):
    assert invoke(["test", "a.yaml", "b.yaml", "--json"]) == 0

    both = ["a.yaml", "b.yaml"]
    assert shared(capsys.readouterr().out) == {
        "own-1.csv": both, "shell.txt": [], "traj.csv": both, "w.npy": both,
    }  # fmt: skip


@pytest.mark.long
def test_one_run_alone_shares_no_file(folder, capsys):
    assert invoke(["test", "a.yaml", "--json"]) == 0

    assert shared(capsys.readouterr().out) == {}
