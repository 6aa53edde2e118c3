"""What is said about an end without a word."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

import jobrun
from jobrun.cli.run_command import invoke
from jobrun.cli.supervised_child import SharedState
from jobrun.cli.supervisor import ChildExit
from jobrun.cli.unexpected_end import (
    extract_frames,
    record_end,
    record_running,
    report_unexpected_end,
)
from jobrun.core.events import GroupEnded, GroupStarted, RunStarted, TaskLimited
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.run_directories import open_run
from tests.support.sample_runs import make_run

CRASH = """\
Fatal Python error: Segmentation fault

Thread 0x00007f (most recent call first):
  File "/other.py", line 1 in other

Current thread 0x00007e (most recent call first):
  File "/lib/crash.py", line 4 in crash
  File "/home/me/spec.yaml", line 9 in block
  File "{package}/runtime/execute_task.py", line 3 in run_task
  File "/lib/python3.11/threading.py", line 982 in run

Extension modules: numpy (total: 1)
"""


def _told(shared, ended, capsys, *, lacked=False, code=1):
    assert report_unexpected_end(shared, ended, lambda: lacked) == code
    return capsys.readouterr().err


def test_an_abort_where_memory_is_limited_is_a_fault_of_the_machine(capsys, monkeypatch):
    # As the allocator of pydantic-core does, and libgcc where a thread ends.
    shared, ended = SharedState(), ChildExit(-signal.SIGABRT, 3 << 20)
    assert "ulimit" not in _told(shared, ended, capsys)
    record_running(shared, 25.0)(GroupStarted("epoch", 7, ("step",)))
    assert "ulimit" not in _told(shared, ended, capsys)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (120 << 20, -1))

    errors = _told(shared, ended, capsys, code=7)
    assert "crashed (SIGABRT: abort() was called; its memory is limited to 120.0 MiB" in errors


def test_it_is_noted_what_runs():
    shared = SharedState()
    hear = record_running(shared, 25.0)
    hear(RunStarted("a", "b", "/runs/a", -1, None))
    hear(GroupStarted("epoch", 3, ("one", "two")))
    assert (shared.read("run"), shared.read("group")) == ("/runs/a", "epoch\n3\none, two")
    hear(GroupEnded("epoch", 3, 0.1))
    assert shared.read("group") == ""


def test_a_text_takes_the_place_of_a_longer_one():
    shared = SharedState()
    shared.write("run", "long" * 9)
    shared.write("run", "ä")
    assert shared.read("run") == "ä"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with status 0 without a message, in epoch 7 (tasks: step)"),
        (-signal.SIGSEGV, "crashed (SIGSEGV: segmentation fault"),
        (-signal.SIGXFSZ, "file size limit reached"),
        (-signal.SIGTRAP, "was killed by SIGTRAP in epoch 7"),
    ],
)
def test_the_message_says_how_the_process_ended(status, words, capsys):
    shared = SharedState()
    record_running(shared, 25.0)(GroupStarted("epoch", 7, ("step",)))
    errors = _told(shared, ChildExit(status, 3 << 20), capsys)
    assert "error[E386]" in errors
    assert words in errors
    assert "saved epochs are intact" in errors


def test_lack_of_memory_is_reported_where_the_kernel_counts_it(capsys):
    errors = _told(SharedState(), ChildExit(-signal.SIGKILL, 3 << 20), capsys, lacked=True, code=7)
    assert "killed (SIGKILL by the kernel: out of memory; it had used up to 3.0 MiB)" in errors
    assert "before any task ran" in errors


def test_a_kill_is_a_fault_of_the_machine_and_the_mend_says_how_to_find_the_killer(capsys):
    errors = _told(SharedState(), ChildExit(-signal.SIGKILL, 3 << 20), capsys, code=7)
    assert "was killed (SIGKILL; it had used up to 3.0 MiB)" in errors
    assert "dmesg | grep -i oom" in errors


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGQUIT, 130), (signal.SIGINT, 130), (signal.SIGTERM, 75), (signal.SIGHUP, 75),
     (signal.SIGUSR1, 75), (signal.SIGUSR2, 75), (signal.SIGALRM, 75), (signal.SIGXCPU, 75),
     (signal.SIGSEGV, 1), (signal.SIGPIPE, 1)],
)  # fmt: skip
def test_no_signal_that_ends_it_gives_a_code_outside_of_the_table(number, code, capsys):
    errors = _told(SharedState(), ChildExit(-number, 0), capsys, code=code)
    assert number.name in errors


@pytest.mark.parametrize("is_there", [True, False])
def test_the_command_to_continue_is_named_where_the_run_exists(is_there, tmp_path, capsys):
    if is_there:
        (tmp_path / "run.json").write_text("{}")
    shared = SharedState()
    record_running(shared, 25.0)(RunStarted("a", "b", str(tmp_path), -1, None))
    errors = _told(shared, ChildExit(0, 0), capsys)
    assert (f"jobrun resume {tmp_path}" in errors) == is_there
    assert "between two groups of tasks" in errors


def test_frames_are_those_of_the_thread_that_did_it_without_our_own():
    package = jobrun.__file__.rpartition("/")[0]
    assert extract_frames(CRASH.format(package=package)) == (
        'File "/home/me/spec.yaml", line 9, in block',
        'File "/lib/crash.py", line 4, in crash',
    )
    asked = 'Stack (most recent call first):\n  File "/a.py", line 2 in leave\n'
    assert extract_frames(asked) == ('File "/a.py", line 2, in leave',)
    assert extract_frames("") == ()


def test_frames_of_a_process_killed_from_outside_are_those_of_the_busy_thread():
    stacks = """\
