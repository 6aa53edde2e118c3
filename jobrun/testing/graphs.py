"""Build tasks and groups from short Python text, for tests that do not compile a spec.

The text is parsed by Python's ``ast`` alone; the compiler has no part in it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from jobrun.graph import expressions as e
from jobrun.graph import steps as s
from jobrun.graph.effects import Log
from jobrun.graph.types import (
    Cluster,
    Node,
    Output,
    OutputRef,
    Report,
    Scope,
    SetupNets,
    Task,
    TaskGroup,
)

_BINARY: Mapping[type[ast.operator], Any] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_UNARY: Mapping[type[ast.unaryop], Any] = {
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
    ast.Not: "not",
}
_COMPARE: Mapping[type[ast.cmpop], Any] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def expr(text: str) -> e.Expr:
    """Parse the text of an expression, for a test's graph.

    ``rng.f(…)`` draws, ``iter`` is the index of a loop, and ``out('t', 'o')`` reads an output.
    """
    return _expr(ast.parse(text, mode="eval").body)


def op(text: str, path: str = "e/t/steps[0]") -> s.Op:
    """Build an operator of a test's graph from a statement: ``x += 1`` gives an ``Augment``."""
    node: Any = ast.parse(text).body[0]
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
            return s.Assign(tuple(map(_target, targets)), _expr(value), path)
        case ast.Assign(targets=[target], value=value):
            return s.Assign((_target(target),), _expr(value), path)
        case ast.AugAssign(target=target, op=kind, value=value):
            return s.Augment(_target(target), _BINARY[type(kind)], _expr(value), path)
        case ast.Delete(targets=targets):
            return s.Delete(tuple(ast.unparse(deleted) for deleted in targets), path)
        case ast.Expr(value=value):
            return s.Perform(_expr(value), path)
        case _:
            raise ValueError(text)


def net(text: str, path: str = "e/t") -> s.Net:
    """Build a sequence of steps (net) of a test's graph from statements separated by ``;``."""
    lines = [
        statement.strip() for statement in text.replace("\n", ";").split(";") if statement.strip()
    ]
    return s.Net(tuple(op(line, f"{path}/steps[{i}]") for i, line in enumerate(lines)), path)


def text(*parts: str | tuple[str, str]) -> e.Text:
    """Build a text of a test's graph, such as a log line, from strings and expressions.

    Each part is a string, or the text of an expression with its format.
    """
    return e.Text(
        tuple(part if isinstance(part, str) else e.Hole(expr(part[0]), part[1]) for part in parts)
    )


def log(*parts: str | tuple[str, str], path: str = "e/t/log") -> Log:
    """Build a ``log`` step for a test's graph."""
    return Log(text(*parts), path=path)


def steps(*parts: str | s.Step) -> tuple[s.Step, ...]:
    """Build steps of a task graph for a test, from ``Step`` objects or texts as ``x = 1``."""
    return tuple(net(part) if isinstance(part, str) else part for part in parts)


def setup(init: Any = (), exit: Any = (), name: str = "setup") -> SetupNets:  # noqa: A002
    """Build a set-up from its init and exit steps, for a test's graph."""
    return SetupNets(steps(*init), steps(*exit), name)


def task(name: str, *parts: str | s.Step, node: str = "local", **more: Any) -> Task:
    """Build a task from its steps, for a test's graph.

    Args:
        name: Its name.
        parts: Its steps; text is a net.
        node: Its node.
        more: ``node_blobs``, ``group_blobs`` and ``instance_blobs`` name, separated by spaces, the
            blobs of those workspaces; others are the task's own. ``outputs`` maps names to
            expressions. All else are fields of ``Task``.
    """
    scopes: list[tuple[str, Scope]] = []
    for key, scope in (
        ("node_blobs", Scope.NODE),
        ("group_blobs", Scope.GROUP),
        ("instance_blobs", Scope.INSTANCE),
    ):
        scopes += [(blob, scope) for blob in more.pop(key, "").split()]
    outputs = tuple(Output(key, expr(value)) for key, value in more.pop("outputs", {}).items())
    path = more.pop("path", f"e/{name}")
    return Task(name, node, steps(*parts), scopes=tuple(scopes), outputs=outputs, path=path, **more)


