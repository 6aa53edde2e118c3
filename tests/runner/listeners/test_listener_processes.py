"""Listeners in processes of their own, beside real runs."""

from __future__ import annotations

import json

import pytest

import jobrun as jobrun_api
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import (
    EpochEnded,
    GroupRetried,
    GroupStarted,
    Measured,
    Noted,
    RunStarted,
)
from jobrun.runner.listeners import listener_processes
from tests.support.command import environment, jobrun
from tests.support.stored_runs import only_run
from tests.support.waiting import wait_until

LISTENER = '''
import json, os, sys, time

class Recorder:
    """Keeps what it gets in a file of the run."""

    def begin(self, run, history):
        self.path = run.directory / "got.json"
        self.got = [(one.epoch, dict(one.values)) for one in history]
        self.params = dict(run.params)
        self.keep("begun")

    def keep(self, state):
        self.path.write_text(json.dumps([self.got, self.params, state]))

    def record(self, metrics):
        print("printed by a library")
        what = os.environ.get("LISTENER")
        if what == "fail":
            raise ValueError("the server is full")
        if what == "crash":
            os._exit(5)
        while what == "hang":
            time.sleep(1)
        self.got.append((metrics.epoch, dict(metrics.values)))

    def end(self, outcome):
        self.keep(outcome)
'''
SPEC = """\
jobrun: 1
name: walk
params: {rate: 0.5}
init: [{task: start, steps: ["x = 0.0", {metric: {made: 1}}]}]
epoch:
  - task: step
    steps:
      - x += rate
      - {metric: {twice: 2 * x}}
      - MORE
exit: [{task: last, steps: [{metric: {end: 7}}]}]
metrics: {x: x}
checkpoint: {every: 1ep}
listeners: [recorder]
stop: [{epochs: 4}]
"""
LEAVE = """\
import os, pathlib
def leave(epoch):
    if epoch == 3 and not pathlib.Path("left").exists():
        pathlib.Path("left").touch()
        os._exit(0)
def fail_once(epoch):
    if epoch == 3 and not pathlib.Path("left").exists():
        pathlib.Path("left").touch()
        raise ValueError("once")
"""
ALL = [
    [0, {"start.made": 1}], [1, {"step.twice": 1.0, "x": 0.5}], [2, {"step.twice": 2.0, "x": 1.0}],
    [3, {"step.twice": 3.0, "x": 1.5}], [4, {"step.twice": 4.0, "x": 2.0}], [4, {"last.end": 7}],
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a spec, and with an installed package that has a listener."""
    (tmp_path / "walk.yaml").write_text(SPEC.replace("- MORE", "- {log: ok}"))
    (tmp_path / "leave.py").write_text(LEAVE)
    package = tmp_path / "packages"
    (package / "extra-1.dist-info").mkdir(parents=True)
    (package / "extra_listener.py").write_text(LISTENER)
    (package / "extra-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: extra\n")
    (package / "extra-1.dist-info/entry_points.txt").write_text(
        "[jobrun.listeners]\nrecorder = extra_listener:Recorder\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.syspath_prepend(package)
    return tmp_path


def _in_process(folder, **options):
    """Run the spec in this process; return the result and the warnings."""
    events = []
    options = jobrun_api.RunOptions(run_dir=folder / "runs", **options)
    result = jobrun_api.run(folder / "walk.yaml", options, listener=events.append)
    return result, [
        event.text for event in events if isinstance(event, Noted) and event.level == "warning"
    ]


def _got(folder):
    return json.loads((only_run(folder / "runs") / "got.json").read_text())


def test_a_listener_gets_each_epoch_once_with_all_that_was_measured(folder):
    result, warnings = _in_process(folder)

    got, params, state = _got(folder)
    assert (result.exit_code, warnings) == (0, [])
    assert got == ALL
    assert (params, state) == ({"rate": 0.5}, "finished")
    log = only_run(folder / "runs") / "listeners" / "recorder.log"
    assert "printed by a library" in log.read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("failure", "why"),
    [
        ("fail", "ValueError: the server is full"),
        ("crash", "its process ended with 5"),
        ("hang", "it did not end in time"),
    ],
)
def test_failing_listener_is_disabled_once_and_the_run_continues(folder, monkeypatch, failure, why):
    monkeypatch.setenv("LISTENER", failure)
    monkeypatch.setattr(listener_processes, "_LAST_S", 0.5 if failure == "hang" else 60.0)

    result, warnings = _in_process(folder)

    (warning,) = warnings
    assert (result.exit_code, result.epoch) == (0, 4)
    assert warning.startswith(f"the listener 'recorder' is switched off: {why}")


def test_slow_listener_is_disabled(folder, monkeypatch):
    monkeypatch.setenv("LISTENER", "hang")
    monkeypatch.setattr(listener_processes, "_MOST_WAITING_BYTES", -1)

    result, (warning,) = _in_process(folder)

    assert result.exit_code == 0
    assert "it does not keep up with the run" in warning


def test_unknown_listener_is_refused_before_the_run(folder):
    with pytest.raises(EnvironmentFaultError, match=r"E224.*did you mean 'recorder'"):
        _in_process(folder, listeners=("recordr",))
    assert not (folder / "runs").exists()


@pytest.mark.long
@pytest.mark.parametrize("death", ["leave", "fail_once"])
def test_a_run_that_dies_and_is_resumed_leaves_each_point_once(folder, death):
    call = f"- {{call: 'leave:{death}', with: {{epoch: epoch}}}}"
    (folder / "walk.yaml").write_text(SPEC.replace("- MORE", call))
    words = environment(PYTHONPATH=str(folder / "packages"))

    died = jobrun("run", "walk.yaml", cwd=folder, env=words, started=True)
    resumed = jobrun("resume", cwd=folder, env=words, started=True)

    assert died.returncode != 0
    assert resumed.returncode == 0, resumed.stderr
    assert _got(folder)[0] == ALL


@pytest.mark.long
def test_a_run_that_was_killed_leaves_what_it_had_sent(folder):
    (folder / "walk.yaml").write_text(
        SPEC.replace("- MORE", "- {call: 'leave:leave', with: {epoch: epoch}}")
    )

    words = environment(PYTHONPATH=str(folder / "packages"))
    killed = jobrun("run", "walk.yaml", cwd=folder, env=words, started=True)
    assert killed.returncode == 1, killed.stderr
    run = only_run(folder / "runs")
    wait_until(lambda: json.loads((run / "got.json").read_text())[2] == "failed")

    assert _got(folder)[0] == ALL[:3]


def test_metrics_of_a_failed_attempt_are_not_sent(tmp_path, monkeypatch):
    lines = []

    class Pipe:
        name, failure, pid = "one", "", 0

        def __init__(self, name, log):
            pass

        def send(self, line):
            lines.append(json.loads(line))

    monkeypatch.setattr(listener_processes, "_ListenerProcess", Pipe)
    listener = listener_processes.ListenerFanOut(tmp_path, ["one"], {})
    for event in (
        RunStarted("r", "j", "d", -1, None),
        GroupStarted("epoch", 1, ("t",)),
        Measured("lost", 1, 1),
        GroupRetried("epoch", 1, 1),
        Measured("kept", 2, 1),
        EpochEnded(1, 0.1, (), ()),
    ):
        assert listener(event) == []

    assert [line.get("values") for line in lines] == [None, {"kept": 2}]
