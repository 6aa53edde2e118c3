"""How variables of generated code and workspaces take over from each other. Makes no code itself.

While the code runs, its variables count; at its ends, and around each function that it calls
for a step of another kind, the workspaces do.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from jobrun.runtime.statements import Statements
from jobrun.runtime.syntax import assign, call, item, load


def fetch(statements: Statements, names: Collection[str], *, again: bool = False) -> list[ast.stmt]:
    """Variables get what the workspaces hold; those of names that do not exist are unbound.

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
            assign(variable, ast.Constant(None)), ast.Delete([ast.Name(variable, ast.Del())])
        ]  # fmt: skip
        found.append(ast.If(is_there, [get], lose if again else []))
    return found


def take(statements: Statements, names: Collection[str]) -> list[ast.stmt]:
    """The variables alone hold what the workspaces held, where nobody else looks for it there.

    So what a name held before is free when it gets its next value, and not when the code ends.
    """
    levels: dict[str, list[str]] = {}
    for name in sorted(names):
        levels.setdefault(statements.level(name), []).append(name)
    return [
        ast.Expr(call(load("f.take"), load(level), *map(ast.Constant, found)))
        for level, found in levels.items()
    ]


def spare(statements: Statements, spares: Mapping[str, str]) -> list[ast.stmt]:
    """Variables, by blob, get what workspaces held, to give its memory to the blobs' new values."""
    return [
        assign(variable, call(load("f.spare"), statements.workspace(name), ast.Constant(name)))
        for name, variable in spares.items()
    ]


def put_back(statements: Statements, spares: Mapping[str, str]) -> list[ast.stmt]:
    """Workspaces get again what ``spare`` took, and no new value came for."""
    return [
        ast.If(
            ast.Compare(load(variable), [ast.IsNot()], [ast.Constant(None)]),
            [ast.Assign([item(statements.workspace(name), ast.Constant(name), ast.Store())],
                        load(variable))],
            [],
        )
        for name, variable in spares.items()
    ]  # fmt: skip


def hand_back(
    statements: Statements, names: Collection[str], deleted: Collection[str]
) -> list[ast.stmt]:
    """Workspaces get what the variables hold; of ``deleted`` names, also that they are gone."""
    back: list[ast.stmt] = []
    for name in sorted(names):
        workspace, key = statements.workspace(name), ast.Constant(name)
        put = ast.Assign([item(workspace, key, ast.Store())], load(statements.private[name]))
        pop = ast.Attribute(workspace, "pop", ast.Load())
        drop = ast.Expr(call(pop, key, ast.Constant(None)))
        gone: list[ast.stmt] = [drop] if name in deleted else [ast.Pass()]
        unbound = statements.globals.bind(UnboundLocalError, "Unbound")
        back.append(ast.Try([put], [ast.ExceptHandler(unbound, None, gone)], [], []))
    return back
