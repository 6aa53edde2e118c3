from __future__ import annotations

import csv
import json
import signal
import subprocess

import pytest

from jobrun.cli.run_command import invoke
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.run_directories import runs
from jobrun.tools.sweep.sweep_design import sweep_folder
from tests.support.command import JOBRUN, environment
from tests.support.sweeps import grow_spec
from tests.support.waiting import wait_until

SLOW = "      - {run: [sleep, '0.05']}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grow_spec(tmp_path)
    return tmp_path


def failed(capsys, *words):
    code = invoke(["sweep", "grow.yaml", *words])
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


def results(folder):
    """What a sweep found, without the names of its runs."""
    done = subprocess.run(
        [*JOBRUN, "sweep", "grow.yaml", "--status", "--csv"], cwd=folder, env=environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [row[:-1] for row in csv.reader(done.stdout.splitlines())]


def finished_epochs(below):
    return sorted(run.record.epoch for run in runs(below) if run.record.status == "finished")


@pytest.mark.long
def test_points_are_ordinary_runs_and_what_failed_is_all_that_runs_again(folder, capfd):
    words = ["sweep", "grow.yaml", "--grid", "k=2,40", "--best", "max:x", "--json"]

    assert invoke(words) == 1
    first = json.loads(capfd.readouterr().out)
    assert [entry["state"] for entry in first["points"]] == ["finished", "failed"]
    assert first["best"]["values"] == {"k": 2}
    first_records = {run.record.job: run.record for run in runs(folder / "runs")}
    assert invoke(["runs", "--tag", "sweep=grow", "--tag", "k=2"]) == 0
    listed = capfd.readouterr().out.splitlines()
    assert (len(listed), listed[0].startswith("sweep grow")) == (2, True)

    # What fails is mended in a way that is no drift: the limit of the epochs.
    assert invoke([*words, "--epochs", "2"]) == 0
    second = json.loads(capfd.readouterr().out)
    assert [entry["state"] for entry in second["points"]] == ["finished", "finished"]
    assert [entry["run"] for entry in second["points"]] == [
        entry["run"] for entry in first["points"]
    ]
    assert len(runs(folder / "runs")) == len(first_records) == 2


def test_what_makes_no_sense_is_refused_before_anything_is_made(folder, capsys):
    for arguments, code, message in [
        (["--grid", "kk=1,2"], 3, "did you mean 'k'"),
        (["--grid", "k=1,x"], 3, "error[E036] --grid #1"),
        (["--grid", "k"], 2, "error[E435]"),
        (["--grid", "k=1..5"], 2, "error[E436]"),
        (["--grid", "k=1,2", "--best", "z"], 2, "error[E424]"),
        (["--status"], 2, "error[E438]"),
        (["--grid", "k=1", "--csv", "--json"], 2, "error[E404]"),
        (["--random", "3"], 2, "no axis is given"),
        (["--grid", "k=1", "--watch"], 2, "add --status"),
    ]:
        exit_code, text = failed(capsys, *arguments)
        assert (exit_code, message in text) == (code, True), text
    assert not (folder / "runs").exists()


def test_two_sweeps_of_one_name_do_not_run_at_a_time(folder, capsys):
    sweep_directory = sweep_folder(folder / "runs", "grow")
    sweep_directory.mkdir(parents=True)

    with RunLock.acquire(sweep_directory):
        code, text = failed(capsys, "--grid", "k=1")

    assert code == 6
    assert "error[E439] the sweep 'grow' is already running" in text


def test_status_shows_points_that_have_not_begun(folder, capsys):
    code = invoke(["sweep", "grow.yaml", "--grid", "k=1,2", "--status"])

    captured = capsys.readouterr()
    assert code == 0
    assert captured.out.count("not started") == 3
    assert "0 of 2 points finished, 2 not started" in captured.out
    assert not (folder / "runs").exists()


@pytest.mark.long
def test_a_sweep_that_is_killed_and_repeated_ends_as_an_unbroken_one(folder, tmp_path_factory):
    whole = tmp_path_factory.mktemp("whole")
    for directory in (folder, whole):
        path = grow_spec(directory)
        text = path.read_text().replace("    steps:\n", "    steps:\n" + SLOW)
        path.write_text(text.replace("epochs: 3", "epochs: 12"))
    words = [*JOBRUN, "sweep", "grow.yaml", "--grid", "k=1,2,3", "--grid", "rate=0.1,0.7"]
    words += ["--jobs", "3"]
    subprocess.run(words, cwd=whole, env=environment(), check=True, capture_output=True)

    kills = 0
    for wait_s in (0.8, 1.3, 1.8, 1.1, 1.6):
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL if kills % 2 == 0 else signal.SIGTERM)
            process.wait()
            kills += 1
    done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, check=False)

    assert kills >= 2
    assert done.returncode == 0, done.stderr
    assert results(folder) == results(whole)
    assert len(runs(folder / "runs")) == 6


