from __future__ import annotations

import ast

import pytest

from jobrun.compile.expressions.parse import parse_python_expression, parse_python_statement
from jobrun.compile.expressions.source_text import Findings, SourceText
from jobrun.core.errors import SpecError
from tests.support.expressions import ORIGIN


def _scalar(text):
    return SourceText(text, ORIGIN, "p")


def test_offsets_are_in_characters_and_over_lines_those_of_the_whole():
    scalar = _scalar("  'éé' + foo")
    tree = parse_python_expression(scalar)
    assert isinstance(tree, ast.BinOp)
    assert (scalar.at(tree.right), scalar.length(tree.right)) == (9, 3)
    assert scalar.written(tree.right) == "foo"

    scalar = _scalar("(a +\n foo)")
    tree = parse_python_expression(scalar)
    assert isinstance(tree, ast.BinOp)
    assert (scalar.at(tree.right), scalar.length(tree.right), scalar.written(tree.right)) == (
        0,
        1,
        "",
    )


def test_findings_are_raised_together_in_their_order():
    findings = Findings(_scalar("x = y"))
    findings.raise_if_any()
    findings.add("E100", "first", "", parse_python_statement(findings.scalar))
    findings.add("E101", "second", "", None)

    with pytest.raises(SpecError) as caught:
        findings.raise_if_any()

    assert [(fault.code, fault.where) for fault in caught.value.faults] == [
        ("E100", ORIGIN.inside(0, 5)),
        ("E101", ORIGIN),
    ]
