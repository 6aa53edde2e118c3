"""A word for what each step of a job does, by its path. Runs and measures nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from jobrun.graph.expr import Binary, Call, Compare, Const, Draw, Expr, Name, Unary
from jobrun.graph.query import walk
from jobrun.graph.steps import (
    Assign,
    Augment,
    CallPython,
    Delete,
    ItemTarget,
    Net,
    Op,
    Perform,
    RunProgram,
    Step,
    UseNet,
)
from jobrun.graph.types import Job, SetupNets, TaskGroup


def labels(job: Job) -> dict[str, str]:
    """For the path of each step and operator what it does: ``matmul``, ``+=``, ``call m:f``."""
    found: dict[str, str] = {}
    for group in job.groups:
        for steps in _blocks(group):
            for step in walk(steps):
                found[step.path] = _step(step)
                if isinstance(step, Net):
                    found |= {op.path: _operator(op) for op in step.ops}
    return found


def _blocks(group: TaskGroup) -> Iterator[tuple[Step, ...]]:
    setups: list[SetupNets] = [one.nets for one in group.setup]
    reports = [one.report for one in group.reports]
    for task in group.tasks:
        yield task.steps
        setups += [*task.setup, *task.instance_setup]
        reports += task.reports
    for nets in setups:
        yield nets.init
        yield nets.exit
    for report in reports:
        yield report.steps


def _step(step: Step) -> str:
    match step:
        case CallPython():
            return f"call {step.target}"
        case RunProgram():
            return "run"
        case UseNet():
            return f"net {step.net}"
        case _:
            return type(step).__name__.lower()


def _operator(op: Op) -> str:
    match op:
        case Assign(targets=targets, value=value):
            label = _outermost(value)
            return f"[] = {label}" if isinstance(targets[0], ItemTarget) else label
        case Augment(target=ItemTarget(), operator=operator):
            return f"[] {operator}="
        case Augment(operator=operator):
            return f"{operator}="
        case Perform(value=value):
            return _outermost(value)
        case Delete():
            return "del"
        case _:
            assert_never(op)


def _outermost(value: Expr) -> str:
    """What is done last: the rest of an expression has no time of its own."""
    match value:
        case Call(function=function):
            return function
        case Draw(method=method):
            return f"rng.{method}"
        case Binary(operator=operator) | Unary(operator=operator):
            return operator
        case Compare():
            return "compare"
        case Name():
            return "copy"
        case Const():
            return "constant"
        case _:
            return type(value).__name__.lower()
