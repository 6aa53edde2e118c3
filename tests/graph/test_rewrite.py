from __future__ import annotations

from jobrun.api import steps
from jobrun.graph.expressions import Name
from jobrun.graph.steps import Loop
from jobrun.graph.traversal import find_parts, rewrite_parts
from jobrun.graph.types import Task


def test_every_value_of_a_kind_is_replaced():
    task = Task("t", "n", steps("x = a + b", Loop(Name("a"), steps("y = a"))))
    changed = rewrite_parts(task, Name, lambda name: Name("c") if name.name == "a" else name)
    assert [name.name for name in find_parts(changed, Name)] == ["c", "b", "c", "c"]


def test_unchanged_parts_are_shared():
    task = Task("t", "n", steps("x = a"))
    assert rewrite_parts(task, Name, lambda name: name) is task


def test_the_original_graph_is_unchanged():
    task = Task("t", "n", steps("x = a"))
    rewrite_parts(task, Name, lambda name: Name("b"))
    assert task == Task("t", "n", steps("x = a"))
