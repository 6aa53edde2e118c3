"""Questions about a graph."""

from __future__ import annotations

from msgspec.structs import replace

from jobrun.graph.query import (
    remote_by_path,
    reports_by_path,
    setup_by_name,
    tasks_by_name,
    used_nodes,
)
from jobrun.graph.types import NodeReport, NodeSetup, RemoteNet, Report, SetupNets, Task, TaskGroup

GROUP = TaskGroup(
    "epoch",
    (Task("a", "n1", ()), Task("a", "n0", ()), Task("b", "n1", (), needs=("a",))),
)


def test_nodes_come_in_the_order_of_first_use():
    assert used_nodes(GROUP) == ("n1", "n0")


def test_an_empty_group_has_no_nodes():
    assert used_nodes(TaskGroup("exit")) == ()


def test_a_task_on_many_nodes_is_one_by_name():
    assert [(task.name, nodes) for task, nodes in tasks_by_name(GROUP)] == [
        ("a", ("n1", "n0")),
        ("b", ("n1",)),
    ]


def test_setups_and_reports_of_many_nodes_are_one_by_name():
    setup, report = SetupNets(name="epoch/setup"), Report(1.0, (), "epoch/report[0]")
    group = TaskGroup(
        "epoch",
        setup=tuple(NodeSetup(node, setup) for node in ("a", "b")),
        reports=tuple(NodeReport(node, report) for node in ("b", "a")),
    )

    assert setup_by_name(group) == ((setup, ("a", "b")),)
    assert reports_by_path(group) == ((report, ("b", "a")),)


def test_each_declared_remote_net_once_with_its_nodes():
    first, second = RemoteNet("f", "n0", (), path="p[0]"), RemoteNet("f", "n1", (), path="p[1]")
    also = replace(first, node="n1")

    assert remote_by_path(TaskGroup("epoch", remote=(first, also, second))) == (
        (first, ("n0", "n1")),
        (second, ("n1",)),
    )
