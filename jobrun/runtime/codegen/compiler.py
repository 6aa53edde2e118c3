"""Compile blocks of steps to Python functions: the entry point of code generation.

It builds a syntax tree from frozen values that cannot say anything unsafe, compiles it and
wraps it as a function; there is no text to inject into, and the function sees no builtins.
Single expressions outside tasks (stop conditions, metrics, expectations) are compiled when they
are evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.core.errors import Origin
from jobrun.graph.expressions import Expr, NodeBlob, OutputRead
from jobrun.graph.steps import Assign, Net, Step
from jobrun.graph.types import OutputRef
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.runtime.codegen.control_flow import (
    PASSES_HERE,
    Action,
    ControlFlow,
    called_steps,
    inlined_steps,
)
from jobrun.runtime.codegen.copy_elision import Views, find_moves, find_views
from jobrun.runtime.codegen.elementwise_chains import is_fusible
from jobrun.runtime.codegen.expressions import assign, load
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.liveness import (
    BlockNames,
    collect_usage,
    names_bound_first,
    usage_of_each,
)
from jobrun.runtime.codegen.record_statements import (
    RECORD_ARGUMENTS,
    RecordAccess,
    build_record_loop,
    build_skip,
    unbind,
)
from jobrun.runtime.codegen.statements import (
    StatementBuilder,
    load_variables,
    own_views,
    put_spares_back,
    release_workspaces,
    store_variables,
    take_spares,
)
from jobrun.values.blob_kinds import Value

PLACES = "_places"
_FUNCTION = "block"

Read = Callable[[NodeBlob | OutputRead], Value]


class Block(Struct, frozen=True):
    """The function compiled from a list of steps, with its source locations.

    Attributes:
        run: Runs the steps on a frame; True when a stop of the block ended it;
            errors are those of the steps, unexplained. With records, for each of them: its further
            arguments are ``RECORD_ARGUMENTS``.
        code: The function's code, to find its frame in a traceback.
        places: Path and origin of each operator and step, for ``positions.place_at``.
        path: The block that ``stop`` leaves.
        variables: Which blob each of the function's numbered variables holds.
        changes: Names outside of the task whose array, or counter, it may change in place.
    """

    run: Callable[..., bool | None]
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
    records: RecordAccess | None = None,
) -> Block:
    """Compile the steps of a block to one Python function.

    Args:
        steps: The block's steps.
        path: The block's own path.
        names: What is known of its names.
        action: Gives the function of a step that is neither control flow nor a net.
        in_exit: Whether ``failed`` can be read.
        records: What it binds and sends, where it runs for each record.
    """
    # Functions outside of the code find their blobs in a workspace.
    outside = collect_usage(tuple(called_steps(steps))).used
    carried = frozenset[str]() if records is None else records.names
    inside = usage_of_each(inlined_steps(steps))
    private = frozenset((inside.used | carried) - names.shared)
    variables_kept = frozenset(
        name for name in private if name in outside or name in carried or names.outlives(name)
    )
    temporaries = private - variables_kept
    move_plan = find_moves(steps, temporaries)
    inlined = frozenset(map(id, inlined_steps(steps)))
    views = find_views(steps, path, inlined, names, private, outside, move_plan)
    statements = StatementBuilder(names, private, move_plan, views, handed=outside, in_exit=in_exit)
    worth: list[tuple[str, ast.expr]] = []
    statements.expressions.worth = worth
    fields = () if records is None else records.fields
    outer = _OuterNames(
        variables_kept.intersection((*inside.bound, *fields)),
        variables_kept & inside.deleted,
        variables_kept.intersection((*names_bound_first(steps), *fields)),
    )
    spares = [] if records is not None else _find_reusable_arrays(steps, outer)
    statements.spares = {number: variable for number, _, variable in spares}
    # With many short runs, checking the types of values pays off.
    statements.expressions.names_hold_arrays = records is not None and bool(records.fields)
    control = ControlFlow(statements, action, path, build_skip(records) if records else None)
    body = control.block(steps)
    if names.meter is not None:
        body = names.meter.instrument(body, control.places, path, statements.globals)
    begin = [assign(variable, begun) for variable, begun in worth]
    if records is None:
        whole = [
            *begin,
            *_transfer_variables(statements, body, variables_kept, outer, spares, views),
        ]
    else:
        passing = (_find_passing_names(names, outer, views) & private) - outside
        undeleted = temporaries.difference(*move_plan.last_used.values())
        each = [
            *begin,
            *_transfer_each(statements, body, variables_kept - passing, outer, views, undeleted),
        ]
        whole = build_record_loop(statements, records, control.places, each, passing)
    locations = tuple(control.places)
    statements.globals.table[PLACES] = locations
    start: list[ast.stmt] = [assign("c", load("f.cancel"))]
    if control.has_loops:
        start.append(assign(PASSES_HERE, load("c.passes")))
    start += [assign(level, load(f"f.{level}")) for level in sorted(statements.levels)]
    origin = locations[0].origin if locations else Origin("<python>")
    table = statements.globals.table
    more = RECORD_ARGUMENTS if records is not None else ()
    function = make_function([*start, *whole], table, origin, more)
    variables = {variable: name for name, variable in statements.private.items()}
    changes = frozenset(filter(names.is_outer, collect_usage(steps).changed))
    return Block(function, function.__code__, locations, path, variables, changes)


def _transfer_variables(
    statements: StatementBuilder,
    body: list[ast.stmt],
    persistent: frozenset[str],
    outer: _OuterNames,
    spares: list[tuple[int, str, str]],
    views: Views,
) -> list[ast.stmt]:
    """Assemble a compiled block: load blobs into Python variables, run its body, store blobs."""
    fetched = persistent - (outer.first - outer.deleted)
    old = {name: variable for _, name, variable in spares}
    first = load_variables(statements, fetched) + take_spares(statements, old)
    if statements.expressions.worth:
        # The arrays may be large: free them early.
        body = release_workspaces(statements, fetched & outer.bound) + body
    back = put_spares_back(statements, old)
    back += store_variables(statements, outer.bound | outer.deleted, outer.deleted)
    back += own_views(statements, views.at_end)
    return [*first, ast.Try(body, [], [], back)] if back else [*first, *body]


def _transfer_each(
    statements: StatementBuilder,
    body: list[ast.stmt],
    persistent: frozenset[str],
    outer: _OuterNames,
    views: Views,
    undeleted: frozenset[str],
) -> list[ast.stmt]:
    """Assemble the compiled body for a record: load blobs into variables, run steps, store.

    Other threads run meanwhile, so that there is no memory to reuse. What is bound is unbound
    again: no record sees what the one before has bound, nor keeps its memory.
    """
    stored = (outer.bound | outer.deleted) & persistent
    first = load_variables(statements, persistent - (outer.first - outer.deleted), again=True)
    back = store_variables(statements, stored, outer.deleted, unbinds=True)
    back += own_views(statements, views.at_end)
    variables = {statements.private[name] for name in undeleted}
    back += unbind(sorted(variables | statements.scratch))
    return [*first, ast.Try(body, [], [], back)] if back else [*first, *body]


def compile_expression(
    expr: Expr, names: BlockNames, *, in_exit: bool = False
) -> Callable[[Any], Value]:
    """Compile one expression to a Python function, to be called with a ``Frame``."""
    statements = StatementBuilder(names, (), in_exit=in_exit)
    body = statements.statement(lambda: [ast.Return(statements.expressions.of(expr))])
    levels = [assign(level, load(f"f.{level}")) for level in sorted(statements.levels)]
    return make_function([*levels, *body], statements.globals.table, Origin("<expression>"))


def evaluate(expr: Expr, read: Read, *, epoch: int = 0) -> Value:
    """Compile an expression outside all tasks, such as a stop condition, and return its value.

    Args:
        expr: Its leaves are ``NodeBlob`` and ``OutputRead``; it draws no random numbers.
        read: Gives the value of a leaf.
        epoch: What ``epoch`` means in it.

    Raises:
        Exception: Whatever the expression raises; the caller knows where it is written.
    """
    if isinstance(expr, NodeBlob | OutputRead):
        # Most expressions over many nodes only read a blob: there is nothing to compile.
        return read(expr)

    def output(ref: OutputRef) -> Value:
        return read(OutputRead(ref.task, ref.output, ref.node))

    frame = SimpleNamespace(node_blob=read, output=output, epoch=epoch)
    # A warning is useless: a nan is visible in the metric.
    with np.errstate(all="ignore"):
        return _compiled(_ByIdentity(expr))(frame)


class _ByIdentity:
    """A cache key for an expression that equals only the same expression object.

    Expressions will not do as keys: ``x * 1`` equals ``x * True`` and ``x * 1.0``.
    """

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __hash__(self) -> int:
        return id(self.expr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.expr is self.expr


# A condition over many nodes consists of one expression per node.
@lru_cache(maxsize=1 << 14)
def _compiled(same: _ByIdentity) -> Callable[[Any], Value]:
    return compile_expression(same.expr, BlockNames())


def make_function(
    body: list[ast.stmt], table: dict[str, Any], origin: Origin, more: tuple[str, ...] = ()
) -> FunctionType:
    """Compile statements (``ast`` nodes) to a Python function that takes a ``Frame``."""
    arguments = ast.arguments([], [*map(ast.arg, ("f", *more))], None, [], [], None, [])
    define = ast.FunctionDef(_FUNCTION, arguments, body, [], None, None)
    if "type_params" in define._fields:  # a field since Python 3.12
        define.type_params = []  # type: ignore[attr-defined,unused-ignore]
    define.lineno = define.end_lineno = max(1, origin.line)
    define.col_offset = define.end_col_offset = 0
    module = ast.fix_missing_locations(ast.Module([define], []))
    code = compile(module, origin.file, "exec")
    inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return FunctionType(inner, table, _FUNCTION)


class _OuterNames(Struct, frozen=True):
    """What a compiled block does to names that outlive it.

    Attributes:
        bound: Names that it may give another value.
        deleted: Names that it may remove.
        first: Names that it surely binds before it looks at them.
    """

    bound: frozenset[str]
    deleted: frozenset[str]
    first: frozenset[str]


def _find_passing_names(names: BlockNames, outer: _OuterNames, views: Views) -> frozenset[str]:
    """Find names that compiled code keeps in Python variables only, until it sends them.

    Not those that may hold a view, or the array of another name: it is seen there, and copied.
    """
    viewed = {*views.at_end, *(other for others in views.at_end.values() for other in others)}
    return (names.passing & outer.first) - outer.deleted - viewed


def _find_reusable_arrays(
    steps: tuple[Step, ...], outer: _OuterNames
) -> list[tuple[int, str, str]]:
    """Choose assignments to compile so that they overwrite the array that their name held.

    With each a name, and a variable for what it held before: nothing ever looks at that.
    """
    assignments: dict[str, Assign] = {}
    for op in (op for step in steps if isinstance(step, Net) for op in step.ops):
        for name in ACCESS_FINDER.of_op(op).binds:
            if isinstance(op, Assign) and len(op.targets) == 1 and is_fusible(op.value):
                assignments.setdefault(name, op)
    names = sorted(assignments.keys() & (outer.first - outer.deleted))
    return [(id(assignments[name]), name, f"o{number}") for number, name in enumerate(names)]
