"""Generate the statements that move blobs between workspaces and a block's variables.

While the code runs, its variables count; at its ends, and around each function that it calls
for a step of another kind, the workspaces do.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from jobrun.runtime.codegen import coercion
from jobrun.runtime.codegen.ast_nodes import assign, call, item, load
from jobrun.runtime.codegen.statements import StatementBuilder


def load_variables(
    statements: StatementBuilder, names: Collection[str], *, again: bool = False
) -> list[ast.stmt]:
    """Generate statements that load variables from workspaces, and unbind those of missing blobs.

    Args:
        statements: What knows the variables.
        names: Blobs with variables.
        again: The variables may hold something.
    """
    found: list[ast.stmt] = []
    for name in sorted(names):
        workspace, key = statements.workspace(name), ast.Constant(name)
        variable = statements.private[name]
        is_there = ast.Compare(key, [ast.In()], [workspace])
        get = assign(variable, item(workspace, key, ast.Load()))
        # Bound first: Python does not delete what is not there.
        lose: list[ast.stmt] = [
            assign(variable, ast.Constant(None)),
            ast.Delete([ast.Name(variable, ast.Del())]),
        ]
        found.append(ast.If(is_there, [get], lose if again else []))
    return found


def release_workspaces(statements: StatementBuilder, names: Collection[str]) -> list[ast.stmt]:
    """Generate statements that drop blobs from workspaces while variables hold them.

    So what a name held before is free when it gets its next value, and not when the code ends.
    """
    levels: dict[str, list[str]] = {}
    for name in sorted(names):
        levels.setdefault(statements.level(name), []).append(name)
    takes: list[ast.stmt] = [
        ast.Expr(call(load("f.take"), load(level), *map(ast.Constant, found)))
        for level, found in levels.items()
    ]
    # Where other tasks may read them, there is nothing to drop, record for record.
    return [ast.If(load("f.run.is_alone"), takes, [])] if takes else []


def take_spares(statements: StatementBuilder, spares: Mapping[str, str]) -> list[ast.stmt]:
    """Generate statements that move blobs not needed any more into variables for reuse."""
    return [
        assign(variable, call(load("f.spare"), statements.workspace(name), ast.Constant(name)))
        for name, variable in spares.items()
    ]


def put_spares_back(statements: StatementBuilder, spares: Mapping[str, str]) -> list[ast.stmt]:
    """Generate statements that store unused spare blobs back from variables into workspaces."""
    return [
        ast.If(
            ast.Compare(load(variable), [ast.IsNot()], [ast.Constant(None)]),
            [
                ast.Assign(
                    [item(statements.workspace(name), ast.Constant(name), ast.Store())],
                    load(variable),
                )
            ],
            [],
        )
        for name, variable in spares.items()
    ]


def store_variables(
    statements: StatementBuilder,
    names: Collection[str],
    deleted: Collection[str],
    *,
    unbinds: bool = False,
) -> list[ast.stmt]:
    """Generate statements that store variables into workspaces; unbound ones are deleted.

    Args:
        statements: What knows the variables.
        names: Blobs with variables.
        deleted: Those that the code may have deleted.
        unbinds: The variables are unbound then.
    """
    back: list[ast.stmt] = []
    for name in sorted(names):
        workspace, key = statements.workspace(name), ast.Constant(name)
        variable = statements.private[name]
        put = ast.Assign([item(workspace, key, ast.Store())], load(variable))
        let_go: list[ast.stmt] = [ast.Delete([ast.Name(variable, ast.Del())])] if unbinds else []
        pop = ast.Attribute(workspace, "pop", ast.Load())
        drop = ast.Expr(call(pop, key, ast.Constant(None)))
        gone: list[ast.stmt] = [drop] if name in deleted else [ast.Pass()]
        unbound = statements.globals.bind(UnboundLocalError, "Unbound")
        back.append(ast.Try([put, *let_go], [ast.ExceptHandler(unbound, None, gone)], [], []))
    return back


def own_views(
    statements: StatementBuilder, at_end: Mapping[str, Collection[str]]
) -> list[ast.stmt]:
    """Generate statements that copy blobs left as views when variables are stored in workspaces.

    Args:
        statements: What knows the variables.
        at_end: The names, each with those that may hold the same array.
    """

    def place(name: str) -> list[ast.expr]:
        return [statements.workspace(name), ast.Constant(name)]

    own = statements.globals.bind(coercion.own_at_end, "own")
    return [
        ast.Expr(call(own, *place(name), *(ast.Tuple(place(one), ast.Load()) for one in others)))
        for name, others in at_end.items()
    ]