Fatal Python error: Aborted

Thread 0x00007f (most recent call first):
  File "/home/me/lib.py", line 4 in hold
  File "{package}/runtime/callables.py", line 3 in _invoke

Current thread 0x00007e (most recent call first):
  File "/lib/python3.11/site-packages/click/core.py", line 4 in invoke
  File "{package}/__main__.py", line 4 in main
""".format(package=Path(jobrun.__file__).parent)

    assert extract_frames(stacks) == ('File "/home/me/lib.py", line 4, in hold',)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_process_that_ignored_the_second_signal_has_the_exit_code_of_an_interrupt(
    number, code, capsys
):
    ended = ChildExit(-signal.SIGABRT, 0, number, is_second=True)

    assert report_unexpected_end(SharedState(), ended, lambda: False) == code
    assert f"did not react to the second {number.name}, and was killed" in capsys.readouterr().err


def test_a_process_killed_after_its_grace_has_the_exit_code_of_a_stop(capsys):
    ended = ChildExit(-signal.SIGABRT, 0, signal.SIGTERM)

    assert report_unexpected_end(SharedState(), ended, lambda: False) == 75
    errors = capsys.readouterr().err
    assert "got SIGTERM, did not stop within its grace period, and was killed" in errors


def test_a_task_that_held_the_gil_is_reported_with_its_own_frames(capsys):
    shared = SharedState()
    record_running(shared, 25.0)(
        TaskLimited("step", "main", 3, "epoch/step", "a.yaml", 20, 5, 5.0, 30.0, os.getpid())
    )
    stacks = """\
Fatal Python error: Aborted

Thread 0x1 (most recent call first):
  File "/home/me/other.py", line 1 in before
  File "a.yaml", line 12 in block

Thread 0x2 (most recent call first):
  File "/home/me/lib.py", line 4 in hold
  File "a.yaml", line 21 in block

Thread 0x3 (most recent call first):
  File "/home/me/other.py", line 2 in behind
  File "a.yaml", line 40 in block
"""
    os.write(shared._stacks, stacks.encode())
    task = shared.read("limit").partition("\n")[2]

    errors = _told(shared, ChildExit(-signal.SIGABRT, 3 << 20, overdue=task), capsys)

    assert (
        "error[E220] a.yaml:20:5  epoch/step: the task took longer than its limit of 5 s" in errors
    )
    assert 'File "/home/me/lib.py", line 4, in hold' in errors
    assert "other.py" not in errors


def test_how_a_process_was_killed_is_recorded_for_its_status(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path)
    run.write(status="running", exit_code=None, reason="")
    shared = SharedState()
    shared.write("run", str(run.path))
    report_unexpected_end(shared, ChildExit(-signal.SIGSEGV, 0), lambda: False)
    capsys.readouterr()

    assert invoke(["status"]) == 0
    assert "killed   the process that computes crashed (SIGSEGV" in capsys.readouterr().out


def test_the_end_of_a_process_changes_no_run_that_lives_again(tmp_path):
    run = make_run(tmp_path)
    run.write(status="running", reason="")
    with RunLock.acquire(run.path):
        record_end(run.path, "killed")

    assert open_run(run.path).record.reason == ""
