"""Assign paths to the steps of a job built in Python, as the compiler does for a spec.

Existing paths are kept, as are stops that name a block and loop indices that name a loop; others
mean the innermost block or loop around them.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.graph.expressions import Expr, LoopIndex
from jobrun.graph.query import expressions
from jobrun.graph.readers import record_path
from jobrun.graph.steps import Guard, If, Loop, Net, Parallel, Step, Stop, UseNet, While
from jobrun.graph.traversal import rewrite_parts, walk_expr
from jobrun.graph.types import NodeReport, NodeSetup, RemoteNet, Report, SetupNets, Task

_Part = TypeVar("_Part")


class _Blocks(Struct, frozen=True):
    """The paths of the blocks around a step, innermost last; ``loops`` has those of loops."""

    blocks: tuple[str, ...]
    loops: tuple[str, ...] = ()

    def block(self, path: str) -> _Blocks:
        """Return the paths of the blocks around a step, and the path of an inner block."""
        return _Blocks((*self.blocks, path), self.loops)

    def loop(self, path: str) -> _Blocks:
        """Return the paths of the blocks around a step, and the path of an inner loop."""
        return _Blocks((*self.blocks, path), (*self.loops, path))


class PathAssignment:
    """The assignment of paths to tasks, set-up and reports of one job."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def task(self, task: Task, group: str) -> Task:
        """Assign the path ``group/name`` to a task built in Python, and paths to its steps."""
        path = task.path or f"{group}/{task.name}"
        blocks = (path,) if task.read is None else (path, record_path(path))
        return replace(
            task,
            path=path,
            steps=self._steps(task.steps, f"{path}/steps", _Blocks(blocks)),
            setup=self._setups(task.setup, f"{path}/setup.task"),
            instance_setup=self._setups(task.instance_setup, f"{path}/setup.instance"),
            reports=tuple(
                self._report(report, f"{path}/report[{index}]")
                for index, report in enumerate(task.reports)
            ),
        )

    def node_setups(self, setups: tuple[NodeSetup, ...], group: str) -> tuple[NodeSetup, ...]:
        """Assign step paths to a group's set-ups, numbered on each node: ``epoch/setup[0]``."""
        return tuple(
            replace(setup, nets=self._setup(setup.nets, f"{group}/setup[{number}]"))
            for setup, number in _number_by_node(setups)
        )

    def node_reports(self, reports: tuple[NodeReport, ...], group: str) -> tuple[NodeReport, ...]:
        """Assign paths to the reports of a Python job's group, numbered on each node."""
        return tuple(
            replace(report, report=self._report(report.report, f"{group}/report[{number}]"))
            for report, number in _number_by_node(reports)
        )

    def remote_nets(self, nets: tuple[RemoteNet, ...], group: str) -> tuple[RemoteNet, ...]:
        """Assign paths to a Python job's remote nets, numbered by name within their group."""
        numbers: dict[str, int] = {}
        assigned = []
        for net in nets:
            number = numbers.setdefault(net.name, len(numbers))
            path = net.path or f"{group}/remote[{number}]"
            steps = self._steps(net.steps, f"{path}.{net.name}", _Blocks((path,)))
            setup = self._setups(net.setup, f"{path}.setup")
            assigned.append(replace(net, path=path, steps=steps, setup=setup))
        return tuple(assigned)

    def _setups(self, setups: tuple[SetupNets, ...], path: str) -> tuple[SetupNets, ...]:
        return tuple(
            self._setup(setup, path if number == 0 else f"{path}[{number}]")
            for number, setup in enumerate(setups)
        )

    def _setup(self, nets: SetupNets, path: str) -> SetupNets:
        name = nets.name or path
        init, leave = (
            self._steps(steps, f"{name}.{part}", _Blocks((f"{name}.{part}",)))
            for part, steps in (("init", nets.init), ("exit", nets.exit))
        )
        return SetupNets(init, leave, name)

    def _report(self, report: Report, path: str) -> Report:
        path = report.path or path
        return replace(
            report, path=path, steps=self._steps(report.steps, f"{path}.steps", _Blocks((path,)))
        )

    def _steps(self, steps: tuple[Step, ...], prefix: str, enclosing: _Blocks) -> tuple[Step, ...]:
        assigned: list[Step] = []
        index = 0
        for step in steps:
            if isinstance(step, Net):
                assigned.append(self._net(step, prefix, index, enclosing))
                # Each operator counts, as in a spec, where each is a step.
                index += len(step.ops)
            else:
                assigned.append(self._step(step, step.path or f"{prefix}[{index}]", enclosing))
                index += 1
        return tuple(assigned)

    def _step(self, step: Step, path: str, enclosing: _Blocks) -> Step:
        match step:
            case UseNet():
                steps = self._steps(step.steps, f"{path}.{step.net}", enclosing)
                return replace(step, path=path, steps=steps)
            case Loop():
                steps = self._steps(step.steps, f"{path}.steps", enclosing.loop(path))
                count = step.count and self._resolve_indices(step.count, step, path, enclosing)
                return replace(step, path=path, steps=steps, count=count)
            case While():
                steps = self._steps(step.steps, f"{path}.steps", enclosing.loop(path))
                condition = self._resolve_indices(step.condition, step, path, enclosing)
                return replace(step, path=path, steps=steps, condition=condition)
            case Guard():
                steps = self._steps(step.steps, f"{path}.steps", enclosing.block(path))
                return replace(step, path=path, steps=steps)
            case If():
                return self._if(step, path, enclosing)
            case Parallel():
                branches = tuple(
                    self._steps(branch, f"{path}[{i}].steps", enclosing.block(f"{path}[{i}]"))
                    for i, branch in enumerate(step.branches)
                )
                return replace(step, path=path, branches=branches)
            case Stop():
                target = self._target(step, path, enclosing)
                return self._resolve_indices(
                    replace(step, path=path, target=target), step, path, enclosing
                )
            case _:
                return self._resolve_indices(replace(step, path=path), step, path, enclosing)

    def _net(self, net: Net, prefix: str, first: int, enclosing: _Blocks) -> Net:
        path = net.path or f"{prefix}[{first}]"
        ops = tuple(
            replace(op, path=op.path or f"{prefix}[{index}]")
            for index, op in enumerate(net.ops, first)
        )
        return self._resolve_indices(replace(net, path=path, ops=ops), net, path, enclosing)

    def _if(self, step: If, path: str, enclosing: _Blocks) -> If:
        branches = []
        for index, (condition, then) in enumerate(step.branches):
            branch_path = f"{path}.elif[{index - 1}]" if index else path
            resolved = self._resolve_indices(condition, step, path, enclosing)
            branches.append((resolved, self._steps(then, f"{branch_path}.then", enclosing)))
        otherwise = self._steps(step.otherwise, f"{path}.else", enclosing)
        return replace(step, path=path, branches=tuple(branches), otherwise=otherwise)

    def _target(self, step: Stop, path: str, enclosing: _Blocks) -> str:
        if step.target and step.target not in enclosing.blocks:
            mend = (
                f"omit 'target' for the innermost block; enclosing blocks are: "
                f"{', '.join(enclosing.blocks)}"
            )
            message = f"no enclosing block has the path '{step.target}'"
            self._faults.error("E156", message, mend, SpecPosition(path, step.origin))
        return step.target or enclosing.blocks[-1]

    def _resolve_indices(self, part: _Part, step: Step, path: str, enclosing: _Blocks) -> _Part:
        """Set in each loop index (``iter``) of a step the path of the loop that it counts."""
        if not any(_uses_index(expr) for expr in expressions(step)):
            return part
        spec_position = SpecPosition(path, step.origin)

        def named(index: LoopIndex) -> LoopIndex:
            if index.loop in enclosing.loops:
                return index
            if index.loop or not enclosing.loops:
                mend = "use it inside 'loop' or 'while'"
                self._faults.error("E154", "'iter' is used outside a loop", mend, spec_position)
                return index
            return LoopIndex(enclosing.loops[-1])

        return rewrite_parts(part, LoopIndex, named)


def _uses_index(expr: Expr) -> bool:
    return any(isinstance(part, LoopIndex) for part in walk_expr(expr))


_OnNode = TypeVar("_OnNode", NodeSetup, NodeReport)


def _number_by_node(parts: tuple[_OnNode, ...]) -> list[tuple[_OnNode, int]]:
    counts: dict[str, int] = {}
    numbered = []
    for part in parts:
        number = counts.get(part.node, 0)
        counts[part.node] = number + 1
        numbered.append((part, number))
    return numbered
