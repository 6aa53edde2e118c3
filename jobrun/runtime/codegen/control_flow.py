"""Generate Python statements for control flow: blocks, branches, stops, and loops in fast forms."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from itertools import islice
from typing import assert_never

from jobrun.core.errors import Origin
from jobrun.graph.effects import Effect
from jobrun.graph.expressions import (
    Attribute,
    Binary,
    Builtin,
    Call,
    Const,
    Expr,
    LoopIndex,
    Name,
    Unary,
)
from jobrun.graph.query import expressions, op_expressions, walk
from jobrun.graph.steps import (
    Assign,
    Augment,
    CallPython,
    Guard,
    If,
    Loop,
    NameTarget,
    Net,
    Op,
    Parallel,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.traversal import children, walk_expr
from jobrun.ops.operator_table import OPERATORS
from jobrun.runtime.codegen import coercion
from jobrun.runtime.codegen.expressions import Globals, assign, call, item, load, store
from jobrun.runtime.codegen.line_table import StepLocation, locate
from jobrun.runtime.codegen.liveness import collect_usage
from jobrun.runtime.codegen.statements import (
    StatementBuilder,
    load_variables,
    lose_refused,
    store_variables,
)
from jobrun.runtime.context.cancel import PASSES, CancelledError
from jobrun.runtime.context.frame import Frame

Action = Callable[[Frame], None]

# Python refuses more than twenty loops and try statements inside each other. One of ours is up
# to three of Python's, and the whole is inside one more.
_DEEPEST = 5

# The frame's list of passes, in generated code.
PASSES_HERE = "p"
# The variable that says whether a loop's inputs are numbers.
QUICK = "q"
_UNUSED = "_"
_ARITHMETIC = frozenset("+-*/")


class StopBlock(Exception):  # noqa: N818 - a way out of a block, not an error
    """The exception that unwinds to the block whose path is ``target``."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target