def test_its_runs_get_the_session_and_the_maximum_of_failures(folder, monkeypatch):
    words = []

    class Noting:
        def __init__(self, command, *_):
            words.extend(command)

        def run(self, points):
            return 0

    monkeypatch.setattr("jobrun.cli.jobs.sweep.Pool", Noting)
    invoke(["sweep", "grow.yaml", "--grid", "k=2", "--session", "processes", "--max-failures", "7"])

    assert words[-4:] == ["--session", "processes", "--max-failures", "7"]


def test_a_watched_sweep_ends_when_nothing_runs(folder, capsys, monkeypatch):
    sweep_directory = sweep_folder(folder / "runs", "grow")
    sweep_directory.mkdir(parents=True)
    lock = RunLock.acquire(sweep_directory)
    monkeypatch.setattr("time.sleep", lambda seconds: lock.release())

    assert invoke(["sweep", "grow.yaml", "--grid", "k=1,2", "--status", "--watch"]) == 0
    assert capsys.readouterr().out.count("not started") >= 4


def _refused_by_drift(folder):
    path = folder / "grow.yaml"
    path.write_text(path.read_text().replace("x = 0.0", "x = 1.0"))


def _cannot_start(folder):
    (folder / "near.py").unlink()


def _expects_more(folder):
    path = folder / "grow.yaml"
    path.write_text(path.read_text() + "expect: [x > 99]\n")


def _cannot_be_written(folder):
    for path in folder.glob("runs/*/2*"):
        (path / "checkpoints").rename(path / "moved")
        (path / "checkpoints").write_text("in the way")


# A change, the options of the second sweep, the codes of its points, and its own.
ATTEMPTS = {
    "drift": (_refused_by_drift, (), 5, 5),
    "a module that is gone": (_cannot_start, ("--epochs", "2"), None, None),
    "damage": (_cannot_be_written, ("--epochs", "9"), None, None),
    "an expectation": (_expects_more, (), 9, 9),
    "a limit": (lambda folder: None, ("--epochs", "2"), 0, 0),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_sweep_reports_what_this_attempt_came_to(folder, capfd, name):
    change, words, point_code, code = ATTEMPTS[name]
    (folder / "near.py").write_text("def same(x):\n    return x\n")
    path = folder / "grow.yaml"
    call = "steps:\n      - {call: 'near:same', with: {x: x}, out: x}\n"
    path.write_text(path.read_text().replace("steps:\n", call))
    assert invoke(["sweep", "grow.yaml", "--grid", "k=1,2"]) == 0
    change(folder)
    capfd.readouterr()

    ended = invoke(["sweep", "grow.yaml", "--json", *words])

    points = json.loads(capfd.readouterr().out)["points"]
    codes = {point["exit_code"] for point in points}
    if point_code is None:
        assert 0 not in codes
        assert ended != 0
    else:
        assert (codes, ended) == ({point_code}, code)
    states = {0: "finished", 9: "unexpected"}
    assert {point["state"] for point in points} == {states.get(point_code, "failed")}
    if states.get(point_code, "failed") == "failed":
        assert [point["metrics"] for point in points] == [{}, {}]
        assert all(point["reason"].startswith("[E") for point in points)
        assert invoke(["sweep", "grow.yaml", *words]) == ended
        assert "0 of 2 points finished, 2 failed" in capfd.readouterr().out


@pytest.mark.long
def test_a_point_that_another_process_holds_is_no_finished_point(folder, capfd):
    spec = (folder / "grow.yaml").read_text()
    assert invoke(["sweep", "grow.yaml", "--grid", "k=1,2"]) == 0
    (folder / "grow.yaml").write_text(spec.replace("stop: [epochs: 3]", "stop: [epochs: 4]"))
    capfd.readouterr()
    live = [run for run in runs(folder / "runs") if run.record.params["k"] == 1]
    with RunLock.acquire(live[0].path):
        process = subprocess.Popen(
            [*JOBRUN, "sweep", "grow.yaml", "--json"], cwd=folder, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_until(lambda: finished_epochs(folder / "runs") == [3, 4])
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()

    assert process.returncode == 75, err
    states = {point["values"]["k"]: point["state"] for point in json.loads(out)["points"]}
    assert states == {1: "running", 2: "finished"}
