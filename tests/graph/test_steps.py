"""Step values."""

from __future__ import annotations

import pickle
from typing import get_args

import msgspec

from jobrun.core.errors import Origin
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import Const, Name
from jobrun.graph.steps import (
    Assign,
    FilePart,
    ItemTarget,
    Loop,
    NameTarget,
    Net,
    Op,
    Rows,
    Step,
    Stop,
)


def test_steps_are_compared_without_their_places_in_files():
    here = Stop(None, "epoch/t", "epoch/t/steps[0]", Origin("a.yaml", 3, 5))
    there = Stop(None, "epoch/t", "epoch/t/steps[0]", Origin("b.yaml", 9, 1))

    assert here == there
    assert here != Stop(None, "epoch/u", "epoch/t/steps[0]")


def test_paths_take_part_in_comparison():
    assert Net((), "a") != Net((), "b")


def test_a_step_can_be_pickled_with_its_place():
    op = Assign((NameTarget("x"), ItemTarget("y", Const(0))), Name("z"), "p", Origin("a", 1, 2))
    step = Loop(None, (Net((op,), "p"),), "q")

    copy = pickle.loads(pickle.dumps(step))

    assert copy == step
    assert copy.steps[0].ops[0].origin == Origin("a", 1, 2)


def test_every_kind_of_step_and_operator_knows_its_path_and_place():
    for kind in (*get_args(Step), *get_args(Op)):
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        assert fields["path"].default == ""
        assert fields["origin"].default is NOWHERE
        assert "origin" in kind.uncompared


def test_rows_without_bounds_are_the_whole_value():
    part = FilePart("t_0.h5", "t_0", "", (Rows("V"), Rows("U", 0, 2)))

    assert [rows.first for rows in part.blobs] == [None, 0]