class ControlFlow:
    """Turns the steps of one block into the body of one function.

    Args:
        statements: Turns operators into statements.
        action: Gives the function of any step that is not control flow.
        path: The block's own path, which a ``stop`` may name.
        skip: What a ``stop`` does before it leaves the pass of a loop that is around the whole
            block; None where there is no such loop, and it leaves the function.
    """

    def __init__(
        self,
        statements: StatementBuilder,
        action: Callable[[Step], Action],
        path: str,
        skip: list[ast.stmt] | None = None,
    ) -> None:
        self._statements = statements
        self._expressions = statements.expressions
        self._globals = statements.globals
        self._action = action
        self._path = path
        self._skip = skip
        # Paths of the blocks that enclose the current step, outermost first; "" for a guard.
        self._enclosing: list[str] = []
        # Targets of ``stop`` steps that raise an exception.
        self._raised: set[str] = set()
        # Number of loop variables: pass numbers, and numbers of remaining passes.
        self._loops = 0
        # Number of generated loops that enclose the current step.
        self._depth = 0
        self.places: list[StepLocation] = []

    @property
    def has_loops(self) -> bool:
        """Return whether the control flow generated for a block of steps contains a loop."""
        return self._loops > 0

    def block(self, steps: tuple[Step, ...]) -> list[ast.stmt]:
        """Generate the control flow of a whole block from its steps."""
        body = self._steps(steps)
        if self._skip is not None:
            if self._raised:
                # Also for a stop of an outer block: other readers may wait for the record's number.
                body = [self._catching(self._path, body, deepcopy(self._skip), [ast.Continue()])]
            return body or [self._check()]
        if self._path in self._raised:
            body = [self._catching(self._path, body, [], [_build_early_return()])]
        return body or [ast.Pass()]

    def _steps(self, steps: tuple[Step, ...]) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for step in steps:
            # A loop of expressions checks for a cancel at each pass, which is enough.
            if not isinstance(step, UseNet) and not (self._depth and _is_code(step)):
                statements.append(self._check())
            statements += self._step(step)
        return statements

    def _step(self, step: Step) -> list[ast.stmt]:
        match step:
            case Net():
                return [statement for op in step.ops for statement in self._op(op)]
            case UseNet():
                return self._steps(step.steps)
            case Loop() | While() | Guard() if len(self._enclosing) >= _DEEPEST:
                return self._act(step)
            case Loop() | While() if not self._depth:
                return self._outermost(step)
            case Loop():
                return self._loop(step)
            case While():
                return self._while(step)
            case Guard():
                return self._guard(step)
            case If():
                return self._if(step)
            case Stop():
                return self._stop(step)
            case Effect() | Parallel():
                return self._act(step)
            case _:
                assert_never(step)

    def _op(self, op: Op) -> list[ast.stmt]:
        match op:
            case Assign():
                blob = op.targets[0].name
            case Augment():
                blob = op.target.name
            case _:
                blob = ""
        return self._with_location(self._statements.of(op), op.path, op.origin, blob)

    def _act(self, step: Step) -> list[ast.stmt]:
        inner = [stop for stop in walk((step,)) if isinstance(stop, Stop)]
        self._raised.update(stop.target for stop in inner)
        function = self._globals.bind(self._action(step), "act")
        usage, private = collect_usage((step,)), self._statements.private.keys()
        # A callable may replace the array of an argument that it changes.
        used, bound = usage.used & private, (usage.rebound | usage.changed) & private
        statements = store_variables(self._statements, used, used)
        act: ast.stmt = ast.Expr(call(function, load("f")))
        if bound:
            # Also after a failure: values bound before it count.
            act = ast.Try([act], [], [], load_variables(self._statements, bound, again=True))
        statements.append(act)
        if any(isinstance(inner_step, CallPython) for inner_step in walk((step,))):
            # User code may have changed parts of blobs to which it keeps references.
            statements += lose_refused(self._statements, private - bound)
        return self._with_location(statements, step.path, step.origin)

    def _outermost(self, step: Loop | While) -> list[ast.stmt]:
        """Generate an outermost loop, after tests whether the slices in it need copies."""
        self._statements.rebound = {*collect_usage(step.steps).rebound, *_augmented(step.steps)}
        statements = self._loop(step) if isinstance(step, Loop) else self._while(step)
        statements = [*self._statements.look_ahead(), *statements]
        self._statements.rebound, self._statements.viewable = None, {}
        return statements

    def _loop(self, step: Loop) -> list[ast.stmt]:
        count = step.count
        if count is None:
            return self._while(step)
        number = self._pass_number(step)
        if not self._is_steady(count, step):
            return self._build_recounted_loop(step, count, number)
        # Generated before the body, so that the count's blobs are read before the loop.
        reads = self._statements.statement(lambda: [ast.Expr(self._count(count))])
        limit = reads.pop()
        assert isinstance(limit, ast.Expr)  # noqa: S101 - for the type checker
        if number:
            body = self._body(step, [], number, ahead=False)
            statements = build_numbered_loop(number, limit.value, body, self._globals)
            return self._caught(step, [*reads, *statements])
        remaining = self._variable("r")

        def build() -> list[ast.stmt]:
            body = self._body(step, [], "", ahead=False)
            return build_counted_loop(remaining, limit.value, body, self._check(), self._globals)

        chains = len(self._expressions.worth or ())
        statements = build()
        inputs = find_inputs(step.steps, self._statements.private)
        if inputs:
            # Arrays that are worth a fused kernel take longer than any check; scalars never are.
            has_chains = chains < len(self._expressions.worth or ())
            kind = coercion.are_scalars if has_chains else coercion.are_numbers
            variables = [load(self._statements.private[name]) for name in inputs]
            statements = self._build_twin(
                step, self._globals.call(kind, *variables), build, statements
            )
        return self._caught(step, [*reads, *statements])

    def _build_twin(
        self,
        step: Loop,
        is_quick: ast.expr,
        build: Callable[[], list[ast.stmt]],
        checked_loop: list[ast.stmt],
    ) -> list[ast.stmt]:
        """Generate an ``if`` that runs a loop without type checks when its inputs are numbers."""
        worth, self._expressions.worth = self._expressions.worth, None
        self._statements.checked = False
        # A separate location: the profiler scales the samples of each variant by its own passes.
        quick = self._with_location(build(), step.path, step.origin)
        self._statements.checked = True
        self._expressions.worth = worth
        # A blob without a value is refused by the step that reads it.
        missing = assign(QUICK, ast.Constant(False))
        return [
            self._globals.if_unbound([assign(QUICK, is_quick)], [missing]),
            ast.If(load(QUICK), quick, checked_loop),
        ]

    def _build_recounted_loop(self, step: Loop, count: Expr, number: str) -> list[ast.stmt]:
        """Generate the control flow of a loop whose count may change from pass to pass."""
        number = number or self._variable("n")

        def more() -> ast.expr:
            return ast.Compare(load(number), [ast.Lt()], [self._count(count)])

        body = self._body(step, self._leave_unless(more), number, ahead=True)
        repeat = ast.While(ast.Constant(True), body, [])
        return self._caught(step, [assign(number, ast.Constant(0)), repeat])

    def _while(self, step: Loop | While) -> list[ast.stmt]:
        number = self._pass_number(step)
        head: list[ast.stmt] = []
        if isinstance(step, While):
            condition = step.condition
            head = self._leave_unless(lambda: self._bool(condition))
        body = self._body(step, head, number, ahead=True)
        statements = build_endless_loop(body, self._check())
        if number:
            statements.insert(0, assign(number, ast.Constant(0)))
        return self._caught(step, statements)

    def _leave_unless(self, condition: Callable[[], ast.expr]) -> list[ast.stmt]:
        def leave() -> list[ast.stmt]:
            return [ast.If(ast.UnaryOp(ast.Not(), condition()), [ast.Break()], [])]

        return self._statements.statement(leave)

    def _body(
        self, step: Loop | While, head: list[ast.stmt], number: str, *, ahead: bool
    ) -> list[ast.stmt]:
        """Generate the control flow inside a loop: its header, steps and pass counter."""
        self._enclosing.append(step.path)
        self._depth += 1
        # A loop inside of a record's steps may be over numbers.
        outside, self._expressions.names_hold_arrays = self._expressions.names_hold_arrays, False
        body = self._steps(step.steps)
        self._expressions.names_hold_arrays = outside
        self._depth -= 1
        has_actions = _has_actions(step.steps, len(self._enclosing))
        self._enclosing.pop()
        if number:
            head = [*head, self._check()]
        if has_actions:
            # Steps outside of this code find the pass number in the frame.
            passes = item(load("f.loops"), ast.Constant(step.path), ast.Store())
            head = [*head, ast.Assign([passes], load(number))]
        if number and ahead:
            body = [*body, ast.AugAssign(store(number), ast.Add(), ast.Constant(1))]
        return [*head, *body] or [ast.Pass()]

    def _is_steady(self, count: Expr, step: Loop) -> bool:
        usage = collect_usage(step.steps)
        return is_steady(count, self._statements.private, usage.rebound | usage.changed)

    def _count(self, count: Expr) -> ast.expr:
        limit = self._expressions.of(count)
        if isinstance(count, Const) and type(count.value) is int:
            return limit
        return self._globals.call(coercion.as_count, limit)

    def _caught(self, step: Loop | While, statements: list[ast.stmt]) -> list[ast.stmt]:
        if step.path in self._raised:
            statements = [self._catching(step.path, statements, [])]
        return self._with_location(statements, step.path, step.origin)

    def _guard(self, step: Guard) -> list[ast.stmt]:
        def flag(value: bool) -> list[ast.stmt]:
            return [self._statements.bind(step.flag, ast.Constant(value))]

        self._enclosing.append("")
        body = [*self._steps(step.steps), *flag(False)]
        self._enclosing.pop()
        statements = [self._catching(step.path, body, flag(True))]
        return self._with_location(statements, step.path, step.origin)

    def _catching(
        self, path: str, body: list[ast.stmt], then: list[ast.stmt], last: Sequence[ast.stmt] = ()
    ) -> ast.stmt:
        """Generate a ``try`` statement that catches a ``stop`` of this block or of one around it.

        ``last`` is what only a stop of ``path`` does.
        """
        others = ast.Compare(load("stop.target"), [ast.NotEq()], [ast.Constant(path)])
        handler = [*then, ast.If(others, [ast.Raise(None, None)], []), *last]
        kind = self._globals.bind(StopBlock, "Stop")
        return ast.Try(body, [ast.ExceptHandler(kind, "stop", handler)], [], [])

    def _if(self, step: If, branch: int = 0) -> list[ast.stmt]:
        if branch == len(step.branches):
            return self._steps(step.otherwise)
        condition, then = step.branches[branch]

        def choose() -> list[ast.stmt]:
            return [ast.If(self._bool(condition), [], [])]

        *before, chosen = self._statements.statement(choose)
        assert isinstance(chosen, ast.If)  # noqa: S101 - for the type checker
        chosen.body = self._steps(then) or [ast.Pass()]
        chosen.orelse = self._if(step, branch + 1)
        return self._with_location([*before, chosen], step.path, step.origin_of(branch))

    def _stop(self, step: Stop) -> list[ast.stmt]:
        leave = self._leave(step.target)
        if step.condition is None:
            return self._with_location(leave, step.path, step.origin)
        condition = step.condition

        def test() -> list[ast.stmt]:
            return [ast.If(self._bool(condition), leave, [])]

        return self._with_location(self._statements.statement(test), step.path, step.origin)

    def _leave(self, target: str) -> list[ast.stmt]:
        if target and self._enclosing and self._enclosing[-1] == target:
            return [ast.Break()]
        if target == self._path and self._skip is not None and not self._enclosing:
            return [*deepcopy(self._skip), ast.Continue()]
        if target == self._path and self._skip is None and "" not in self._enclosing:
            return [_build_early_return()]
        self._raised.add(target)
        kind = self._globals.bind(StopBlock, "Stop")
        return [ast.Raise(call(kind, ast.Constant(target)), None)]

    def _pass_number(self, step: Loop | While) -> str:
        """Return the variable in which control flow statements count loop passes, or ""."""
        has_actions = _has_actions(step.steps, len(self._enclosing) + 1)
        if not (has_actions or reads_pass(step)):
            self._loops += 1
            return ""
        return self._expressions.pass_numbers.setdefault(step.path, self._variable("n"))

    def _variable(self, kind: str) -> str:
        self._loops += 1
        return f"{kind}{self._loops}"

    def _bool(self, condition: Expr) -> ast.expr:
        return self._globals.call(coercion.as_bool, self._expressions.of(condition))

    def _check(self) -> ast.stmt:
        """Generate the control flow between two steps that raises if the run is cancelled."""
        kind = self._globals.bind(CancelledError, "Cancelled")
        return ast.If(load("c.cancelled"), [ast.Raise(kind, None)], [])

    def _with_location(
        self, statements: list[ast.stmt], path: str, origin: Origin, blob: str = ""
    ) -> list[ast.stmt]:
        """Attach a step's location in the spec to the control flow statements generated for it."""
        self.places.append(StepLocation(path, origin, blob))
        locate(statements, origin, len(self.places) - 1)
        return statements


