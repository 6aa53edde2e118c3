"""Compile blocks of steps to Python functions: the entry point of code generation.

It builds a syntax tree from frozen values that cannot say anything unsafe, compiles it and
wraps it as a function; there is no text to inject into, and the function sees no builtins.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from jobrun.core.errors import Origin
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.expressions import Expr
from jobrun.graph.steps import Assign, Net, Step
from jobrun.runtime.codegen.ast_nodes import assign, load
from jobrun.runtime.codegen.control_flow import (
    PASSES_HERE,
    Action,
    ControlFlow,
    called_steps,
    inlined_steps,
)
from jobrun.runtime.codegen.data_flow.copy_elision import Views, find_moves, find_views
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.liveness import BlockNames, access_finder, collect_usage
from jobrun.runtime.codegen.optimize.fusion_candidates import is_fusible
from jobrun.runtime.codegen.statements import StatementBuilder
from jobrun.runtime.codegen.variables import (
    load_variables,
    own_views,
    put_spares_back,
    release_workspaces,
    store_variables,
    take_spares,
)
from jobrun.runtime.context.frame import Frame
from jobrun.values.blob_kinds import Value

PLACES = "_places"
_FUNCTION = "block"


@dataclass(frozen=True, slots=True)
class Block:
    """The function compiled from a list of steps, with its source locations.

    Attributes:
        run: Runs the steps on a frame; True when a stop of the block ended it;
            errors are those of the steps, unexplained.
        code: The function's code, to find its frame in a traceback.
        places: Path and origin of each operator and step, for ``positions.place_at``.
        path: The block that ``stop`` leaves.
        variables: Which blob each of the function's numbered variables holds.
        changes: Names outside of the task whose array, or counter, it may change in place.
    """

    run: Callable[[Frame], bool | None]
    code: CodeType
    places: tuple[StepLocation, ...]
    path: str
    variables: dict[str, str]
    changes: frozenset[str] = frozenset()


def compile_block(
    steps: tuple[Step, ...],
    path: str,
    names: BlockNames,
    action: Callable[[Step], Action],
    *,
    in_exit: bool = False,
    by_record: bool = False,
) -> Block:
    """Compile the steps of a block to one Python function.

    Args:
        steps: The block's steps.
        path: The block's own path.
        names: What is known of its names.
        action: Gives the function of a step that is neither control flow nor a net.
        in_exit: Whether ``failed`` can be read.
        by_record: Whether it runs for each record, so that it pays to look at what names hold.
    """
    # Functions outside of the code find in a workspace what they touch.
    outside = collect_usage(tuple(called_steps(steps))).used
    private = frozenset(_names_inside(steps) - names.shared)
    kept = frozenset(name for name in private if name in outside or names.outlives(name))
    temporaries = private - kept
    moves = find_moves(steps, temporaries)
    inlined = frozenset(map(id, inlined_steps(steps)))
    views = find_views(steps, path, inlined, names, private, outside, moves)
    statements = StatementBuilder(names, private, moves, views, handed=outside, in_exit=in_exit)
    worth: list[tuple[str, ast.expr]] = []
    statements.expressions.worth = worth
    statements.expressions.names_hold_arrays = by_record
    outer = _find_outer_names(steps, kept)
    spares = _find_reusable_arrays(steps, outer)
    statements.spares = {number: variable for number, _, variable in spares}
    control = ControlFlow(statements, action, path)
    body = control.block(steps)
    if names.meter is not None:
        body = names.meter.instrument(body, control.places, path, statements.globals)
    first, whole = _transfer_variables(statements, body, kept, outer, spares, views)
    places = tuple(control.places)
    statements.globals.table[PLACES] = places
    start: list[ast.stmt] = [assign("c", load("f.cancel"))]
    if control.has_loops:
        start.append(assign(PASSES_HERE, load("c.passes")))
    start += [assign(variable, begin) for variable, begin in worth]
    start += [assign(level, load(f"f.{level}")) for level in sorted(statements.levels)]
    origin = places[0].origin if places else Origin("<python>")
    function = make_function([*start, *first, *whole], statements.globals.table, origin)
    variables = {variable: name for name, variable in statements.private.items()}
    changes = frozenset(filter(names.is_outer, collect_usage(steps).changed))
    return Block(function, function.__code__, places, path, variables, changes)


def _transfer_variables(
    statements: StatementBuilder,
    body: list[ast.stmt],
    kept: frozenset[str],
    outer: _OuterNames,
    spares: list[tuple[int, str, str]],
    views: Views,
) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Assemble a compiled block's statements to load its variables first and to store them last."""
    fetched = kept - (outer.first - outer.deleted)
    old = {name: variable for _, name, variable in spares}
    first = load_variables(statements, fetched) + take_spares(statements, old)
    if statements.expressions.worth:
        # There may be large arrays.
        body = release_workspaces(statements, fetched & outer.bound) + body
    back = put_spares_back(statements, old)
    back += store_variables(statements, outer.bound | outer.deleted, outer.deleted)
    back += own_views(statements, views.at_end)
    return first, [ast.Try(body, [], [], back)] if back else body


