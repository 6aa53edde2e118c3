"""Walks through steps, operators and their expressions."""

from __future__ import annotations

from jobrun.graph.effects import Assert, Log
from jobrun.graph.expressions import Const, Hole, Name, Text
from jobrun.graph.query import blocks, expressions, op_expressions, ops, walk
from jobrun.graph.steps import Guard, If, Loop, Net, Parallel, Stop, UseNet, While
from jobrun.testing.graphs import expr, op

NET = Net((op("x = 1"), op("y = x")))
STEPS = (
    If(((Name("a"), (NET,)), (Name("b"), ())), (Log(Text(("hi",))),)),
    Parallel(((Loop(Const(2), (NET,)),), (Guard("g", (Stop(None, "t"),)),))),
    UseNet("f", (While(Name("c"), (NET,)),)),
)


def test_walk_goes_outer_before_inner_in_the_order_of_the_text():
    names = [type(step).__name__ for step in walk(STEPS)]

    assert names == [
        "If",
        "Net",
        "Log",
        "Parallel",
        "Loop",
        "Net",
        "Guard",
        "Stop",
        "UseNet",
        "While",
        "Net",
    ]


def test_all_operators_are_found_wherever_they_are():
    assert len(list(ops(STEPS))) == 6


def test_a_step_without_steps_has_no_blocks():
    assert blocks(NET) == ()
    assert len(blocks(STEPS[0])) == 3


def test_a_step_evaluates_its_own_expressions_only():
    assert expressions(STEPS[0]) == (Name("a"), Name("b"))
    assert expressions(STEPS[2]) == ()
    assert expressions(Assert(Name("a"), Text((Hole(Name("m")),)))) == (Name("a"), Name("m"))
    assert expressions(Loop(None, ())) == ()


def test_an_operator_evaluates_indices_and_its_value():
    assert op_expressions(op("x[i] = y")) == (expr("i"), expr("y"))
    assert op_expressions(op("x[i] += y")) == (expr("i"), expr("y"))
    assert op_expressions(op("del x")) == ()
