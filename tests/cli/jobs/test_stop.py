from __future__ import annotations

import os

import pytest

from jobrun.cli.run_command import invoke
from jobrun.runner.rundir.lock import RunLock
from tests.support.sample_runs import make_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def test_a_run_that_does_not_live_cannot_be_stopped(run, capsys):
    assert invoke(["stop"]) == 2
    assert "is not running" in capsys.readouterr().err


def test_the_process_is_asked_and_waited_for(run, capsys, monkeypatch):
    lock = RunLock.acquire(run.path)
    monkeypatch.setattr(os, "kill", lambda pid, number: lock.release())

    assert invoke(["stop", "shrink", "--wait", "10s"]) == 0

    assert "the run has ended" in capsys.readouterr().err


def test_one_that_does_not_end_in_time_is_an_error(run, capsys, monkeypatch):
    monkeypatch.setattr(os, "kill", lambda pid, number: None)

    with RunLock.acquire(run.path):
        assert invoke(["stop", "--wait", "0.1s"]) == 7

    assert "E426" in capsys.readouterr().err
