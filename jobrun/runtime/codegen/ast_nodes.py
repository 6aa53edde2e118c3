"""Build single nodes of Python syntax trees (``ast``): loads, stores, assignments, calls."""

from __future__ import annotations

import ast


def load(name: str) -> ast.expr:
    """Build the Python ``ast`` node that reads a variable, or an attribute: ``name.attribute``."""
    first, *rest = name.split(".")
    node: ast.expr = ast.Name(first, ast.Load())
    for attribute in rest:
        node = ast.Attribute(node, attribute, ast.Load())
    return node


def store(name: str) -> ast.Name:
    """Build the Python ``ast`` node of a variable to which a value is assigned."""
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr) -> ast.stmt:
    """Build the Python ``ast`` node of the statement ``name = value``."""
    return ast.Assign([store(name)], value)


def call(function: ast.expr, *args: ast.expr) -> ast.expr:
    """Build the Python ``ast`` node of the call ``function(*args)``."""
    return ast.Call(function, list(args), [])


def item(container: ast.expr, key: ast.expr, context: ast.expr_context) -> ast.Subscript:
    """Build the Python ``ast`` node of the subscript ``container[key]``."""
    return ast.Subscript(container, key, context)
