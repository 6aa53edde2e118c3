"""Generate single loops as Python statements, in the form that costs least per pass.

A person writes ``for _ in range(n)``. The code here goes through a list instead, as often as
it takes, which makes no numbers; and since ``cancel`` empties that list, a cancelled loop
ends with the present pass, though no pass looks at anything::

    left = n
    while left > 0:
        for _ in passes if left >= len(passes) else islice(passes, left):
            body
        else:
            if cancelled: raise
            left -= len(passes)
            continue
        break                          # the body left the loop
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from itertools import islice

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
from jobrun.graph.step_traversal import expressions, op_expressions, walk
from jobrun.graph.steps import Assign, Augment, Loop, NameTarget, Net, Step, While
from jobrun.graph.traversal import children, walk_expr
from jobrun.ops.table import OPERATORS
from jobrun.runtime.codegen.ast_nodes import assign, call, load, store
from jobrun.runtime.codegen.expressions import Globals
from jobrun.runtime.frame.cancel import PASSES

# The frame's list of passes, in generated code.
PASSES_HERE = "p"
# The variable that says whether a loop's inputs are numbers.
QUICK = "q"
_UNUSED = "_"
_ARITHMETIC = frozenset("+-*/")


def build_counted_loop(
    left: str, count: ast.expr, body: list[ast.stmt], check: ast.stmt, globals_: Globals
) -> list[ast.stmt]:
    """Generate a loop of ``count`` passes, evaluated once; the variable ``left`` counts down."""
    chunk = ast.Constant(PASSES)
    is_whole = ast.Compare(load(left), [ast.GtE()], [chunk])
    part = call(globals_.bind(islice, "islice"), load(PASSES_HERE), load(left))
    source = ast.IfExp(is_whole, load(PASSES_HERE), part)
    fewer = ast.AugAssign(store(left), ast.Sub(), chunk)
    chunks = _chunk(source, body, [check, fewer, ast.Continue()])
    is_more = ast.Compare(load(left), [ast.Gt()], [ast.Constant(0)])
    return [assign(left, count), ast.While(is_more, [chunks, ast.Break()], [])]


def build_endless_loop(body: list[ast.stmt], check: ast.stmt) -> list[ast.stmt]:
    """Generate a loop that runs ``body`` until a stop in it breaks the loop."""
    chunks = _chunk(load(PASSES_HERE), body, [check, ast.Continue()])
    return [ast.While(ast.Constant(True), [chunks, ast.Break()], [])]


def build_numbered_loop(
    number: str, limit: ast.expr, body: list[ast.stmt], globals_: Globals
) -> list[ast.stmt]:
    """Generate a loop over the pass numbers below ``limit``, which is evaluated once."""
    return [ast.For(store(number), call(globals_.bind(range, "range"), limit), body, [], None)]


def _chunk(source: ast.expr, body: list[ast.stmt], ended: list[ast.stmt]) -> ast.stmt:
    return ast.For(store(_UNUSED), source, body, ended, None)


def find_inputs(steps: tuple[Step, ...], variables: Collection[str]) -> tuple[str, ...] | None:
    """Find the names that a generated single loop reads, if its body is plain arithmetic.

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
            leaves = [leaf for one in read for leaf in walk_expr(one)]
            if target not in variables or not all(_is_arithmetic(one, variables) for one in leaves):
                return None
            names = [leaf.name for leaf in leaves if isinstance(leaf, Name)]
            inputs.update(dict.fromkeys(one for one in names if one not in bound))
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
    """Return whether a step in a loop reads the pass number, so that the loop must count."""
    return any(_has_index(expr, step.path) for expr in _inside(step.steps))


def is_steady(count: Expr, variables: Collection[str], rebound: Collection[str]) -> bool:
    """Return whether the count of a generated loop surely is the same before each pass.

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
