from __future__ import annotations

from jobrun.api import steps
from jobrun.graph.expressions import Name
from jobrun.graph.steps import Loop
from jobrun.graph.traversal import find_parts, rewrite_parts
from jobrun.graph.types import Task


def test_every_value_of_a_kind_is_replaced():
    task = Task("t", "n", steps("x = a + b", Loop(Name("a"), steps("y = a"))))
    changed = rewrite_parts(task, Name, lambda one: Name("c") if one.name == "a" else one)
    assert [one.name for one in find_parts(changed, Name)] == ["c", "b", "c", "c"]


def test_what_does_not_change_is_shared():
    task = Task("t", "n", steps("x = a"))
    assert rewrite_parts(task, Name, lambda one: one) is task


def test_the_graph_given_stays_as_it_was():
    task = Task("t", "n", steps("x = a"))
    rewrite_parts(task, Name, lambda one: Name("b"))
    assert task == Task("t", "n", steps("x = a"))