def inlined_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield the steps whose control flow is generated inline, in their block's function."""
    return (step for step, is_inlined in _walk_block(steps) if is_inlined)


def called_steps(steps: tuple[Step, ...], depth: int = 0) -> Iterator[Step]:
    """Yield the steps of a block for which generated control flow calls a function."""
    return (step for step, is_inlined in _walk_block(steps, depth) if not is_inlined)


def _walk_block(steps: tuple[Step, ...], depth: int = 0) -> Iterator[tuple[Step, bool]]:
    """Yield the steps of a block, each with whether its control flow is generated inline."""
    for step in steps:
        match step:
            case UseNet():
                yield from _walk_block(step.steps, depth)
            case If():
                yield step, True
                for branch in (*(then for _, then in step.branches), step.otherwise):
                    yield from _walk_block(branch, depth)
            case Loop() | While() | Guard() if depth < _DEEPEST:
                yield step, True
                yield from _walk_block(step.steps, depth + 1)
            case _:
                yield step, isinstance(step, Net | Stop)


def _build_early_return() -> ast.stmt:
    """Generate ``return True``, the control flow by which ``stop`` ends a block early."""
    return ast.Return(ast.Constant(True))


def _augmented(steps: tuple[Step, ...]) -> Iterator[str]:
    """Yield names that a loop's steps change by ``+=`` or a similar operator."""
    for step in walk(steps):
        for op in step.ops if isinstance(step, Net) else ():
            if isinstance(op, Augment) and isinstance(op.target, NameTarget):
                yield op.target.name


