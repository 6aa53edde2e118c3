"""Steps as lines."""

from __future__ import annotations

import pytest

from jobrun.graph.expr import Builtin, Const, Hole, Name, Text
from jobrun.graph.lines import render_op, render_step, render_steps
from jobrun.graph.steps import (
    AdoptState,
    Assert,
    CallPython,
    CopyState,
    DataFile,
    Guard,
    If,
    Load,
    LoadState,
    Log,
    Loop,
    Net,
    Parallel,
    PublishCopy,
    Record,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    UseNet,
    While,
)
from tests.support.graphs import expr, op

NET = Net((op("x = 1"), op("y = x")))
TEXT = Text(("a ", Hole(Name("x"), ".3g")))


@pytest.mark.parametrize(
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
    (Record((("m", expr("x * 2")),)), "metric m = x * 2"),
    (Assert(expr("x > 1"), TEXT), "assert x > 1"),
    (SaveState("t.h5", ("a", "b"), "r"), "save state a, b -> t.h5"),
    (LoadState("t.h5", ("a",), 1, "r", "d"), "load state a <- t.h5"),
    (AdoptState(("a", "b")), "adopt state a, b"),
    (CopyState("e/t.h5", "there", "t", 1, "d"), "copy e/t.h5 -> there"),
    (PublishCopy("e", "there/.tmp", "there/e"), "publish there/.tmp -> there/e"),
]


@pytest.mark.parametrize(("step", "line"), LINES, ids=[line for _, line in LINES])
def test_a_step_is_one_line(step, line):
    assert render_step(step) == line


def test_steps_inside_stand_further_in():
    steps = (
        If(((Name("a"), (NET,)), (Name("b"), (NET,))), (Log(Text(("hi",))),)),
        Parallel(((NET,), (Loop(Const(2), (NET,)),))),
    )

    assert list(render_steps(steps)) == [
        "if a", "  x = 1", "  y = x",
        "elif b", "  x = 1", "  y = x",
        "else", "  log hi",
        "parallel (2 branches)",
        "  branch 0", "    x = 1", "    y = x",
        "  branch 1", "    loop 2", "      x = 1", "      y = x",
    ]  # fmt: skip
