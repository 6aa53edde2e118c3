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
from jobrun.graph.steps import Assign, Net, Step
from jobrun.runtime.chains import is_chain
from jobrun.runtime.control import Action, Control, inside_code, outside_code
from jobrun.runtime.frame import Frame
from jobrun.runtime.handover import fetch, hand_back, put_back, spare, take
from jobrun.runtime.loops import PASSES_HERE
from jobrun.runtime.moves import moves
from jobrun.runtime.positions import Place
from jobrun.runtime.statements import Statements
from jobrun.runtime.syntax import assign, load
from jobrun.runtime.usage import BlockNames, finder, usage

PLACES = "_places"
_FUNCTION = "block"


@dataclass(frozen=True, slots=True)
class Block:
    """The code of a list of steps.

    Attributes:
        run: Runs the steps on a frame, and tells by True that a stop of the block ended it;
            errors are those of the steps, unexplained.
        code: The function's code, to find its frame in a traceback.
        places: Path and origin of each operator and step, for ``positions.place_at``.
        path: The block that ``stop`` leaves.
        variables: Which blob each of the function's numbered variables stands for.
        changes: Names outside of the task whose array, or counter, it may change in place.
    """

    run: Callable[[Frame], bool | None]
    code: CodeType
    places: tuple[Place, ...]
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
) -> Block:
    """The code of a block.

    Args:
        steps: The block's steps.
        path: The block's own path.
        names: What is known of its names.
        action: Gives the function of a step that is neither control flow nor a net.
        in_exit: Whether ``failed`` can be read.
    """
    # Functions outside of the code find in a workspace what they touch.
    outside = usage(tuple(outside_code(steps))).used
    private = frozenset(_names_inside(steps) - names.shared)
    kept = frozenset(name for name in private if name in outside or names.outlives(name))
    temporaries = private - kept
    statements = Statements(
        names, private, moves(steps, temporaries), handed=outside, in_exit=in_exit
    )
    worth: list[tuple[str, ast.expr]] = []
    statements.expressions.worth = worth
    fate = _fate(steps, kept)
    spares = _spares(steps, fate)
    statements.spares = {number: variable for number, _, variable in spares}
    control = Control(statements, action, path)
    body = control.block(steps)
    if names.meter is not None:
        body = names.meter.measured(body, control.places, path, statements.globals)
    first, whole = _handed_over(statements, body, kept, fate, spares)
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
    changes = frozenset(filter(names.outer, usage(steps).changed))
    return Block(function, function.__code__, places, path, variables, changes)


def _handed_over(
    statements: Statements,
    body: list[ast.stmt],
    kept: frozenset[str],
    fate: _Fate,
    spares: list[tuple[int, str, str]],
) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """What comes before the body, and the body with what comes at its end."""
    fetched = kept - (fate.first - fate.deleted)
    old = {name: variable for _, name, variable in spares}
    first = fetch(statements, fetched) + spare(statements, old)
    if statements.expressions.worth:
        # There may be large arrays.
        body = take(statements, fetched & fate.bound) + body
    back = put_back(statements, old)
    back += hand_back(statements, fate.bound | fate.deleted, fate.deleted)
    return first, [ast.Try(body, [], [], back)] if back else body


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


def _names_inside(steps: tuple[Step, ...]) -> set[str]:
    look = finder()
    found: set[str] = set()
    for step in inside_code(steps):
        access = look.of_step(step)
        found.update(access.reads, access.binds, access.atomic, access.deletes)
    return found


def _fate(steps: tuple[Step, ...], kept: frozenset[str]) -> _Fate:
    bound: set[str] = set()
    deleted: set[str] = set()
    look = finder()
    for step in inside_code(steps):
        access = look.of_step(step)
        bound.update(access.binds)
        deleted.update(access.deletes)
    return _Fate(kept & bound, kept & deleted, kept & _bound_first(steps))


def _spares(steps: tuple[Step, ...], fate: _Fate) -> list[tuple[int, str, str]]:
    """Assignments, by ``id``, that give names their first value, which may be large.

    With each a name, and a variable for what it held before: nothing ever looks at that.
    """
    found: dict[str, Assign] = {}
    look = finder()
    for op in (op for step in steps if isinstance(step, Net) for op in step.ops):
        for name in look.of_op(op).binds:
            if isinstance(op, Assign) and len(op.targets) == 1 and is_chain(op.value):
                found.setdefault(name, op)
    names = sorted(found.keys() & (fate.first - fate.deleted))
    return [(id(found[name]), name, f"o{number}") for number, name in enumerate(names)]


def _bound_first(steps: tuple[Step, ...]) -> set[str]:
    """Names that the steps surely bind before they look at them."""
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
