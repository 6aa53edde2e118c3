"""Traverse the steps of a graph, outer before inner: list steps, operators, expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, assert_never

from jobrun.graph.effects.effect import Effect
from jobrun.graph.expressions import Expr
from jobrun.graph.readers import CallSource, FileSource, Reader
from jobrun.graph.steps import (
    Assign,
    Augment,
    CallPython,
    DataFile,
    Delete,
    Guard,
    If,
    ItemTarget,
    Load,
    Loop,
    Net,
    Op,
    Parallel,
    Perform,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.traversal import find_parts
from jobrun.graph.types import (
    Job,
)


def blocks(step: Step) -> tuple[tuple[Step, ...], ...]:
    """List, to traverse a step, the blocks of steps directly inside it: loop bodies, branches."""
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
    """Traverse steps: yield each step, and then the steps inside it."""
    for step in steps:
        yield step
        for block in blocks(step):
            yield from walk(block)


def ops(steps: tuple[Step, ...]) -> Iterator[Op]:
    """Traverse steps in the order of the text, and yield every operator of their nets."""
    for step in walk(steps):
        if isinstance(step, Net):
            yield from step.ops


def op_expressions(op: Op) -> tuple[Expr, ...]:
    """List the expressions inside an operator of a step: indices of its targets, then its value."""
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


def expressions(step: Step) -> tuple[Expr, ...]:
    """List, to traverse a step, its own expressions, not those of the steps inside it."""
    match step:
        case Effect():
            return step.expressions()
        case Net():
            return tuple(expr for op in step.ops for expr in op_expressions(op))
        case Loop():
            return () if step.count is None else (step.count,)
        case While():
            return (step.condition,)
        case If():
            return tuple(condition for condition, _ in step.branches)
        case Stop():
            return () if step.condition is None else (step.condition,)
        case UseNet() | Guard() | Parallel():
            return ()
        case _:
            assert_never(step)


def iter_steps(job: Job) -> Iterator[Step]:
    """Traverse all steps of a job, set-up and reports included, outer before inner ones.

    Those of remote nets run elsewhere, if at all. What a reader reads or calls is yielded as
    the step that would read or call the same.
    """
    groups = tuple(replace(group, remote=()) for group in job.groups)
    kinds: Any = Step
    yield from find_parts(groups, kinds)
    for reader in dict.fromkeys(find_parts(groups, Reader)):
        match reader.source:
            case FileSource(path=path, folder=folder):
                files = (
                    DataFile(one.name, path, member, folder)
                    for one in reader.fields
                    for member in one.members
                )
                yield Load(tuple(files), reader.path, reader.origin)
            case CallSource(target=target, arguments=arguments):
                names = tuple(one.name for one in reader.fields)
                yield CallPython(
                    target, arguments, (), names, path=reader.path, origin=reader.origin
                )
            case _:
                pass
