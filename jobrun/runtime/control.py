"""Control flow as Python statements: loops, branches, stops. Makes no code itself."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from jobrun.core.origin import Origin
from jobrun.graph.expr import Const, Expr
from jobrun.graph.query import walk
from jobrun.graph.steps import (
    AdoptState,
    Assert,
    CallPython,
    CopyState,
    Guard,
    If,
    Load,
    LoadState,
    Log,
    Loop,
    Net,
    Op,
    Parallel,
    PublishCopy,
    Record,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.runtime import landing
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.frame import Frame
from jobrun.runtime.statements import Statements
from jobrun.runtime.syntax import assign, call, item, load, store

Action = Callable[[Frame], None]

# Python refuses more than twenty loops and try statements inside each other.
_DEEPEST = 8


class StopBlock(Exception):  # noqa: N818 - a way out of a block, not an error
    """Unwinds to the block whose path is ``target``."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target


@dataclass(frozen=True, slots=True)
class Place:
    """Where a step or an operator stands."""

    path: str
    origin: Origin


class Control:
    """Turns the steps of one block into the body of one function.

    Args:
        statements: Turns operators into statements.
        action: Gives the function of any step that is not control flow.
        path: The block's own path, which a ``stop`` may name.
    """

    def __init__(self, statements: Statements, action: Callable[[Step], Action], path: str) -> None:
        self._statements = statements
        self._expressions = statements.expressions
        self._action = action
        self._path = path
        # Blocks around the present step, outermost first; a guard's entry is empty text.
        self._around: list[str] = []
        # Targets that are left by an exception somewhere below.
        self._raised: set[str] = set()
        self._loops = 0
        self.places: list[Place] = []

    def block(self, steps: tuple[Step, ...]) -> list[ast.stmt]:
        """The statements of the whole block."""
        body = self._steps(steps)
        if self._path in self._raised:
            body = [self._catching(self._path, body, [])]
        return body or [ast.Pass()]

    def _steps(self, steps: tuple[Step, ...]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for step in steps:
            if not isinstance(step, UseNet):
                made.append(self._check())
            made += self._step(step)
        return made

    def _step(self, step: Step) -> list[ast.stmt]:
        match step:
            case Net():
                return [one for op in step.ops for one in self._op(op)]
            case UseNet():
                return self._steps(step.steps)
            case Loop() | While() | Guard() if len(self._around) >= _DEEPEST:
                return self._act(step)
            case Loop():
                return self._loop(step)
            case While():
                return self._while(step)
            case Guard():
                return self._guard(step)
            case If():
                return self._if(step, step.branches)
            case Stop():
                return self._stop(step)
            case (
                CallPython() | RunProgram() | Parallel() | Load() | Save() | Log() | Record()
                | Assert() | SaveState() | LoadState() | AdoptState() | CopyState() | PublishCopy()
            ):  # fmt: skip
                return self._act(step)
            case _:
                assert_never(step)

    def _op(self, op: Op) -> list[ast.stmt]:
        return _located([self._at(op.path, op.origin), *self._statements.of(op)], op.origin)

    def _act(self, step: Step) -> list[ast.stmt]:
        inner = [one for one in walk((step,)) if isinstance(one, Stop)]
        self._raised.update(one.target for one in inner)
        function = self._statements.globals.bind(self._action(step), "act")
        made = [self._at(step.path, step.origin), ast.Expr(call(function, load("f")))]
        return _located(made, step.origin)

    def _loop(self, step: Loop) -> list[ast.stmt]:
        number = self._pass_number(step.path)
        count = step.count
        made = [assign(number, ast.Constant(0))]
        if count is None:
            head: list[ast.stmt] = []
        else:
            head = self._leave_unless(step, lambda: self._more(number, count))
        made.append(self._repeat(step, number, head))
        return self._caught(step, _located(made, step.origin))

    def _more(self, number: str, count: Expr) -> ast.expr:
        limit = self._expressions.of(count)
        if not (isinstance(count, Const) and type(count.value) is int):
            limit = self._helper(landing.as_count, limit)
        return ast.Compare(load(number), [ast.Lt()], [limit])

    def _while(self, step: While) -> list[ast.stmt]:
        number = self._pass_number(step.path)
        head = self._leave_unless(step, lambda: self._bool(step.condition))
        made = [assign(number, ast.Constant(0)), self._repeat(step, number, head)]
        return self._caught(step, _located(made, step.origin))

    def _leave_unless(
        self, step: Loop | While, condition: Callable[[], ast.expr]
    ) -> list[ast.stmt]:
        def leave() -> list[ast.stmt]:
            return [ast.If(ast.UnaryOp(ast.Not(), condition()), [ast.Break()], [])]

        return [self._at(step.path, step.origin), *self._statements.statement(leave)]

    def _repeat(self, step: Loop | While, number: str, head: list[ast.stmt]) -> ast.stmt:
        self._around.append(step.path)
        body = self._steps(step.steps) or [self._check()]
        has_actions = _has_actions(step.steps, len(self._around))
        self._around.pop()
        if has_actions:
            # Steps outside of this code find the pass number in the frame.
            passes = item(load("f.loops"), ast.Constant(step.path), ast.Store())
            head = [*head, ast.Assign([passes], load(number))]
        ahead = ast.AugAssign(store(number), ast.Add(), ast.Constant(1))
        return ast.While(ast.Constant(True), [*head, *body, ahead], [])

    def _caught(self, step: Loop | While, made: list[ast.stmt]) -> list[ast.stmt]:
        if step.path not in self._raised:
            return made
        return _located([self._catching(step.path, made, [])], step.origin)

    def _guard(self, step: Guard) -> list[ast.stmt]:
        def flag(value: bool) -> list[ast.stmt]:
            return [self._statements.bind(step.flag, ast.Constant(value))]

        self._around.append("")
        body = [self._at(step.path, step.origin), *self._steps(step.steps), *flag(False)]
        self._around.pop()
        stopped = flag(True)
        return _located([self._catching(step.path, body, stopped)], step.origin)

    def _catching(self, path: str, body: list[ast.stmt], then: list[ast.stmt]) -> ast.stmt:
        """``body``; a stop of ``path`` ends it, after ``then``; other stops go on."""
        others = ast.Compare(load("stop.target"), [ast.NotEq()], [ast.Constant(path)])
        handler = [*then, ast.If(others, [ast.Raise(None, None)], [])]
        kind = self._statements.globals.bind(StopBlock, "Stop")
        return ast.Try(body, [ast.ExceptHandler(kind, "stop", handler)], [], [])

    def _if(self, step: If, branches: tuple[tuple[Expr, tuple[Step, ...]], ...]) -> list[ast.stmt]:
        if not branches:
            return self._steps(step.otherwise)
        (condition, then), *rest = branches

        def choose() -> list[ast.stmt]:
            return [ast.If(self._bool(condition), [], [])]

        *before, chosen = self._statements.statement(choose)
        assert isinstance(chosen, ast.If)  # noqa: S101 - for the type checker
        at = self._at(step.path, step.origin)
        chosen.body = self._steps(then) or [ast.Pass()]
        chosen.orelse = self._if(step, tuple(rest))
        return _located([at, *before, chosen], step.origin)

    def _stop(self, step: Stop) -> list[ast.stmt]:
        leave = [self._leave(step.target)]
        if step.condition is None:
            return _located(leave, step.origin)
        condition = step.condition

        def test() -> list[ast.stmt]:
            return [ast.If(self._bool(condition), leave, [])]

        made = [self._at(step.path, step.origin), *self._statements.statement(test)]
        return _located(made, step.origin)

    def _leave(self, target: str) -> ast.stmt:
        if target and self._around and self._around[-1] == target:
            return ast.Break()
        if target == self._path and "" not in self._around:
            return ast.Return(None)
        self._raised.add(target)
        kind = self._statements.globals.bind(StopBlock, "Stop")
        return ast.Raise(call(kind, ast.Constant(target)), None)

    def _pass_number(self, loop: str) -> str:
        self._loops += 1
        return self._expressions.pass_numbers.setdefault(loop, f"n{self._loops}")

    def _bool(self, condition: Expr) -> ast.expr:
        return self._helper(landing.as_bool, self._expressions.of(condition))

    def _helper(self, function: Callable[..., object], value: ast.expr) -> ast.expr:
        return call(self._statements.globals.bind(function, function.__name__), value)

    def _check(self) -> ast.stmt:
        """A step boundary: the place where a cancelled run ends."""
        kind = self._statements.globals.bind(CancelledError, "Cancelled")
        return ast.If(load("c.cancelled"), [ast.Raise(kind, None)], [])

    def _at(self, path: str, origin: Origin) -> ast.stmt:
        """Notes the present place, for errors; costs a few nanoseconds."""
        self.places.append(Place(path, origin))
        return assign("at", ast.Constant(len(self.places) - 1))


def inside_code(steps: tuple[Step, ...], depth: int = 0) -> Iterator[Step]:
    """Nets and control flow that become part of the block's own code."""
    for step in steps:
        if isinstance(step, Net | Stop):
            yield step
        elif isinstance(step, UseNet):
            yield from inside_code(step.steps, depth)
        elif isinstance(step, If):
            yield step
            for branch in (*(then for _, then in step.branches), step.otherwise):
                yield from inside_code(branch, depth)
        elif isinstance(step, Loop | While | Guard) and depth < _DEEPEST:
            yield step
            yield from inside_code(step.steps, depth + 1)


def outside_code(steps: tuple[Step, ...], depth: int = 0) -> Iterator[Step]:
    """Steps that the block's code calls as functions."""
    for step in steps:
        if isinstance(step, Net | Stop):
            continue
        if isinstance(step, UseNet):
            yield from outside_code(step.steps, depth)
        elif isinstance(step, If):
            for branch in (*(then for _, then in step.branches), step.otherwise):
                yield from outside_code(branch, depth)
        elif isinstance(step, Loop | While | Guard) and depth < _DEEPEST:
            yield from outside_code(step.steps, depth + 1)
        else:
            yield step


def _has_actions(steps: tuple[Step, ...], depth: int) -> bool:
    return next(outside_code(steps, depth), None) is not None


def _located(made: list[ast.stmt], origin: Origin) -> list[ast.stmt]:
    """Give the statements the place in the spec, where they have none yet."""
    line, column = max(1, origin.line), max(0, origin.column - 1)
    for statement in made:
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt | ast.expr | ast.excepthandler | ast.keyword) and not (
                hasattr(node, "lineno")
            ):
                node.lineno = node.end_lineno = line
                node.col_offset = node.end_col_offset = column
    return made
