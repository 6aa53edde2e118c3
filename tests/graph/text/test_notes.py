from __future__ import annotations

import pytest

from jobrun.graph.text.notes import limit_notes, node_notes, task_notes, work_notes
from jobrun.graph.types import Node, Retry, Task


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ({}, []),
        ({"instances": 4, "hogwild": True}, ["4 instances", "hogwild"]),
        ({"rebuild": True}, ["rebuild"]),
        ({"timeout_s": 90.0}, ["at most 90 s"]),
        ({"retry": Retry(1)}, ["1 retry"]),
        ({"retry": Retry(3, 0.5)}, ["3 retries after 0.5 s"]),
        ({"on_error": "warn"}, ["a failure is only reported"]),
    ],
)
def test_what_is_special_about_a_task_is_said_in_words(settings, notes):
    assert task_notes(Task("t", "n", (), **settings)) == notes


def test_what_it_does_and_what_becomes_of_a_failure_are_told_apart():
    task = Task("t", "n", (), hogwild=True, timeout_s=5.0, on_error="warn")

    assert work_notes(task) == ["hogwild"]
    assert limit_notes(task) == ["at most 5 s", "a failure is only reported"]


def test_a_node_is_known_by_what_it_asks_for():
    assert node_notes(Node("n")) == []
    node = Node("n", host="there", resources=(("gpu", 1.0), ("cpu", 0.5)))
    assert node_notes(node) == ["host there", "gpu 1", "cpu 0.5"]
