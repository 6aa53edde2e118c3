from __future__ import annotations

import ast

import pytest

from jobrun.graph.expressions import Attribute, Call, Const, Draw, Dtype, Name
from jobrun.runtime.codegen.expressions import (
    ExpressionBuilder,
    Globals,
    import_numpy_module,
    load,
    output_ref,
)
from jobrun.testing.graphs import expr, ref
from tests.support.tables import each_case


def build_python(tree, names=None):
    return ExpressionBuilder(names or Globals(), lambda leaf: load(f"v_{leaf.name}")).of(tree)


@each_case(
    ("text", "python"),
    [
        ("a + b * 2", "v_a + v_b * 2"),
        ("-a @ b", "-v_a @ v_b"),
        ("a < b <= 3", "v_a < v_b <= 3"),
        ("a and not b", "v_a and (not v_b)"),
        ("a if b else 1.5", "v_a if v_b else 1.5"),
        ("a[1:, ..., ::2]", "v_a[1:, ..., ::2]"),
        ("[a, (b,)]", "[v_a, (v_b,)]"),
        ("epoch + node.index", "f.epoch + f.node.index"),
        ("rng.normal(0, scale=a)", "f.rng.normal(0, scale=v_a)"),
        ("a ** 2", "v_a ** 2"),
        ("a ** -0.5", "v_a ** -0.5"),
    ],
)
def test_trees_become_pythons(text, python):
    assert ast.unparse(build_python(expr(text))) == ast.unparse(ast.parse(python))


def test_objects_are_bound_once_by_name():
    names = Globals()
    build_python(expr("exp(a) + exp(b)"), names)

    assert [name for name in names.table if name != "__builtins__"] == ["_op_0"]
    assert names.table["__builtins__"] == {"__import__": import_numpy_module}


def test_numpy_alone_is_imported():
    assert import_numpy_module("numpy._core", {}, {}, [], 0).__name__ == "numpy._core"
    for name in ("os", "numpyx", "", "jobrun"):
        with pytest.raises(ImportError):
            import_numpy_module(name)


@pytest.mark.parametrize("text", ["a ** b", "9 ** 999", "a << 2"])
def test_operators_that_may_grow_without_bound_are_bounded(text):
    assert isinstance(build_python(expr(text)), ast.Call)


@each_case(
    "tree",
    [
        Draw("bit_generator", ()), Draw("__class__", ()), Dtype("object_"), Dtype("load"),
        Attribute(Name("a"), "__class__"), Attribute(Name("a"), "tofile"), Call("eval", ()),
        Call("__import__", (Const("os"),)),
    ],
)  # fmt: skip
def test_nothing_but_known_names_reaches_python(tree):
    with pytest.raises((ValueError, KeyError)):
        build_python(tree)


def test_an_output_read_is_an_outputs_identity():
    assert output_ref(expr("out('t', 'o', 'n')")) == ref("t", "o", "n")
