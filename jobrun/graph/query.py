"""Questions about a graph, answered from its values alone. Changes and executes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from jobrun.graph.expr import Expr, Hole, Text
from jobrun.graph.steps import (
    Assert,
    Assign,
    Augment,
    CallPython,
    Delete,
    Guard,
    If,
    ItemTarget,
    Load,
    LoadState,
    Log,
    Loop,
    Net,
    Op,
    Parallel,
    Perform,
    Record,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.types import Task, TaskGroup


def blocks(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The lists of steps directly inside a step; empty for one that holds none."""
    match step:
        case UseNet() | Loop() | While() | Guard():
            return (step.steps,)
        case If():
            return (*(then for _, then in step.branches), step.otherwise)
        case Parallel():
            return step.branches
        case _:
            return ()


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, outer before inner, in the order of the text."""
    for step in steps:
        yield step
        for block in blocks(step):
            yield from walk(block)


def ops(steps: tuple[Step, ...]) -> Iterator[Op]:
    """Every operator of the steps, in the order of the text."""
    for step in walk(steps):
        if isinstance(step, Net):
            yield from step.ops


def op_expressions(op: Op) -> tuple[Expr, ...]:
    """The expressions that an operator evaluates: indices of targets, then its value."""
    match op:
        case Assign(targets=targets, value=value):
            items = tuple(target.index for target in targets if isinstance(target, ItemTarget))
            return (*items, value)
        case Augment(target=ItemTarget(index=index), value=value):
            return (index, value)
        case Augment(value=value) | Perform(value=value):
            return (value,)
        case Delete():
            return ()
        case _:
            assert_never(op)


def text_expressions(text: Text) -> tuple[Expr, ...]:
    """The expressions filled into a text."""
    return tuple(part.value for part in text.parts if isinstance(part, Hole))


def expressions(step: Step) -> tuple[Expr, ...]:  # noqa: C901 - one case per kind of a closed union
    """The expressions that a step evaluates itself, without those of steps inside it."""
    match step:
        case Net():
            return tuple(expr for op in step.ops for expr in op_expressions(op))
        case CallPython():
            return tuple(value for _, value in step.arguments)
        case RunProgram():
            return tuple(value for _, value in step.values)
        case Loop():
            return () if step.count is None else (step.count,)
        case While():
            return (step.condition,)
        case If():
            return tuple(condition for condition, _ in step.branches)
        case Stop():
            return () if step.condition is None else (step.condition,)
        case Log():
            return text_expressions(step.text)
        case Record():
            return tuple(value for _, value in step.values)
        case Assert():
            return (step.condition, *text_expressions(step.message))
        case UseNet() | Guard() | Parallel() | Load() | Save() | SaveState() | LoadState():
            return ()
        case _:
            assert_never(step)


def used_nodes(group: TaskGroup) -> tuple[str, ...]:
    """The nodes of the group's tasks, in the order of first use."""
    return tuple(dict.fromkeys(task.node for task in group.tasks))


def tasks_by_node(
    group: TaskGroup, remap: Callable[[str], str] | Mapping[str, str] | None = None
) -> dict[str, tuple[Task, ...]]:
    """The group's tasks by node, nodes in the order of first use, tasks in their own order.

    Args:
        group: The tasks.
        remap: From a node's name to another; tasks that land on one node stay apart.
    """
    rename = remap if callable(remap) else (remap or {}).get
    found: dict[str, list[Task]] = {}
    for task in group.tasks:
        node = rename(task.node) or task.node
        found.setdefault(node, []).append(task if node == task.node else replace(task, node=node))
    return {node: tuple(tasks) for node, tasks in found.items()}


def tasks_by_name(group: TaskGroup) -> tuple[tuple[Task, tuple[str, ...]], ...]:
    """Each declared task once, as it is on its first node, with all its nodes."""
    found: dict[str, tuple[Task, list[str]]] = {}
    for task in group.tasks:
        found.setdefault(task.name, (task, []))[1].append(task.node)
    return tuple((task, tuple(nodes)) for task, nodes in found.values())
