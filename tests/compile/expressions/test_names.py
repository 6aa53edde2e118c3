from __future__ import annotations

from jobrun.graph.expressions import (
    Attribute,
    Builtin,
    Const,
    Dtype,
    Index,
    LoopIndex,
    Name,
    OutputRead,
)
from tests.support.expressions import expression, fault, faults
from tests.support.tables import each_case


@each_case(
    ("text", "tree"),
    [
        ("x", Name("x")),
        ("naïve", Name("naïve")),
        ("_", Name("_")),
        ("k", Const(10)),
        ("epoch", Builtin("epoch")),
        ("instance", Builtin("instance")),
        ("instances", Builtin("instances")),
        ("inf", Builtin("inf")),
        ("pi", Builtin("pi")),
        ("node.name", Builtin("node.name")),
        ("node.index", Builtin("node.index")),
        ("node.count", Builtin("node.count")),
        ("iter", LoopIndex("")),
        ("float32", Dtype("float32")),
        ("fit.loss", OutputRead("fit", "loss")),
        ("fit.loss.T", Attribute(OutputRead("fit", "loss"), "T")),
        ("fit.loss[0]", Index(OutputRead("fit", "loss"), Const(0))),
        ("x.T", Attribute(Name("x"), "T")),
        ("x.shape", Attribute(Name("x"), "shape")),
        ("node_.name", OutputRead("node_", "name")),
    ],
)
def test_a_name_is_what_the_language_says(text, tree):
    assert expression(text, k=10) == tree


def test_a_param_keeps_the_type_of_its_value():
    assert expression("t", t="text") == Const("text")
    assert expression("t", t=True).value is True


@each_case(
    ("text", "code"),
    [
        ("rng", "E106"), ("node", "E106"), ("node.shape", "E106"), ("sum", "E106"),
        ("np", "E106"), ("true", "E106"), ("epoch.x", "E103"), ("k.x", "E103"),
        ("float32.x", "E103"), ("rng.x", "E103"), ("iter.x", "E103"), ("__x", "E107"),
        ("fit.__loss", "E107"), ("__fit.loss", "E107"), ("a" * 65, "E107"),
        ("x." + "a" * 65, "E107"),
    ],
)  # fmt: skip
def test_other_words_are_no_values(text, code):
    assert fault(expression, text, k=10)[0] == code


def test_the_offset_of_a_name_is_kept():
    tree = expression("x + fit.loss")

    assert (tree.left.at, tree.right.at) == (0, 4)
    assert [at for _, at, _, _ in faults(expression, "x + np.foo + rng", k=1)] == [4, 13]
