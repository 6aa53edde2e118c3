"""Generate single nodes of Python syntax trees (``ast``): loads, stores, assignments, calls."""

from __future__ import annotations

import ast


def load(name: str) -> ast.expr:
    """Generate the Python expression that reads a variable, or attributes of one."""
    first, *rest = name.split(".")
    node: ast.expr = ast.Name(first, ast.Load())
    for attribute in rest:
        node = ast.Attribute(node, attribute, ast.Load())
    return node


def store(name: str) -> ast.Name:
    """Generate the Python expression of a variable that is being bound."""
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr) -> ast.stmt:
    """Generate the Python statement ``name = value``."""
    return ast.Assign([store(name)], value)


def call(function: ast.expr, *args: ast.expr) -> ast.expr:
    """Generate the Python expression ``function(*args)``."""
    return ast.Call(function, list(args), [])


def item(container: ast.expr, key: ast.expr, context: ast.expr_context) -> ast.Subscript:
    """Generate the Python expression ``container[key]``."""
    return ast.Subscript(container, key, context)