def _has_actions(steps: tuple[Step, ...], depth: int) -> bool:
    return next(called_steps(steps, depth), None) is not None


def _is_code(step: Step) -> bool:
    return isinstance(step, Net | If | Stop | Guard | Loop | While)


def build_counted_loop(
    remaining: str, count: ast.expr, body: list[ast.stmt], check: ast.stmt, globals_: Globals
) -> list[ast.stmt]:
    """Generate the control flow of a loop that counts ``remaining`` down from ``count``."""
    chunk = ast.Constant(PASSES)
    is_whole = ast.Compare(load(remaining), [ast.GtE()], [chunk])
    part = call(globals_.bind(islice, "islice"), load(PASSES_HERE), load(remaining))
    source = ast.IfExp(is_whole, load(PASSES_HERE), part)
    fewer = ast.AugAssign(store(remaining), ast.Sub(), chunk)
    chunks = _chunk(source, body, [check, fewer, ast.Continue()])
    is_more = ast.Compare(load(remaining), [ast.Gt()], [ast.Constant(0)])
    return [assign(remaining, count), ast.While(is_more, [chunks, ast.Break()], [])]


def build_endless_loop(body: list[ast.stmt], check: ast.stmt) -> list[ast.stmt]:
    """Generate the control flow of an endless loop, which only a ``stop`` in it leaves."""
    chunks = _chunk(load(PASSES_HERE), body, [check, ast.Continue()])
    return [ast.While(ast.Constant(True), [chunks, ast.Break()], [])]


