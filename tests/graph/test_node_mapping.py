"""Tasks of a group on other nodes."""

from __future__ import annotations

import pytest

from jobrun.core.errors import SpecError
from jobrun.graph.group_transforms import tasks_by_node
from jobrun.graph.query import (
    used_nodes,
)
from jobrun.graph.types import Task, TaskGroup

GROUP = TaskGroup(
    "epoch",
    (Task("a", "n1", ()), Task("a", "n0", ()), Task("b", "n1", (), needs=("a",))),
)


def test_tasks_are_grouped_by_node_any_number_of_times():
    first = tasks_by_node(GROUP)

    assert {node: [task.name for task in tasks] for node, tasks in first.items()} == {
        "n1": ["a", "b"],
        "n0": ["a"],
    }
    assert tasks_by_node(GROUP) == first


def test_nodes_can_be_mapped_to_others_without_touching_the_graph():
    one = tasks_by_node(GROUP, lambda node: "m" if node == "n0" else node)

    assert list(one) == ["n1", "m"]
    assert used_nodes(GROUP) == ("n1", "n0")


def test_two_tasks_of_one_name_cannot_land_on_one_node():
    with pytest.raises(SpecError, match="'a' would be on 'm' twice"):
        tasks_by_node(GROUP, {"n0": "m", "n1": "m"})
