"""A proof leaves the user's files as they are, whatever habits the job has with files."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import h5py
import numpy as np
import pytest

from jobrun.cli.run_command import invoke
from jobrun.tools.isolation import folder_copy, landlock

# Each function has a habit of programs that keep files beside themselves.
HABITS = """
import csv, logging, mmap, os, pathlib, shutil, sqlite3, subprocess

import h5py
import numpy as np


def append_rows(x):
    with open("traj.csv", "a", newline="") as file:
        csv.writer(file).writerow([float(x[0])])

def insert_rows(x):
    with sqlite3.connect("jobs.db") as base:
        base.execute("insert into t values (?)", (float(x[0]),))

def keep_a_journal(x):
    base = sqlite3.connect("wal.db")
    base.execute("pragma journal_mode=wal")
    base.execute("create table if not exists t(v)")
    base.execute("insert into t values (?)", (float(x[0]),))
    base.commit()

def number_arrays(x):
    np.save(f"out/x-{len(os.listdir('out'))}.npy", x)

def log_to_a_file(x):
    handler = logging.FileHandler("job.log")
    logger = logging.Logger("job")
    logger.addHandler(handler)
    logger.warning("%s", x[0])
    handler.close()

def write_beside_the_module(x):
    pathlib.Path(__file__).with_name("beside.txt").write_text(str(x))

def change_directory(x):
    here = os.getcwd()
    os.chdir("out")
    with open("moved.txt", "a") as file:
        file.write("x")
    os.chdir(here)

def map_a_file(x):
    memory = np.memmap("map.bin", dtype="f8", mode="r+", shape=(3,))
    memory[:] = x
    memory.flush()

def append_to_hdf5(x):
    with h5py.File("rows.h5", "a") as file:
        file["v"].resize(len(file["v"]) + 1, axis=0)

def rename_and_remove(x):
    if os.path.exists("old.txt"):
        os.replace("old.txt", "new.txt")
    if os.path.exists("gone.txt"):
        os.remove("gone.txt")
    shutil.rmtree("tree", ignore_errors=True)

def start_a_program(x):
    subprocess.run(["sh", "-c", "echo x >> program.txt"], check=True)

def write_through_a_link(x):
    with open("link.txt", "a") as file:
        file.write("x")

def write_by_the_other_name(x):
    with open("hard-2.txt", "a") as file:
        file.write("x")

def touch_and_change_the_mode(x):
    os.utime("touched.txt", (1, 1))
    os.chmod("touched.txt", 0o600)

def write_above(x):
    with open("../above.txt", "a") as file:
        file.write("x")
"""
NAMES = re.findall(r"def (\w+)", HABITS)
SPEC = """
jobrun: 1
name: habits
init:
  - {task: data, rebuild: true, steps: [{load: {a: "../data/a.npz::a"}}]}
  - {task: begin, steps: ["x = zeros(3)"]}
epoch:
  - task: step
    steps:
      - x += a + rng.random(3)
%s
      - {run: "echo x >> shell.txt"}
exit:
  - {task: end, steps: [{save: {x: result.npy}}]}
stop: [epochs: 3]
"""


def facts(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return bytes, mode and times of all that is below a folder, but for runs."""
    by_name = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        name = str(path.relative_to(folder))
        by_name[name] = content, status.st_mode, status.st_mtime_ns, status.st_nlink
    return by_name


