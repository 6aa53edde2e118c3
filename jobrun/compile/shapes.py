"""Dtypes and shapes of state before anything runs, as far as the spec and file headers tell.

An abstract interpreter: it walks init's tasks in their order, then one epoch, and follows
what is ``Known`` of each blob. What it has no rule for becomes unknown; it never guesses.
It reports for ``plan``; it does not judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from graphlib import TopologicalSorter
from typing import assert_never

from jobrun.compile.dtypes import UNKNOWN, Known, dtype_name, join, without_value
from jobrun.compile.shape_eval import binary, evaluate
from jobrun.graph.expr import Call, Expr, Name, Sequence
from jobrun.graph.steps import (
    AdoptState,
    Assert,
    Assign,
    Augment,
    CallPython,
    CopyState,
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
from jobrun.graph.types import Job, Scope, Task, TaskGroup

# What a file's header says of a member: its dtype and shape, or None.
Headers = Callable[[str, str], tuple[str, tuple[int, ...]] | None]
_Names = dict[str, Known]
_WIDENING_PASSES = 4


def state_shapes(job: Job, headers: Headers) -> Mapping[tuple[str, str], Known]:
    """What is known of every state and constant blob at an epoch boundary.

    Args:
        job: The checked job.
        headers: Looks a data file's member up: path as written, member.

    Returns:
        (node, blob) → what is known of it, for each blob of ``job.state`` and ``job.constants``.
    """
    known: dict[tuple[str, str], Known] = {}
    for node in job.cluster:
        names: _Names = {}
        _group(job.init, node.name, names, headers)
        names = {name: without_value(value) for name, value in names.items()}
        _repeat(names, partial(_epoch, job.epoch, node.name, headers))
        for owned in (*job.state, *job.constants):
            if owned[0] == node.name:
                known |= {(node.name, name): names.get(name, UNKNOWN) for name in owned[1]}
    return known


def _epoch(group: TaskGroup, node: str, headers: Headers, names: _Names) -> None:
    _group(group, node, names, headers)


def _group(group: TaskGroup, node: str, names: _Names, headers: Headers) -> None:
    for setup in group.setup:
        if setup.node == node:
            _steps(setup.nets.init, names, headers)
    for task in _in_order(group):
        if task.node == node:
            _task(task, names, headers)


def _in_order(group: TaskGroup) -> list[Task]:
    """Tasks after those they need; else in the order of the spec."""
    positions: dict[str, list[int]] = {}
    for position, task in enumerate(group.tasks):
        positions.setdefault(task.name, []).append(position)
    sorter = TopologicalSorter(
        {
            position: [other for name in task.needs for other in positions.get(name, [])]
            for position, task in enumerate(group.tasks)
        }
    )
    sorter.prepare()
    ordered: list[Task] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered += [group.tasks[position] for position in ready]
        sorter.done(*ready)
    return ordered


def _task(task: Task, names: _Names, headers: Headers) -> None:
    inner = dict(names)
    for nets in (*task.setup, *task.instance_setup):
        _steps(nets.init, inner, headers)
    _steps(task.steps, inner, headers)
    for name, scope in task.scopes:
        if scope is Scope.NODE and name in inner:
            names[name] = inner[name]


def _steps(steps: tuple[Step, ...], names: _Names, headers: Headers) -> None:
    for step in steps:
        _step(step, names, headers)


def _step(  # noqa: C901, PLR0912 - one case per kind of a closed union
    step: Step, names: _Names, headers: Headers
) -> None:
    match step:
        case Net(ops=ops):
            for op in ops:
                _op(op, names)
        case UseNet(steps=steps) | Guard(steps=steps):
            _steps(steps, names, headers)
            if isinstance(step, Guard):
                names[step.flag] = Known("bool", (), weak=True)
        case Loop(steps=steps) | While(steps=steps):
            _repeat(names, lambda after: _steps(steps, after, headers))
        case If(branches=branches, otherwise=otherwise):
            _branches(names, (*(then for _, then in branches), otherwise), headers)
        case Parallel(branches=parallel):
            for branch in parallel:
                _steps(branch, names, headers)
        case Load(files=files):
            for file in files:
                path = "".join(part for part in file.path.parts if isinstance(part, str))
                found = headers(path, file.member) if len(file.path.parts) == 1 else None
                names[file.blob] = Known(dtype_name(found[0]), found[1]) if found else UNKNOWN
        case CallPython(outputs=outputs):
            _forget(names, (*outputs, *_bare_names(step)))
        case RunProgram(results=results):
            _forget(names, tuple(blob for blob, _, _ in results))
        case (
            Stop() | Save() | Log() | Record() | Assert()
            | SaveState() | LoadState() | AdoptState() | CopyState() | PublishCopy()
        ):  # fmt: skip
            pass
        case _:
            assert_never(step)


def _bare_names(step: CallPython) -> tuple[str, ...]:
    return tuple(
        value.name
        for name, value in step.arguments
        if name in step.writable and isinstance(value, Name)
    )


def _forget(names: _Names, made: tuple[str, ...]) -> None:
    names.update(dict.fromkeys(made, UNKNOWN))


def _branches(names: _Names, bodies: tuple[tuple[Step, ...], ...], headers: Headers) -> None:
    results: list[_Names] = []
    for body in bodies:
        inner = dict(names)
        _steps(body, inner, headers)
        results.append(inner)
    for name in {name for result in results for name in result}:
        values = [result[name] for result in results if name in result]
        merged = values[0]
        for value in values[1:]:
            merged = join(merged, value)
        names[name] = merged


def _repeat(names: _Names, body: Callable[[_Names], None]) -> None:
    """Zero, one or more passes: join until nothing changes, else give the changing ones up."""
    for _ in range(_WIDENING_PASSES):
        after = {name: without_value(value) for name, value in names.items()}
        body(after)
        joined = {
            name: join(without_value(names[name]), without_value(value)) if name in names else value
            for name, value in after.items()
        }
        if joined == names:
            return
        names.update(joined)
    after = dict(names)
    body(after)
    _forget(names, tuple(name for name in after if after[name] != names.get(name)))


def _op(op: Op, names: _Names) -> None:
    match op:
        case Assign(targets=targets, value=value):
            _assign(targets, value, names)
        case Augment(target=NameTarget(name=name), operator=operator, value=value):
            left = names.get(name, UNKNOWN)
            if not left.shape:
                # A scalar is bound anew; an array keeps its dtype and shape.
                names[name] = without_value(binary(left, operator, evaluate(value, names)))
        case Delete(names=deleted):
            for name in deleted:
                names.pop(name, None)
        case Perform() | Augment():
            pass
        case _:
            assert_never(op)


def _assign(targets: tuple[Target, ...], value: Expr, names: _Names) -> None:
    known = evaluate(value, names)
    if len(targets) == 1:
        values = [known]
    elif isinstance(value, Sequence):
        values = [evaluate(item, names) for item in value.items]
    elif isinstance(value, Call) and value.function == "segment_sum":
        values = [known, Known("int64", known.shape[:1] if known.shape else None)]
    else:
        values = []
    for position, target in enumerate(targets):
        if isinstance(target, NameTarget):
            names[target.name] = values[position] if len(values) == len(targets) else UNKNOWN