def group(*tasks: Task, name: str = "epoch", **more: Any) -> TaskGroup:
    """Build a group of tasks, for a test's graph."""
    return TaskGroup(name, tasks, **more)


def report(*parts: str | s.Step, interval_s: float = 3600.0, path: str = "e/t/report[0]") -> Report:
    """Build a report for a test's graph, whose steps are run at intervals."""
    return Report(interval_s, steps(*parts), path)


def call(target: str, *, out: str = "", inout: str = "", **arguments: str) -> s.CallPython:
    """Build a step that calls a Python function with expressions, for a test's graph."""
    expressions = tuple((key, expr(value)) for key, value in arguments.items())
    return s.CallPython(
        target, expressions, tuple(inout.split()), tuple(out.split()), path="e/t/call"
    )


def cluster(*names: str) -> Cluster:
    """Build a cluster of nodes for a test's graph; ``local`` if none is named."""
    return Cluster(tuple(Node(name) for name in names or ("local",)))


def ref(task_name: str, output: str, node: str = "local") -> OutputRef:
    """Build the reference to an output of a task, for a test's graph."""
    return OutputRef(task_name, node, output)


def _target(node: ast.expr) -> s.NameTarget | s.ItemTarget:
    if isinstance(node, ast.Name):
        return s.NameTarget(node.id)
    assert isinstance(node, ast.Subscript)
    assert isinstance(node.value, ast.Name)
    return s.ItemTarget(node.value.id, _expr(node.slice))


def _expr(node: ast.expr) -> e.Expr:
    return _MAKERS[type(node)](node)


def _name(node: ast.Name) -> e.Expr:
    if node.id == "iter":
        return e.LoopIndex("e/t/loop")
    if node.id in {"epoch", "instance", "instances", "inf", "nan", "pi"}:
        return e.Builtin(node.id)
    return e.Dtype(node.id) if node.id in e.DTYPES else e.Name(node.id, node.col_offset)


def _call(node: Any) -> e.Expr:
    args = tuple(map(_expr, node.args))
    kwargs = tuple((keyword.arg, _expr(keyword.value)) for keyword in node.keywords)
    if isinstance(node.func, ast.Attribute):
        return e.Draw(node.func.attr, args, kwargs)
    if node.func.id == "out":
        task_name, output, *where = (argument.value for argument in node.args)
        return e.OutputRead(task_name, output, where[0] if where else "local")
    return e.Call(node.func.id, args, kwargs)


def _attribute(node: ast.Attribute) -> e.Expr:
    if isinstance(node.value, ast.Name) and node.value.id == "node":
        return e.Builtin(f"node.{node.attr}")
    return e.Attribute(_expr(node.value), node.attr)


def _slice(node: ast.Slice) -> e.Expr:
    parts = (node.lower, node.upper, node.step)
    return e.Slice(*(None if part is None else _expr(part) for part in parts))


_MAKERS: Mapping[type, Callable[[Any], e.Expr]] = {
    ast.Constant: lambda n: e.Const(None, True) if n.value is ... else e.Const(n.value),
    ast.Name: _name,
    ast.UnaryOp: lambda n: e.Unary(_UNARY[type(n.op)], _expr(n.operand)),
    ast.BinOp: lambda n: e.Binary(_expr(n.left), _BINARY[type(n.op)], _expr(n.right)),
    ast.Compare: lambda n: e.Compare(
        _expr(n.left), tuple(_COMPARE[type(o)] for o in n.ops), tuple(map(_expr, n.comparators))
    ),
    ast.BoolOp: lambda n: e.Logical(
        "and" if isinstance(n.op, ast.And) else "or", tuple(map(_expr, n.values))
    ),
    ast.IfExp: lambda n: e.Conditional(_expr(n.test), _expr(n.body), _expr(n.orelse)),
    ast.Call: _call,
    ast.Attribute: _attribute,
    ast.Subscript: lambda n: e.Index(_expr(n.value), _expr(n.slice)),
    ast.Slice: _slice,
    ast.Tuple: lambda n: e.Sequence(tuple(map(_expr, n.elts))),
    ast.List: lambda n: e.Sequence(tuple(map(_expr, n.elts)), "list"),
}
