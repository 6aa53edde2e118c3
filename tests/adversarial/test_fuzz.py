"""Whatever is thrown at the parser, it answers with a tree of known words or with faults."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings

from jobrun.compile.lowering.expressions import parse_text
from jobrun.core.errors import SpecError
from jobrun.core.text.names import BLOB_NAME
from jobrun.graph.expressions import (
    ATTRIBUTES,
    BUILTINS,
    DTYPES,
    Attribute,
    Builtin,
    Call,
    Draw,
    Dtype,
    Expr,
    Name,
    OutputRead,
)
from jobrun.graph.query import op_expressions
from jobrun.graph.traversal import children, walk_expr
from jobrun.ops.operator_table import DRAWS, OPERATORS
from jobrun.runtime.codegen.compiler import compile_expression
from jobrun.runtime.codegen.expressions import import_numpy_module
from jobrun.runtime.codegen.liveness import BlockNames
from tests.adversarial.fuzzing import GROWN, TEXTS
from tests.support.expressions import ORIGIN, expression, statement
from tests.support.thinning import examples

# What generated code may name besides its own globals: the frame, and what it holds.
FRAME = {
    "rng", "epoch", "instance", "instances", "node", "name", "index", "count", "run", "run_dir",
    "loops", "output", "node_blob", "task", "group", "i", "t", "g", "n",
}  # fmt: skip
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(
    max_examples=examples(5_000), deadline=None, suppress_health_check=list(HealthCheck)
)


def _read(text: str) -> list[Expr]:
    """All trees that a text makes, in any place of a spec; faults are whole."""
    trees: list[Expr] = []
    for read in (expression, statement, _text):
        try:
            tree = read(text)
        except SpecError as error:
            for fault in error.faults:
                assert fault.message, fault
                assert fault.mend, fault
                assert fault.where is not None, fault
            continue
        if read is expression:
            trees.append(tree)
        else:
            trees += (op_expressions if read is statement else children)(tree)
    return trees


def _text(text: str):
    return parse_text(text, ORIGIN, "epoch/t/steps[0]", {}, holes=True)


def _only_known_words(tree: Expr) -> None:
    for part in walk_expr(tree):
        match part:
            case Call():
                assert part.function in OPERATORS
            case Draw():
                assert part.method in DRAWS
            case Attribute():
                assert part.name in ATTRIBUTES
            case Builtin():
                assert part.name in BUILTINS
            case Dtype():
                assert part.name in DTYPES
            case Name(name=name) | OutputRead(output=name):
                assert BLOB_NAME.fullmatch(name)
                assert not name.startswith("__")


def _only_the_frame(tree: Expr) -> None:
    """The code of a tree names nothing but its frame, draws and its own globals."""
    function = compile_expression(tree, BlockNames())
    assert function.__globals__["__builtins__"] == {"__import__": import_numpy_module}
    globals_ = {name for name in function.__globals__ if name != "__builtins__"}
    named = set(function.__code__.co_names)
    assert named <= FRAME | {*DRAWS, *ATTRIBUTES} | globals_, named - FRAME - globals_


@pytest.mark.long
@QUICK
@given(TEXTS)
def test_any_text_gives_known_expressions_or_faults(text):
    for tree in _read(text):
        _only_known_words(tree)


@QUICK
@example("'a'[0 + 2.5]")
@example("(1, 2)['a']")
@example("[1][1.5 * 2]")
@given(GROWN)
def test_code_of_what_is_accepted_names_only_its_frame(text):
    for tree in _read(text):
        _only_the_frame(tree)


@pytest.mark.long
@pytest.mark.timeout(900)
@LONG
@given(TEXTS)
def test_any_text_at_length(text):
    for tree in _read(text):
        _only_known_words(tree)
        _only_the_frame(tree)
