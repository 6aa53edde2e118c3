"""What every picture of a job shows."""

from __future__ import annotations

from jobrun.graph.drawing.outline import compute_levels, groups_of, needs_edges, task_label
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup


def test_levels_are_the_longest_chains():
    assert compute_levels(4, [(0, 1), (1, 3), (0, 3), (2, 3)]) == [0, 1, 0, 2]


def test_in_a_circle_all_levels_are_zero():
    assert compute_levels(2, [(0, 1), (1, 0)]) == [0, 0]


def test_empty_groups_are_left_out():
    group = TaskGroup("epoch", (Task("a", "n", ()),))
    job = Job("j", Cluster((Node("n"),)), TaskGroup("init"), group)

    assert [one.name for one, _ in groups_of(job)] == ["epoch"]


def test_what_a_task_needs_elsewhere_is_no_edge():
    task = Task("a", "n", (), needs=("gone",))

    assert list(needs_edges(((task, ("n",)),))) == []


def test_a_label_names_the_task_and_its_nodes():
    task = Task("a", "n", (), instances=2)

    assert task_label(task, ("n", "m"), {}) == ["a", "on n … m (2 nodes), 2 instances"]
