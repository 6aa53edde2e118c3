"""The processes of a sweep, with small programs in place of runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace

from jobrun.runner.rundir.lock import RunLock
from jobrun.tools.sweep import process_pool as pools
from jobrun.tools.sweep.process_pool import PointStarted, Pool, PoolIdle, run_command
from tests.support.command import ROOT, environment
from tests.support.sample_runs import make_run
from tests.support.sweeps import planned
from tests.support.waiting import wait_until


def run(points, program, run_dir, jobs=2, act=lambda event: None):
    """What a pool tells, and what it returns, of shell programs: ``$0`` is a point's own word."""
    events = []

    def tell(event):
        if not isinstance(event, PoolIdle):
            events.append(event)
        act(event)

    code = Pool(["sh", "-c", program], run_dir, jobs, tell).run(points)
    return events, code


def point(word, **values):
    return replace(planned(**(values or {"k": word})), words=(str(word),))


def test_each_point_is_run_once_and_its_end_reported(tmp_path):
    events, code = run([point(code) for code in (0, 1, 9)], 'echo "bye" >&2; exit $0', tmp_path)

    assert code == 0
    assert sorted((event.exit_code, event.last_lines) for event in events) == [
        (0, ("bye",)),
        (1, ("bye",)),
        (9, ("bye",)),
    ]


def test_no_more_run_than_are_allowed(tmp_path):
    program = f"cd {tmp_path}; mkdir $0; ls | wc -l >> count; sleep 0.05; rmdir $0"

    run([point(word) for word in "abcd"], program, tmp_path, jobs=2)

    # The file of counts is one of those that are counted.
    assert max(int(line) for line in (tmp_path / "count").read_text().split()) <= 3


def test_events_and_faults_of_a_run_are_read(tmp_path):
    start = json.dumps({"event": "RunStarted", "directory": "/r/one", "total_epochs": 3})
    fault = json.dumps({"event": "Fault", "severity": "error", "code": "E205", "message": "no"})
    warning = json.dumps({"event": "Fault", "severity": "warning", "code": "W100"})
    text = "\n".join([start, fault, warning, '{"half'])

    events, _ = run([point("x")], f"cat >&2 <<'END'\n{text}\nEND\nexit 1", tmp_path)

    assert isinstance(events[0], PointStarted)
    assert (str(events[0].run), events[0].total_epochs) == ("/r/one", 3)
    assert [reported["code"] for reported in events[1].faults] == ["E205"]
    assert events[1].last_lines == ('{"half',)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_once_and_nothing_is_started_after_it(tmp_path, number):
    program = 'trap "echo caught >&2; exit 75" INT TERM; echo on; sleep 20 2> /dev/null & wait'
    sent = []

    def act(event):
        if isinstance(event, PoolIdle) and not sent:
            sent.append(os.kill(os.getpid(), number))

    events, code = run([point(word) for word in "abc"], program, tmp_path, act=act)

    assert code == number
    assert [(ended.exit_code, ended.last_lines) for ended in events] == [(75, ("caught",))] * 2


@pytest.mark.long
def test_a_point_that_another_process_runs_is_waited_for(tmp_path):
    held = make_run(tmp_path)
    live = replace(point("held"), job=held.record.job)
    lock = RunLock.acquire(held.path)
    events = []

    def act(event):
        events.append(event)
        if isinstance(event, PoolIdle):
            lock.release()

    ended, _ = run([live, point("free")], "exit 0", tmp_path / "runs", jobs=1, act=act)

    assert [entry.point.words[0] for entry in ended] == ["free", "held"]
    assert any(isinstance(entry, PoolIdle) for entry in events)


@pytest.mark.long
def test_a_point_s_process_is_asked_to_end_when_the_sweep_is_killed(tmp_path):
    program = (
        f'cd {tmp_path}; trap "touch asked; exit" TERM; touch on; sleep 20 2> /dev/null & wait'
    )
    code = (
        "import sys; from pathlib import Path; from jobrun.tools.sweep.process_pool import Pool; "
        "from tests.support.sweeps import planned; "
        f"Pool(['sh', '-c', {program!r}], Path({str(tmp_path)!r}), 1, lambda event: None)"
        ".run([planned(k=1)])"
    )
    sweep = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment())
    wait_until((tmp_path / "on").exists)

    sweep.kill()
    sweep.wait()

    wait_until((tmp_path / "asked").exists)


def test_variables_that_steer_jobrun_do_not_reach_the_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBRUN_MAX_EPOCHS", "1")

    events, _ = run([point("x")], "env | grep JOBRUN_ >&2; exit 0", tmp_path)

    assert events[0].last_lines == ()
    assert "JOBRUN_MAX_EPOCHS" not in pools.plain_environment()


def test_the_command_is_that_of_a_batch_script(tmp_path):
    words = run_command("a.yaml", tmp_path, ["--epochs", "2"])

    assert words[1:7] == ["-P", "-m", "jobrun", "run", "a.yaml", "--resume"]
    assert words[-2:] == ["--epochs", "2"]
