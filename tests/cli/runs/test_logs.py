from __future__ import annotations

import subprocess
import time

import pytest

from jobrun.cli.run_command import invoke
from jobrun.runner.rundir.lock import RunLock
from tests.support.command import JOBRUN, environment
from tests.support.sample_runs import make_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def test_all_lines_of_all_tasks_are_printed_with_their_tasks(run, capsys):
    assert invoke(["logs"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        f"halve [{epoch}] x is {8.0 / 2**epoch}" for epoch in (1, 2, 3, 4)
    ]


def test_one_task_and_its_last_lines_only(run, capsys):
    (run.path / "logs" / "halve.1.log").write_text("[4] other instance\n")

    assert invoke(["logs", "latest", "halve", "-n", "2"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "[4] other instance",
        "[3] x is 1.0",
        "[4] x is 0.5",
    ]


def test_the_last_none_of_the_lines_are_none(run, capsys):
    assert invoke(["logs", "latest", "-n", "0"]) == 0
    assert capsys.readouterr().out == ""


def test_the_last_lines_of_a_long_log_are_found_from_its_end(run, capsys):
    (run.path / "logs" / "halve.log").write_text("x" * 200_000 + "\nsecond\nthird\nhalf")

    assert invoke(["logs", "latest", "halve", "-n", "2"]) == 0

    assert capsys.readouterr().out.splitlines() == ["second", "third"]


def test_a_task_without_log_is_an_error_with_the_nearest_name(run, capsys):
    assert invoke(["logs", "latest", "halv"]) == 2
    assert "did you mean 'halve'" in capsys.readouterr().err


@pytest.mark.long
def test_followed_until_the_run_ends(run):
    with RunLock.acquire(run.path):
        child = subprocess.Popen(
            [*JOBRUN, "logs", "latest", "-f"], env=environment(), stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(4):
            child.stdout.readline()
        with (run.path / "logs" / "late.log").open("w") as file:
            file.write("[5] one more\n")
        assert child.stdout.readline() == "late [5] one more\n"
        time.sleep(0.1)
        assert child.poll() is None
    assert child.stdout.read() == ""
    assert child.wait() == 0
    child.stdout.close()


def test_following_ends_when_the_reader_goes_away(tmp_path):
    run = make_run(tmp_path)
    words = [*JOBRUN, "logs", str(run.path), "-f"]
    with RunLock.acquire(run.path):
        following = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        )
        following.stdout.readline()
        following.stdout.close()
        log = next((run.path / "logs").glob("*.log"))

        # The next line is the first that nobody reads.
        while following.poll() is None:
            with log.open("a") as file:
                file.write("[5] more\n")
            time.sleep(0.05)

    assert following.stderr.read() == b""
    following.stderr.close()
    assert following.returncode == 0