def prove(capsys, *words: str) -> tuple[int, str, str]:
    code = invoke(["prove", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "a.npz", a=np.ones(3))
    folder = tmp_path / "project"
    (folder / "out").mkdir(parents=True)
    (folder / "tree" / "deep").mkdir(parents=True)
    for name in ("traj.csv", "job.log", "shell.txt", "program.txt", "old.txt", "gone.txt",
                 "tree/deep/f.txt", "hard-1.txt", "touched.txt", "result.npy"):  # fmt: skip
        (folder / name).write_text("precious\n")
    (folder / "hard-2.txt").hardlink_to(folder / "hard-1.txt")
    (folder / "link.txt").symlink_to(folder / "traj.csv")
    np.zeros(3).tofile(folder / "map.bin")
    with sqlite3.connect(folder / "jobs.db") as base:
        base.execute("create table t(v)")
    with h5py.File(folder / "rows.h5", "w") as file:
        file.create_dataset("v", dtype="f8", shape=(0,), maxshape=(None,))
    (folder / "habits.py").write_text(HABITS)
    calls = "\n".join(f'      - {{call: "habits:{name}", with: {{x: x}}}}' for name in NAMES)
    (folder / "habits.yaml").write_text(SPEC % calls)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("session", ["threads", "processes"])
def test_no_file_of_the_user_changes_whatever_the_job_does_with_files(project, capsys, session):
    before = facts(project.parent)

    code, output, errors = prove(
        capsys, "habits.yaml", "--kills", "3", "--json", "--session", session,
        "--run-dir", str(project.parent.parent / f"{project.parent.name}-runs"), "--keep",
    )  # fmt: skip

    assert facts(project.parent) == before, errors
    proof = json.loads(output)
    assert code == (0 if proof["proven"] else 8)
    written = {
        "traj.csv", "jobs.db", "wal.db", "job.log", "beside.txt", "map.bin", "rows.h5", "old.txt",
        "new.txt", "gone.txt", "program.txt", "link.txt", "hard-1.txt", "hard-2.txt", "shell.txt",
        "touched.txt", "../above.txt", "out/moved.txt", "out/x-0.npy", "result.npy",
        "tree/deep/f.txt",
    }  # fmt: skip
    compared = {*proof["compared_files"], *proof["not_compared"]}
    # What is written through a link is in the file that it leads to.
    assert written - {"link.txt"} <= compared
    assert proof["outside_files"] == []
    assert (Path(proof["kept_in"]) / "reference").is_dir()


@pytest.mark.long
@pytest.mark.parametrize(
    "step",
    [
        '{call: "elsewhere:append", with: {path: "\'PATH\'"}}',
        '{run: "echo x >> PATH"}',
        '{save: {x: "PATH"}}',
    ],
)
def test_a_file_elsewhere_is_not_written_but_named(tmp_path, monkeypatch, capsys, step):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    target = tmp_path / "other.npy"
    target.write_text("precious")
    Path("elsewhere.py").write_text("def append(path):\n    open(path, 'a').write('x')\n")
    Path("job.yaml").write_text(
        "jobrun: 1\nname: j\ninit: [{task: b, steps: [x = zeros(2)]}]\n"
        f"epoch: [{{task: s, steps: [x += 1, {step.replace('PATH', str(target))}]}}]\n"
        "stop: [epochs: 2]\n"
    )

    code, _, errors = prove(capsys, "job.yaml", "--kills", "2")

    assert code == 8
    assert str(target) in errors
    assert "error[E475]" in errors
    assert target.read_text() == "precious"


@pytest.mark.long
def test_large_files_are_linked_and_cannot_be_written(project, capsys, monkeypatch):
    monkeypatch.setattr(folder_copy, "MOST_BYTES", 1_000)
    monkeypatch.setattr(folder_copy, "_share_blocks", lambda source, target: False)
    before = facts(project)

    code, _, errors = prove(capsys, "habits.yaml", "--kills", "2", "--run-dir", "../runs")

    assert code == 8
    assert f"error[E475] the job writes {project}/" in errors
    assert facts(project) == before


@pytest.mark.long
def test_the_original_program_changes_no_file_either(project, capsys):
    Path("train.yaml").write_text(
        "jobrun: 1\nname: t\ninit: [{task: b, steps: [x = zeros(2)]}]\n"
        "epoch: [{task: s, steps: [x += 1]}]\n"
        "exit: [{task: e, steps: [{save: {x: result.npy}}]}]\nstop: [epochs: 3]\n"
    )
    Path("original.py").write_text(
        "import numpy as np\nopen('traj.csv', 'a').write('x')\nopen('out/y.txt', 'w').write('y')\n"
        "np.save('result.npy', np.full(2, 2.0))\n"
    )
    before = facts(project)
    words = ("train.yaml", "--kills", "2", "--against", "python original.py", "--artifact",
             "result.npy", "--run-dir", "../runs")  # fmt: skip

    shortened = prove(capsys, *words, "--epochs", "2")
    whole = prove(capsys, *words)

    assert (shortened[0], whole[0]) == (0, 8)
    assert "after 2 epochs (--epochs)" in shortened[1]
    assert facts(project) == before


ROWS = """
jobrun: 1
name: rows
init:
  - {task: begin, steps: ["x = zeros(3)"]}
epoch:
  - {task: step, steps: [x += 1, {call: "rows:append", with: {x: x}}]}
stop: [epochs: 40]
checkpoint: {every: 7ep}
"""


@pytest.mark.long
def test_files_that_a_killed_copy_has_different_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("rows.py").write_text(
        "import time\ndef append(x):\n    open('traj.csv', 'a').write(f'{x[0]}\\n')\n"
        "    time.sleep(0.02)\n"
    )
    Path("rows.yaml").write_text(ROWS)
    Path("traj.csv").write_text("precious\n")

    code, output, _ = prove(capsys, "rows.yaml", "--kills", "6", "--jobs", "2")

    assert code == 8
    assert "NOT PROVEN" in output
    assert "DIFFERENT: the file traj.csv: " in output
    assert Path("traj.csv").read_text() == "precious\n"
    assert prove(capsys, "rows.yaml", "--kills", "6", "--without", "traj.*")[0] == 0


@pytest.mark.long
def test_without_landlock_changed_files_are_named_and_nothing_is_proven(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("jobrun.tools.isolation.isolation.landlock_version", lambda: 0)
    monkeypatch.setattr(landlock, "landlock_version", lambda: 0)
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "traj.csv"
    target.write_text("precious\n")
    Path("rows.py").write_text(f"def append(x):\n    open({str(target)!r}, 'a').write('x')\n")
    Path("rows.yaml").write_text(ROWS)

    code, output, _ = prove(capsys, "rows.yaml", "--kills", "2")

    assert code == 8
    assert f"files of the job changed meanwhile: {target}" in output
    assert "wrote (nothing here can prevent it)" in output
