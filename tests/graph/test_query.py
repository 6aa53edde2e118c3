"""Questions about a graph."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobrun.core.errors import SpecError
from jobrun.graph.effects.assertion import Assert
from jobrun.graph.effects.log import Log
from jobrun.graph.expressions import Const, Hole, Name, Text
from jobrun.graph.query import (
    blocks,
    expressions,
    op_expressions,
    ops,
    remote_by_path,
    reports_by_path,
    setup_by_name,
    tasks_by_name,
    tasks_by_node,
    used_nodes,
    walk,
)
from jobrun.graph.steps import Guard, If, Loop, Net, Parallel, Stop, UseNet, While
from jobrun.graph.types import NodeReport, NodeSetup, RemoteNet, Report, SetupNets, Task, TaskGroup
from jobrun.testing.graphs import expr, op

NET = Net((op("x = 1"), op("y = x")))
STEPS = (
    If(((Name("a"), (NET,)), (Name("b"), ())), (Log(Text(("hi",))),)),
    Parallel(((Loop(Const(2), (NET,)),), (Guard("g", (Stop(None, "t"),)),))),
    UseNet("f", (While(Name("c"), (NET,)),)),
)
GROUP = TaskGroup(
    "epoch",
    (Task("a", "n1", ()), Task("a", "n0", ()), Task("b", "n1", (), needs=("a",))),
)


def test_walk_goes_outer_before_inner_in_the_order_of_the_text():
    names = [type(step).__name__ for step in walk(STEPS)]

    assert names == [
        "If",
        "Net",
        "Log",
        "Parallel",
        "Loop",
        "Net",
        "Guard",
        "Stop",
        "UseNet",
        "While",
        "Net",
    ]


def test_all_operators_are_found_wherever_they_are():
    assert len(list(ops(STEPS))) == 6


def test_a_step_without_steps_has_no_blocks():
    assert blocks(NET) == ()
    assert len(blocks(STEPS[0])) == 3


def test_a_step_evaluates_its_own_expressions_only():
    assert expressions(STEPS[0]) == (Name("a"), Name("b"))
    assert expressions(STEPS[2]) == ()
    assert expressions(Assert(Name("a"), Text((Hole(Name("m")),)))) == (Name("a"), Name("m"))
    assert expressions(Loop(None, ())) == ()


def test_an_operator_evaluates_indices_and_its_value():
    assert op_expressions(op("x[i] = y")) == (expr("i"), expr("y"))
    assert op_expressions(op("x[i] += y")) == (expr("i"), expr("y"))
    assert op_expressions(op("del x")) == ()


def test_nodes_come_in_the_order_of_first_use():
    assert used_nodes(GROUP) == ("n1", "n0")


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


def test_an_empty_group_has_no_nodes():
    assert tasks_by_node(TaskGroup("exit")) == {}


def test_a_task_on_many_nodes_is_one_by_name():
    assert [(task.name, nodes) for task, nodes in tasks_by_name(GROUP)] == [
        ("a", ("n1", "n0")),
        ("b", ("n1",)),
    ]


def test_what_is_around_and_beside_many_nodes_is_one_by_name():
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
