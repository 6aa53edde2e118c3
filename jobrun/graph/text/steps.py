"""Render steps as lines of text, close to how they are written in a spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from jobrun.graph.effects.effect import Effect
from jobrun.graph.expression_text import render_expr
from jobrun.graph.expressions import Index, Name
from jobrun.graph.steps import (
    Assign,
    Augment,
    Delete,
    Guard,
    If,
    Loop,
    NameTarget,
    Net,
    Op,
    Parallel,
    Perform,
    Step,
    Stop,
    Target,
    UseNet,
    While,
)


def render_op(op: Op) -> str:
    """Render an operator, such as ``x = a + b``, as the line of text that a spec would have."""
    match op:
        case Assign():
            targets = ", ".join(_target(target) for target in op.targets)
            return f"{targets} = {render_expr(op.value)}"
        case Augment():
            return f"{_target(op.target)} {op.operator}= {render_expr(op.value)}"
        case Perform():
            return render_expr(op.value)
        case Delete():
            return f"del {', '.join(op.names)}"
        case _:
            assert_never(op)


def render_step(step: Step) -> str:
    """Render a step of the graph as one line of text; for a net, only its first operator."""
    match step:
        case Effect():
            return step.line()
        case Net():
            return render_op(step.ops[0]) if step.ops else "nothing"
        case UseNet():
            return f"net {step.net}"
        case Loop():
            return "loop forever" if step.count is None else f"loop {render_expr(step.count)}"
        case While():
            return f"while {render_expr(step.condition)}"
        case If():
            return f"if {render_expr(step.branches[0][0])}"
        case Stop():
            when = "" if step.condition is None else f" if {render_expr(step.condition)}"
            return f"stop {step.target}{when}"
        case Guard():
            return f"guard {step.flag}"
        case Parallel():
            return f"parallel ({len(step.branches)} branches)"
        case _:
            assert_never(step)


def render_steps(steps: tuple[Step, ...], indent: str = "") -> Iterator[str]:
    """Render steps of the graph as one line of text each; steps inside another are indented."""
    for step in steps:
        if isinstance(step, Net):
            for op in step.ops:
                yield f"{indent}{render_op(op)}"
            continue
        yield f"{indent}{render_step(step)}"
        yield from _inside(step, f"{indent}  ")


def _inside(step: Step, indent: str) -> Iterator[str]:
    match step:
        case If():
            yield from render_steps(step.branches[0][1], indent)
            for condition, then in step.branches[1:]:
                yield f"{indent[2:]}elif {render_expr(condition)}"
                yield from render_steps(then, indent)
            if step.otherwise:
                yield f"{indent[2:]}else"
                yield from render_steps(step.otherwise, indent)
        case Parallel():
            for index, branch in enumerate(step.branches):
                yield f"{indent}branch {index}"
                yield from render_steps(branch, f"{indent}  ")
        case UseNet() | Loop() | While() | Guard():
            yield from render_steps(step.steps, indent)
        case _:
            pass


def _target(target: Target) -> str:
    if isinstance(target, NameTarget):
        return target.name
    # An index is written as that of a value is, so the expression's form is used.
    return render_expr(Index(Name(target.name), target.index))
