"""Steps become Python functions: the one module of jobrun that makes code.

It builds a syntax tree from frozen values that cannot say anything unsafe, compiles it and
wraps it as a function; there is no text to inject into, and the function sees no builtins.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from jobrun.blobs.values import Value
from jobrun.core.origin import Origin
from jobrun.graph.expr import Expr
from jobrun.graph.steps import Net, Step
from jobrun.runtime.control import Action, Control, Place, inside_code, outside_code
from jobrun.runtime.frame import Frame
from jobrun.runtime.moves import moves
from jobrun.runtime.statements import Statements
from jobrun.runtime.syntax import assign, call, item, load
from jobrun.runtime.usage import BlockNames, finder, usage

PLACES = "_places"
AT = "at"
_FUNCTION = "block"


@dataclass(frozen=True, slots=True)
class Block:
    """The code of a list of steps.

    Attributes:
        run: Runs the steps on a frame; errors are those of the steps, unexplained.
        code: The function's code, to find its frame in a traceback.
        places: Path and origin of each operator and step; the variable ``at`` of the
            function's frame is the index of the present one.
        path: The block that ``stop`` leaves.
        variables: Which blob each of the function's numbered variables stands for.
    """

    run: Callable[[Frame], None]
    code: CodeType
    places: tuple[Place, ...]
    path: str
    variables: dict[str, str]


def compile_block(
    steps: tuple[Step, ...],
    path: str,
    names: BlockNames,
    action: Callable[[Step], Action],
    *,
    in_exit: bool = False,
) -> Block:
    """The code of a block.

    Args:
        steps: The block's steps.
        path: The block's own path.
        names: What is known of its names.
        action: Gives the function of a step that is neither control flow nor a net.
        in_exit: Whether ``failed`` can be read.
    """
    # What a function outside of the code touches stands in a workspace, where it finds it.
    private = frozenset(usage(steps).used - names.shared - usage(tuple(outside_code(steps))).used)
    kept = frozenset(name for name in private if names.outlives(name))
    statements = Statements(names, private, moves(steps, private - kept), in_exit=in_exit)
    control = Control(statements, action, path)
    body = control.block(steps)
    fate = _fate(steps, kept)
    first = _loads(statements, kept - (fate.first - fate.deleted))
    whole = _write_back(statements, body, fate)
    places = tuple(control.places)
    statements.globals.table[PLACES] = places
    start: list[ast.stmt] = [assign(AT, ast.Constant(0)), assign("c", load("f.cancel"))]
    start += [assign(level, load(f"f.{level}")) for level in sorted(statements.levels)]
    origin = places[0].origin if places else Origin("<python>")
    function = make_function([*start, *first, *whole], statements.globals.table, origin)
    variables = {variable: name for name, variable in statements.private.items()}
    return Block(function, function.__code__, places, path, variables)


def compile_expression(
    expr: Expr, names: BlockNames, *, in_exit: bool = False
) -> Callable[[Any], Value]:
    """A function from a frame to the expression's value, which may share memory with blobs."""
    statements = Statements(names, (), in_exit=in_exit)
    body = statements.statement(lambda: [ast.Return(statements.expressions.of(expr))])
    levels = [assign(level, load(f"f.{level}")) for level in sorted(statements.levels)]
    return make_function([*levels, *body], statements.globals.table, Origin("<expression>"))


def make_function(body: list[ast.stmt], table: dict[str, Any], origin: Origin) -> FunctionType:
    """A function of one argument ``f`` with this body, in the file that the origin names."""
    arguments = ast.arguments([], [ast.arg("f")], None, [], [], None, [])
    define = ast.FunctionDef(_FUNCTION, arguments, body, [], None, None)
    if "type_params" in define._fields:  # a field since Python 3.12
        define.type_params = []  # type: ignore[attr-defined,unused-ignore]
    define.lineno = define.end_lineno = max(1, origin.line)
    define.col_offset = define.end_col_offset = 0
    module = ast.fix_missing_locations(ast.Module([define], []))
    code = compile(module, origin.file, "exec")
    inner = next(one for one in code.co_consts if isinstance(one, CodeType))
    return FunctionType(inner, table, _FUNCTION)


@dataclass(frozen=True, slots=True)
class _Fate:
    """What the code does to names that live on after it.

    Attributes:
        bound: Names that it may give another value.
        deleted: Names that it may remove.
        first: Names that it surely binds before it looks at them.
    """

    bound: frozenset[str]
    deleted: frozenset[str]
    first: frozenset[str]


def _fate(steps: tuple[Step, ...], kept: frozenset[str]) -> _Fate:
    bound: set[str] = set()
    deleted: set[str] = set()
    look = finder()
    for step in inside_code(steps):
        access = look.of_step(step)
        bound.update(access.binds)
        deleted.update(access.deletes)
    return _Fate(kept & bound, kept & deleted, kept & _bound_first(steps))


def _bound_first(steps: tuple[Step, ...]) -> set[str]:
    look = finder()
    seen: set[str] = set()
    first: set[str] = set()
    for step in steps:
        if not isinstance(step, Net):
            seen |= usage((step,)).used
            continue
        for op in step.ops:
            access = look.of_op(op)
            seen.update(access.reads, access.atomic)
            first.update(name for name in access.binds if name not in seen)
            seen.update(access.binds)
    return first


def _loads(statements: Statements, names: frozenset[str]) -> list[ast.stmt]:
    """Variables of the names that exist already; the others stay unbound."""
    found: list[ast.stmt] = []
    for name in sorted(names):
        workspace = statements.workspace(name)
        key = ast.Constant(name)
        is_there = ast.Compare(key, [ast.In()], [workspace])
        get = assign(statements.private[name], item(workspace, key, ast.Load()))
        found.append(ast.If(is_there, [get], []))
    return found


def _write_back(statements: Statements, body: list[ast.stmt], fate: _Fate) -> list[ast.stmt]:
    """The body, with its names put back into their workspaces however it ends."""
    back: list[ast.stmt] = []
    unbound = statements.globals.bind(UnboundLocalError, "Unbound")
    for name in sorted(fate.bound | fate.deleted):
        workspace = statements.workspace(name)
        key = ast.Constant(name)
        put: list[ast.stmt] = [
            ast.Assign([item(workspace, key, ast.Store())], load(statements.private[name]))
        ]
        pop = ast.Attribute(workspace, "pop", ast.Load())
        drop = ast.Expr(call(pop, key, ast.Constant(None)))
        gone: list[ast.stmt] = [drop] if name in fate.deleted else [ast.Pass()]
        back.append(ast.Try(put, [ast.ExceptHandler(unbound, None, gone)], [], []))
    return [ast.Try(body, [], [], back)] if back else body
