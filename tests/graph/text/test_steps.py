"""Steps as lines."""

from __future__ import annotations

from jobrun.graph.effects.assertion import Assert
from jobrun.graph.effects.log import Log
from jobrun.graph.effects.metric import Metric
from jobrun.graph.effects.sleep import Sleep
from jobrun.graph.expressions import Builtin, Const, Hole, Name, Text
from jobrun.graph.steps import (
    AdoptState,
    CallPython,
    CopyState,
    DataFile,
    Guard,
    If,
    Load,
    LoadState,
    Loop,
    Net,
    Parallel,
    PublishCopy,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.text.steps import render_op, render_step, render_steps
from jobrun.testing.graphs import expr, op
from tests.support.tables import each_case

NET = Net((op("x = 1"), op("y = x")))
TEXT = Text(("a ", Hole(Name("x"), ".3g")))


@each_case(
    "text", ["y = x + 1", "a, b = f(x)", "w -= lr * g", "x[i] = y", "x[a, 1:] += 2", "del x, y",
             "count_up(c)", "x[i], y = f(z)"],
)  # fmt: skip
def test_an_operator_is_written_as_in_a_spec(text):
    assert render_op(op(text)) == text


LINES: list[tuple[Step, str]] = [
    (NET, "x = 1"),
    (Net(()), "nothing"),
    (UseNet("f", ()), "net f"),
    (CallPython("m:f", (("w", Name("v")),), ("w",), ("a", "b")), "a, b = call m:f(w=v (inout))"),
    (RunProgram((Text(("ls",)), Text(("-l",)))), "run ls -l"),
    (Loop(None, ()), "loop forever"),
    (Loop(Const(3), ()), "loop 3"),
    (While(expr("x > 1"), ()), "while x > 1"),
    (If(((Name("a"), ()),)), "if a"),
    (Stop(None, "epoch/t"), "stop epoch/t"),
    (Stop(expr("x > 1"), "epoch/t"), "stop epoch/t if x > 1"),
    (Guard("g", ()), "guard g"),
    (Parallel(((), ())), "parallel (2 branches)"),
    (Load((DataFile("x", Text(("a.npz",)), "m"),)), "load x <- a.npz::m"),
    (Save((DataFile("x", Text((Builtin("run.dir"), "/a.npy"))),)), "save x -> ${run.dir}/a.npy"),
    (Log(TEXT), "log a {x:.3g}"),
    (Metric((("m", expr("x * 2")),)), "metric m = x * 2"),
    (Assert(expr("x > 1"), TEXT), "assert x > 1"),
    (Sleep(0.25), "sleep 0.25s"),
    (SaveState("t.h5", ("a", "b"), "r"), "save state a, b -> t.h5"),
    (LoadState("t.h5", ("a",), 1, "r", "d"), "load state a <- t.h5"),
    (AdoptState(("a", "b")), "adopt state a, b"),
    (CopyState("e/t.h5", "there", "t", 1, "d"), "copy e/t.h5 -> there"),
    (PublishCopy("e", "there/.tmp", "there/e"), "publish there/.tmp -> there/e"),
]


@each_case(("step", "line"), LINES)
def test_a_step_is_one_line(step, line):
    assert render_step(step) == line


def test_steps_inside_stand_further_in():
    steps = (
        If(((Name("a"), (NET,)), (Name("b"), (NET,))), (Log(Text(("hi",))),)),
        Parallel(((NET,), (Loop(Const(2), (NET,)),))),
    )

    assert list(render_steps(steps)) == [
        "if a",
        "  x = 1",
        "  y = x",
        "elif b",
        "  x = 1",
        "  y = x",
        "else",
        "  log hi",
        "parallel (2 branches)",
        "  branch 0",
        "    x = 1",
        "    y = x",
        "  branch 1",
        "    loop 2",
        "      x = 1",
        "      y = x",
    ]
