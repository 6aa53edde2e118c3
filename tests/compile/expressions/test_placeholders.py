from __future__ import annotations

import pytest

from jobrun.compile.expressions.source_text import (
    RUN_TIME,
    SourceText,
    merge_literals,
    split_placeholders,
)
from jobrun.graph.expressions import Builtin
from tests.support.expressions import ORIGIN, faults


def _split(text, at=0):
    return split_placeholders(text, SourceText(text, ORIGIN, "epoch/t/steps[0]"), at)


@pytest.mark.parametrize(("name", "builtin"), RUN_TIME.items())
def test_what_only_the_run_knows_is_filled_in_later(name, builtin):
    assert _split(f"a/${{{name}}}.npy") == ["a/", Builtin(builtin), ".npy"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("plain", ["plain"]),
        ("$$", ["$"]),
        ("$$$$", ["$$"]),
        ("$${epoch}", ["${epoch}"]),
        ("$HOME and $(ls) cost $5", ["$HOME and $(ls) cost $5"]),
        ("${epoch}${epoch}", [Builtin("epoch"), Builtin("epoch")]),
    ],
)
def test_dollars_stay_what_they_are_unless_doubled(text, parts):
    assert _split(text) == parts


def test_unknown_placeholders_are_reported_together_each_at_its_position():
    reported = faults(_split, "${epcoh} ${HOME} ${run.dir")

    assert [(code, at) for code, at, *_ in reported] == [("E112", 0), ("E112", 9), ("E112", 17)]
    assert "did you mean '${epoch}'" in reported[0][3]
    assert "$${HOME}" in reported[1][3]
    assert "close" in reported[2][3]


def test_without_offsets_a_fault_is_that_of_the_whole():
    assert faults(_split, "ab ${x}", None)[0][1] == -1


def test_literal_parts_that_touch_are_one():
    assert merge_literals(["a", "", "b", Builtin("epoch"), "", "c"]) == [
        "ab",
        Builtin("epoch"),
        "c",
    ]