def compile_expression(
    expr: Expr, names: BlockNames, *, in_exit: bool = False
) -> Callable[[Any], Value]:
    """Compile one expression to a Python function of a frame."""
    statements = StatementBuilder(names, (), in_exit=in_exit)
    body = statements.statement(lambda: [ast.Return(statements.expressions.of(expr))])
    levels = [assign(level, load(f"f.{level}")) for level in sorted(statements.levels)]
    return make_function([*levels, *body], statements.globals.table, Origin("<expression>"))


def make_function(body: list[ast.stmt], table: dict[str, Any], origin: Origin) -> FunctionType:
    """Compile statements, as a Python syntax tree, to a function of one argument, the frame."""
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
class _OuterNames:
    """What a compiled block does to names that outlive it.

    Attributes:
        bound: Names that it may give another value.
        deleted: Names that it may remove.
        first: Names that it surely binds before it looks at them.
    """

    bound: frozenset[str]
    deleted: frozenset[str]
    first: frozenset[str]


def _names_inside(steps: tuple[Step, ...]) -> set[str]:
    look = access_finder()
    found: set[str] = set()
    for step in inlined_steps(steps):
        access = look.of_step(step)
        found.update(access.reads, access.binds, access.atomic, access.deletes)
    return found


def _find_outer_names(steps: tuple[Step, ...], kept: frozenset[str]) -> _OuterNames:
    bound: set[str] = set()
    deleted: set[str] = set()
    look = access_finder()
    for step in inlined_steps(steps):
        access = look.of_step(step)
        bound.update(access.binds)
        deleted.update(access.deletes)
    return _OuterNames(kept & bound, kept & deleted, kept & _bound_first(steps))


def _find_reusable_arrays(
    steps: tuple[Step, ...], outer: _OuterNames
) -> list[tuple[int, str, str]]:
    """Find a block's assignments that may overwrite the array their name is bound to already.

    With each a name, and a variable for what it held before: nothing ever looks at that.
    """
    found: dict[str, Assign] = {}
    look = access_finder()
    for op in (op for step in steps if isinstance(step, Net) for op in step.ops):
        for name in look.of_op(op).binds:
            if isinstance(op, Assign) and len(op.targets) == 1 and is_fusible(op.value):
                found.setdefault(name, op)
    names = sorted(found.keys() & (outer.first - outer.deleted))
    return [(id(found[name]), name, f"o{number}") for number, name in enumerate(names)]


def _bound_first(steps: tuple[Step, ...]) -> set[str]:
    """Compute, before a block is compiled, which names its steps bind before they read them."""
    look = access_finder()
    seen: set[str] = set()
    first: set[str] = set()
    for step in steps:
        if not isinstance(step, Net):
            seen |= collect_usage((step,)).used
            continue
        for op in step.ops:
            access = look.of_op(op)
            seen.update(access.reads, access.atomic)
            first.update(name for name in access.binds if name not in seen)
            seen.update(access.binds)
    return first
