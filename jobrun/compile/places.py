"""Gives the steps of a graph built by hand their places, as the compiler gives them to a spec's.

A path that is there already stays. So do the stops that name a block and the pass numbers
that name a loop; the others mean the innermost one around them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from jobrun.compile.faults import Faults, Place
from jobrun.graph.data import record_path
from jobrun.graph.expr import Expr, LoopIndex
from jobrun.graph.query import expressions
from jobrun.graph.rewrite import rewritten
from jobrun.graph.steps import (
    Guard,
    If,
    Loop,
    Net,
    Parallel,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.types import NodeReport, NodeSetup, RemoteNet, Report, SetupNets, Task
from jobrun.graph.walk import walk_expr

_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class _Around:
    """The paths of the blocks around a step, innermost last, and those of them that are loops."""

    blocks: tuple[str, ...]
    loops: tuple[str, ...] = ()

    def block(self, path: str) -> _Around:
        """Inside a further block."""
        return _Around((*self.blocks, path), self.loops)

    def loop(self, path: str) -> _Around:
        """Inside a further loop."""
        return _Around((*self.blocks, path), (*self.loops, path))


class Placing:
    """Places tasks, set-up and reports of one job."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def task(self, task: Task, group: str) -> Task:
        """The task with all its paths, ``group/name`` being its own."""
        path = task.path or f"{group}/{task.name}"
        blocks = (path,) if task.read is None else (path, record_path(path))
        return replace(
            task,
            path=path,
            steps=self._steps(task.steps, f"{path}/steps", _Around(blocks)),
            setup=self._setups(task.setup, f"{path}/setup.task"),
            instance_setup=self._setups(task.instance_setup, f"{path}/setup.instance"),
            reports=tuple(
                self._report(report, f"{path}/report[{index}]")
                for index, report in enumerate(task.reports)
            ),
        )

    def node_setups(self, setups: tuple[NodeSetup, ...], group: str) -> tuple[NodeSetup, ...]:
        """Set-up around a group, alike on all nodes: numbered on each node by itself."""
        return tuple(
            replace(one, nets=self._setup(one.nets, f"{group}/setup[{number}]"))
            for one, number in _numbered(setups)
        )

    def node_reports(self, reports: tuple[NodeReport, ...], group: str) -> tuple[NodeReport, ...]:
        """Reports of a group, numbered on each node by itself."""
        return tuple(
            replace(one, report=self._report(one.report, f"{group}/report[{number}]"))
            for one, number in _numbered(reports)
        )

    def remote_nets(self, nets: tuple[RemoteNet, ...], group: str) -> tuple[RemoteNet, ...]:
        """Remote nets of a group, numbered by their names: one may be kept for several nodes."""
        numbers: dict[str, int] = {}
        found = []
        for net in nets:
            number = numbers.setdefault(net.name, len(numbers))
            path = net.path or f"{group}/remote[{number}]"
            steps = self._steps(net.steps, f"{path}.{net.name}", _Around((path,)))
            setup = self._setups(net.setup, f"{path}.setup")
            found.append(replace(net, path=path, steps=steps, setup=setup))
        return tuple(found)

    def _setups(self, setups: tuple[SetupNets, ...], path: str) -> tuple[SetupNets, ...]:
        return tuple(
            self._setup(one, path if number == 0 else f"{path}[{number}]")
            for number, one in enumerate(setups)
        )

    def _setup(self, nets: SetupNets, path: str) -> SetupNets:
        name = nets.name or path
        init, leave = (
            self._steps(steps, f"{name}.{part}", _Around((f"{name}.{part}",)))
            for part, steps in (("init", nets.init), ("exit", nets.exit))
        )
        return SetupNets(init, leave, name)

    def _report(self, report: Report, path: str) -> Report:
        path = report.path or path
        return replace(
            report, path=path, steps=self._steps(report.steps, f"{path}.steps", _Around((path,)))
        )

    def _steps(self, steps: tuple[Step, ...], prefix: str, around: _Around) -> tuple[Step, ...]:
        found: list[Step] = []
        index = 0
        for step in steps:
            if isinstance(step, Net):
                found.append(self._net(step, prefix, index, around))
                # Each operator counts, as in a spec, where each is a step.
                index += len(step.ops)
            else:
                found.append(self._step(step, step.path or f"{prefix}[{index}]", around))
                index += 1
        return tuple(found)

    def _step(self, step: Step, path: str, around: _Around) -> Step:
        match step:
            case UseNet():
                steps = self._steps(step.steps, f"{path}.{step.net}", around)
                return replace(step, path=path, steps=steps)
            case Loop():
                steps = self._steps(step.steps, f"{path}.steps", around.loop(path))
                count = step.count and self._indexed(step.count, step, path, around)
                return replace(step, path=path, steps=steps, count=count)
            case While():
                steps = self._steps(step.steps, f"{path}.steps", around.loop(path))
                condition = self._indexed(step.condition, step, path, around)
                return replace(step, path=path, steps=steps, condition=condition)
            case Guard():
                steps = self._steps(step.steps, f"{path}.steps", around.block(path))
                return replace(step, path=path, steps=steps)
            case If():
                return self._if(step, path, around)
            case Parallel():
                branches = tuple(
                    self._steps(branch, f"{path}[{i}].steps", around.block(f"{path}[{i}]"))
                    for i, branch in enumerate(step.branches)
                )
                return replace(step, path=path, branches=branches)
            case Stop():
                target = self._target(step, path, around)
                return self._indexed(replace(step, path=path, target=target), step, path, around)
            case _:
                return self._indexed(replace(step, path=path), step, path, around)

    def _net(self, net: Net, prefix: str, first: int, around: _Around) -> Net:
        path = net.path or f"{prefix}[{first}]"
        ops = tuple(
            replace(op, path=op.path or f"{prefix}[{index}]")
            for index, op in enumerate(net.ops, first)
        )
        return self._indexed(replace(net, path=path, ops=ops), net, path, around)

    def _if(self, step: If, path: str, around: _Around) -> If:
        branches = []
        for index, (condition, then) in enumerate(step.branches):
            way = f"{path}.elif[{index - 1}]" if index else path
            found = self._indexed(condition, step, path, around)
            branches.append((found, self._steps(then, f"{way}.then", around)))
        otherwise = self._steps(step.otherwise, f"{path}.else", around)
        return replace(step, path=path, branches=tuple(branches), otherwise=otherwise)

    def _target(self, step: Stop, path: str, around: _Around) -> str:
        if step.target and step.target not in around.blocks:
            mend = (
                f"leave 'target' out for the innermost; around it are: {', '.join(around.blocks)}"
            )
            message = f"no block around this stop has the path '{step.target}'"
            self._faults.error("E156", message, mend, Place(path, step.origin))
        return step.target or around.blocks[-1]

    def _indexed(self, part: _Part, step: Step, path: str, around: _Around) -> _Part:
        """A step without others in it, or an expression, with its pass numbers' loops."""
        if not any(_counts(expr) for expr in expressions(step)):
            return part
        place = Place(path, step.origin)

        def named(index: LoopIndex) -> LoopIndex:
            if index.loop in around.loops:
                return index
            if index.loop or not around.loops:
                self._faults.error("E154", "'iter' is the pass of a loop, and there is none here",
                                   "use it inside 'loop' or 'while'", place)  # fmt: skip
                return index
            return LoopIndex(around.loops[-1])

        return rewritten(part, LoopIndex, named)


def _counts(expr: Expr) -> bool:
    return any(isinstance(part, LoopIndex) for part in walk_expr(expr))


_OnNode = TypeVar("_OnNode", NodeSetup, NodeReport)


def _numbered(parts: tuple[_OnNode, ...]) -> list[tuple[_OnNode, int]]:
    counts: dict[str, int] = {}
    found = []
    for one in parts:
        number = counts.get(one.node, 0)
        counts[one.node] = number + 1
        found.append((one, number))
    return found
