"""What is said about an end without a word."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import jobrun
from jobrun.cli.ending import both, frames_of, noting, tell_unexpected_end
from jobrun.cli.guard import Box, Ended
from jobrun.core.events import GroupEnded, GroupStarted, RunStarted, TaskLimited

CRASH = """\
Fatal Python error: Segmentation fault

Thread 0x00007f (most recent call first):
  File "/other.py", line 1 in other

Current thread 0x00007e (most recent call first):
  File "/lib/crash.py", line 4 in crash
  File "/home/me/spec.yaml", line 9 in block
  File "{own}/runtime/execute.py", line 3 in run_task
  File "/lib/python3.11/threading.py", line 982 in run

Extension modules: numpy (total: 1)
"""


def _told(box, ended, capsys, *, lacked=False):
    assert tell_unexpected_end(box, ended, lambda: lacked) == 1
    return capsys.readouterr().err


def test_it_is_noted_what_runs():
    box = Box()
    hear = noting(box, 25.0)
    hear(RunStarted("a", "b", "/runs/a", -1, None))
    hear(GroupStarted("epoch", 3, ("one", "two")))
    assert (box.text("run"), box.text("group")) == ("/runs/a", "epoch\n3\none, two")
    hear(GroupEnded("epoch", 3, 0.1))
    assert box.text("group") == ""


def test_a_text_takes_the_place_of_a_longer_one():
    box = Box()
    box.note("run", "long" * 9)
    box.note("run", "ä")
    assert box.text("run") == "ä"


def test_both_are_told():
    first, second = [], []
    both(first.append, second.append)(GroupEnded("init", 0, 0.0))
    assert first == second != []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "ended with exit code 0, without a word, in epoch 7 (tasks: step)"),
        (-signal.SIGSEGV, "crashed (SIGSEGV: it touched memory"),
        (-signal.SIGXCPU, "its limit of processor time"),
        (-signal.SIGVTALRM, "was ended by SIGVTALRM in epoch 7"),
    ],
)
def test_how_it_ended_is_said(status, words, capsys):
    box = Box()
    noting(box, 25.0)(GroupStarted("epoch", 7, ("step",)))
    said = _told(box, Ended(status, 3 << 20), capsys)
    assert "error[E386]" in said
    assert words in said
    assert "what was saved is intact" in said


def test_lack_of_memory_is_said_where_the_kernel_tells_of_it(capsys):
    said = _told(Box(), Ended(-signal.SIGKILL, 3 << 20), capsys, lacked=True)
    assert "killed (SIGKILL; the kernel was out of memory; it had used up to 3.0 MiB)" in said
    assert "before any task ran" in said


def test_the_command_to_go_on_with_is_named(capsys):
    box = Box()
    noting(box, 25.0)(RunStarted("a", "b", "/runs/a", -1, None))
    said = _told(box, Ended(0, 0), capsys)
    assert "jobrun resume /runs/a" in said
    assert "between two groups of tasks" in said


def test_frames_are_those_of_the_thread_that_did_it_without_our_own():
    own = jobrun.__file__.rpartition("/")[0]
    assert frames_of(CRASH.format(own=own)) == (
        'File "/home/me/spec.yaml", line 9, in block',
        'File "/lib/crash.py", line 4, in crash',
    )
    asked = 'Stack (most recent call first):\n  File "/a.py", line 2 in leave\n'
    assert frames_of(asked) == ('File "/a.py", line 2, in leave',)
    assert frames_of("") == ()


def test_of_one_that_was_ended_from_outside_the_busy_thread_is_told():
    stacks = """\
Fatal Python error: Aborted

Thread 0x00007f (most recent call first):
  File "/home/me/lib.py", line 4 in hold
  File "{own}/runtime/callables.py", line 3 in _invoke

Current thread 0x00007e (most recent call first):
  File "/lib/python3.11/site-packages/click/core.py", line 4 in invoke
  File "{own}/__main__.py", line 4 in main
""".format(own=Path(jobrun.__file__).parent)

    assert frames_of(stacks) == ('File "/home/me/lib.py", line 4, in hold',)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_one_that_did_not_heed_the_second_signal_ends_as_if_it_had(number, code, capsys):
    ended = Ended(-signal.SIGABRT, 0, number, is_second=True)

    assert tell_unexpected_end(Box(), ended, lambda: False) == code
    assert f"did not heed the second {number.name}, and was ended" in capsys.readouterr().err


def test_one_that_outlasted_its_grace_ends_as_if_it_had_not(capsys):
    ended = Ended(-signal.SIGABRT, 0, signal.SIGTERM)

    assert tell_unexpected_end(Box(), ended, lambda: False) == 75
    said = capsys.readouterr().err
    assert "was asked to end by SIGTERM, did not within its grace, and was ended" in said


def test_a_task_that_kept_the_interpreter_is_told_with_its_own_frames(capsys):
    box = Box()
    noting(box, 25.0)(
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
    os.write(box._stacks, stacks.encode())
    task = box.text("limit").partition("\n")[2]

    said = _told(box, Ended(-signal.SIGABRT, 3 << 20, overdue=task), capsys)

    assert "error[E220] a.yaml:20:5  epoch/step: the task took longer than its limit of 5 s" in said
    assert 'File "/home/me/lib.py", line 4, in hold' in said
    assert "other.py" not in said