def build_numbered_loop(
    number: str, limit: ast.expr, body: list[ast.stmt], globals_: Globals
) -> list[ast.stmt]:
    """Generate the control flow of a loop over the pass numbers below ``limit``."""
    return [ast.For(store(number), call(globals_.bind(range, "range"), limit), body, [], None)]


def _chunk(source: ast.expr, body: list[ast.stmt], ended: list[ast.stmt]) -> ast.stmt:
    return ast.For(store(_UNUSED), source, body, ended, None)


def find_inputs(steps: tuple[Step, ...], variables: Collection[str]) -> tuple[str, ...] | None:
    """Return the names read by a loop that only computes with ``+ - * /``; None for other loops.

    Args:
        steps: Of the loop's body.
        variables: Names that only this code can give another value.

    Returns:
        None if the body has more than sums, products and quotients of such names and numbers.
    """
    inputs: dict[str, None] = {}
    bound: set[str] = set()
    for step in steps:
        if not isinstance(step, Net):
            return None
        for op in step.ops:
            match op:
                case Assign(targets=(NameTarget(name=target),), value=value):
                    read = [value]
                case Augment(target=NameTarget(name=target), operator=sign, value=value) if (
                    sign in _ARITHMETIC
                ):
                    read = [Name(target), value]
                case _:
                    return None
            leaves = [leaf for operand in read for leaf in walk_expr(operand)]
            if target not in variables or not all(
                _is_arithmetic(leaf, variables) for leaf in leaves
            ):
                return None
            names = [leaf.name for leaf in leaves if isinstance(leaf, Name)]
            inputs.update(dict.fromkeys(name for name in names if name not in bound))
            bound.add(target)
    return tuple(inputs)


def _is_arithmetic(expr: Expr, variables: Collection[str]) -> bool:
    match expr:
        case Name(name=name):
            return name in variables
        case Const(value=value):
            return type(value) in (int, float)
        case Binary(operator=sign):
            return sign in _ARITHMETIC
        case Unary(operator=sign):
            return sign in ("-", "+")
        case _:
            return False


def reads_pass(step: Loop | While) -> bool:
    """Return whether a step in a loop reads the pass number, so that generated code must count."""
    return any(_has_index(expr, step.path) for expr in _inside(step.steps))


def is_steady(count: Expr, variables: Collection[str], rebound: Collection[str]) -> bool:
    """Return whether a loop's count never changes, so that control flow can evaluate it once.

    Args:
        count: The count.
        variables: Names that only this code can give another value.
        rebound: Those that the loop's body may give one.
    """
    match count:
        case Const() | Builtin() | LoopIndex():
            return True
        case Name(name=name):
            return name in variables and name not in rebound
        case Call():
            known = OPERATORS.get(count.function)
            pure = known is not None and known.deterministic and not known.mutates
            return pure and _all_steady(count, variables, rebound)
        case Attribute() | Binary() | Unary():
            return _all_steady(count, variables, rebound)
        case _:
            return False


def _all_steady(expr: Expr, variables: Collection[str], rebound: Collection[str]) -> bool:
    return all(is_steady(part, variables, rebound) for part in children(expr))


def _inside(steps: tuple[Step, ...]) -> Iterator[Expr]:
    for step in walk(steps):
        if isinstance(step, Net):
            for op in step.ops:
                yield from op_expressions(op)
        else:
            yield from expressions(step)


def _has_index(expr: Expr, loop: str) -> bool:
    if isinstance(expr, LoopIndex):
        return expr.loop == loop
    return any(_has_index(part, loop) for part in children(expr))
