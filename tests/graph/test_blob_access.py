"""Which names a step touches."""

from __future__ import annotations

from jobrun.graph.blob_access import AccessFinder
from jobrun.graph.effects import Log
from jobrun.graph.expressions import Const, Hole, Name, OutputRead, Text
from jobrun.graph.steps import (
    CallPython,
    DataFile,
    Guard,
    If,
    Load,
    Loop,
    Net,
    RunProgram,
    Save,
    Step,
)
from jobrun.testing.graphs import expr, op
from tests.support.tables import each_case

FINDER = AccessFinder({"add_at": (0,), "count_up": (0,)}, {"count_up"})


def _sets(access):
    return {
        key: sorted(set(names))
        for key in ("reads", "binds", "changes", "atomic", "deletes")
        if (names := getattr(access, key))
    }


@each_case(
    ("text", "expected"),
    [
        ("y = x + f(z, k=v)", {"reads": ["v", "x", "z"], "binds": ["y"]}),
        ("a, b = f(x)", {"reads": ["x"], "binds": ["a", "b"]}),
        ("x += y", {"reads": ["x", "y"], "binds": ["x"], "changes": ["x"]}),
        ("x[i] = y", {"reads": ["i", "x", "y"], "changes": ["x"]}),
        ("x[i] += y", {"reads": ["i", "x", "y"], "changes": ["x"]}),
        ("del x, y", {"reads": ["x", "y"], "deletes": ["x", "y"]}),
        ("add_at(x, i, v)", {"reads": ["i", "v", "x"], "changes": ["x"]}),
        ("count_up(c)", {"atomic": ["c"]}),
        ("n = count_up(c) + c", {"reads": ["c"], "binds": ["n"], "atomic": ["c"]}),
        ("y = x[a:b, ...] if c else (d, e)", {"reads": list("abcdex"), "binds": ["y"]}),
        ("y = rng.normal(m, s)", {"reads": ["m", "s"], "binds": ["y"]}),
    ],
)
def test_the_names_of_an_operator(text, expected):
    assert _sets(FINDER.of_op(op(text))) == expected


PATH = Text(("a.npy",))
STEPS: list[tuple[Step, dict[str, list[str]]]] = [
    (Load((DataFile("x", PATH), DataFile("y", PATH))), {"binds": ["x", "y"]}),
    (Save((DataFile("x", PATH),)), {"reads": ["x"]}),
    (Log(Text(("a ", Hole(Name("x"))))), {"reads": ["x"]}),
    (Guard("g", (Save((DataFile("x", PATH),)),)), {"binds": ["g"]}),
    (Loop(Name("n"), (Save((DataFile("x", PATH),)),)), {"reads": ["n"]}),
    (If(((Name("a"), ()), (Name("b"), ()))), {"reads": ["a", "b"]}),
    (
        CallPython("m:f", (("w", Name("w")), ("v", Name("v"))), ("w",), ("z",)),
        {"reads": ["v", "w"], "binds": ["z"], "changes": ["w"]},
    ),
    (
        RunProgram((PATH,), values=(("n", Name("x")),), results=(("y", PATH, ""),)),
        {"reads": ["x"], "binds": ["y"]},
    ),
    (Net((op("y = x"), op("z = y"))), {"reads": ["x", "y"], "binds": ["y", "z"]}),
]


@each_case(("step", "expected"), STEPS)
def test_the_names_of_a_step_are_without_those_of_steps_inside(step, expected):
    assert _sets(FINDER.of_step(step)) == expected


def test_outputs_of_tasks_are_found():
    access = FINDER.of_expr(expr("x + out('t', 'o')"))

    assert access.reads == ["x"]
    assert [(read.task, read.output) for read in access.outputs] == [("t", "o")]
    assert isinstance(access.outputs[0], OutputRead)


def test_what_an_atomic_operator_counts_in():
    call = expr("count_up(c)")
    other = expr("add_at(c, 0, 1)")

    assert FINDER.counted(call) == ("c",)  # type: ignore[arg-type]
    assert FINDER.counted(other) == ()  # type: ignore[arg-type]
    assert FINDER.of_expr(Const(1)).reads == []
