"""Limits of tasks, noted in one process and looked at from another."""

from __future__ import annotations

import os

import pytest

from jobrun.cli.supervisor_watchdog import (
    LimitRecorder,
    OverdueDetector,
    build_timeout_fault,
    task_line_of,
)
from jobrun.core.events import GroupStarted, RunEnded, TaskEnded, TaskLimited, TasksGivenUp


def limited(task="step", limit_s=5.0, pid=0):
    return TaskLimited(
        task, "main", 3, f"epoch/{task}", "a.yaml", 7, 5, limit_s, 30.0, pid or os.getpid()
    )


ENDED = TaskEnded("step", "main", 3, 1.0, failed=False)


@pytest.fixture
def notes():
    return [""]


@pytest.fixture
def limits(notes):
    return LimitRecorder(notes.append)


def test_the_limit_that_is_over_first_is_noted(limits, notes):
    limits.listen(limited("late", 50.0))
    limits.listen(limited("soon", 5.0))
    limits.listen(limited("later", 500.0))

    assert '"task": "soon"' in notes[-1]


@pytest.mark.parametrize(
    "event",
    [
        ENDED,
        TasksGivenUp(("main/step",), 3, os.getpid()),
        GroupStarted("epoch", 4, ("step",)),
        RunEnded("failed", 2, 1.0, "why"),
    ],
)
def test_what_ends_the_task_takes_the_note_back(event, limits, notes):
    limits.listen(limited())
    limits.listen(event)

    assert notes[-1] == ""


def test_a_task_of_another_process_is_not_noted(limits, notes):
    limits.listen(limited(pid=1))

    assert notes == [""]


def test_tasks_without_a_limit_note_nothing(limits, notes):
    limits.listen(GroupStarted("epoch", 4, ("step",)))
    limits.listen(ENDED)

    assert notes == [""]


class Watching:
    """Looks once a second, or after longer spans."""

    def __init__(self, text: str) -> None:
        self.text, self.now = text, 0.0
        self.overdue = OverdueDetector(lambda: self.text, lambda: self.now)

    def after(self, *spans_s: float) -> list[str]:
        found = []
        for span_s in spans_s:
            self.now += span_s
            found.append(self.overdue.poll())
        return found


def test_a_task_is_overdue_some_time_after_its_end():
    looks = Watching("20.0\ntask").after(*[1.0] * 40)

    assert looks.index("task") + 1 in range(30, 34)


def test_nothing_is_overdue_when_nothing_is_noted():
    assert not any(Watching("").after(*[1.0] * 100))


def test_time_in_which_nobody_looks_does_not_count():
    """A computer that slept, or both processes stopped: the task has had no time to heed it."""
    assert not any(Watching("20.0\ntask").after(5.0, 3600.0, 1.0, 1.0, 1.0))


def test_another_note_begins_anew():
    watching = Watching("0.0\none")
    watching.after(*[1.0] * 8)
    watching.text = "0.0\ntwo"

    assert not any(watching.after(*[1.0] * 8))


def test_a_note_that_is_being_written_is_no_note():
    assert not any(Watching("2\x00.0x\ntask").after(*[1.0] * 100))


def test_it_is_told_with_the_place(limits, notes):
    limits.listen(limited())
    task = notes[-1].partition("\n")[2]

    fault = build_timeout_fault(task, "resume")

    assert fault.code == "E220"
    assert "its limit of 5 s (task step, node main, epoch 3)" in fault.message
    assert (str(fault.where), fault.path, fault.mend) == ("a.yaml:7:5", "epoch/step", "resume")
    assert task_line_of(task) == 7
    assert task_line_of("") == 0
