"""Steps as lines of text, close to how they are written in a spec. For plans and messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from jobrun.graph.expr import Index, Name
from jobrun.graph.pulled import PulledBlob
from jobrun.graph.steps import (
    AdoptState,
    Assert,
    Assign,
    Augment,
    CallPython,
    CopyState,
    DataFile,
    Delete,
    Guard,
    If,
    Load,
    LoadState,
    Log,
    Loop,
    NameTarget,
    Net,
    Op,
    Parallel,
    Perform,
    PublishCopy,
    Pull,
    Record,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    Target,
    UseNet,
    While,
)
from jobrun.graph.unparse import render_expr, render_text


def render_op(op: Op) -> str:
    """An operator as its author could have written it."""
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


def render_step(  # noqa: C901, PLR0912 - one case per kind of a closed union
    step: Step,
) -> str:
    """One line for a step, without the steps inside it; a net of operators is its first one."""
    match step:
        case Net():
            return render_op(step.ops[0]) if step.ops else "nothing"
        case UseNet():
            return f"net {step.net}"
        case CallPython():
            return f"{_results(step.outputs)}call {step.target}({_call_arguments(step)})"
        case RunProgram():
            words = " ".join(render_text(text) for text in step.command).strip().split("\n")
            first = words[0] + (" …" if len(words) > 1 else "")
            kept = f" (state_dir {step.state_dir})" if step.state_dir else ""
            return f"{_results(blob for blob, _, _ in step.results)}run {first}{kept}"
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
        case Load():
            return f"load {', '.join(f'{one.blob} <- {_file(one)}' for one in step.files)}"
        case Save():
            return f"save {', '.join(f'{one.blob} -> {_file(one)}' for one in step.files)}"
        case Log():
            return f"log {render_text(step.text)}"
        case Record():
            values = (f"{name} = {render_expr(value)}" for name, value in step.values)
            return f"metric {', '.join(values)}"
        case Assert():
            return f"assert {render_expr(step.condition)}"
        case Pull() | SaveState() | LoadState() | AdoptState() | CopyState() | PublishCopy():
            return _render_move(step)
        case _:
            assert_never(step)


def _pulled(one: PulledBlob) -> str:
    first, last = one.nodes[0], one.nodes[-1]
    nodes = first if len(one.nodes) == 1 else f"{first} … {last}"
    return f"{one.blob} <- {one.reduce} of {one.name} on {nodes}"


def _render_move(
    step: Pull | SaveState | LoadState | AdoptState | CopyState | PublishCopy,
) -> str:
    match step:
        case Pull():
            return f"pull {', '.join(map(_pulled, step.blobs))}"
        case SaveState():
            return f"save state {', '.join(step.names)} -> {step.file}"
        case LoadState():
            return f"load state {', '.join(step.names)} <- {step.file}"
        case AdoptState():
            return f"adopt state {', '.join(step.names)}"
        case CopyState():
            return f"copy {step.file} -> {step.staged}"
        case PublishCopy():
            return f"publish {step.staged} -> {step.target}"
        case _:
            assert_never(step)


def render_steps(steps: tuple[Step, ...], indent: str = "") -> Iterator[str]:
    """A line per operator and step, those inside another further in."""
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


def _results(names: Iterable[str]) -> str:
    shown = ", ".join(names)
    return f"{shown} = " if shown else ""


def _call_arguments(step: CallPython) -> str:
    changed = set(step.writable)
    return ", ".join(
        f"{name}={render_expr(value)}{' (inout)' if name in changed else ''}"
        for name, value in step.arguments
    )


def _file(file: DataFile) -> str:
    member = f"::{file.member}" if file.member else ""
    return f"{render_text(file.path)}{member}"
