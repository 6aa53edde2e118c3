"""``jobrun ops``."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke
from jobrun.ops import operator_table
from jobrun.ops.operator_table import DRAWS, OPERATORS, OpDef


def test_every_function_and_draw_is_listed_with_its_line(capsys):
    assert invoke(["ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = dict(line.split(maxsplit=1) for line in lines)
    assert shown.keys() == {*OPERATORS, *(f"rng.{name}" for name in DRAWS)}
    assert shown["add"] == "x1 + x2"


def test_one_is_shown_with_signature_and_example(capsys):
    assert invoke(["ops", "atomic_add"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("atomic_add(counter, amount, /)\n")
    assert "changes counter in place" in out
    assert "atomic: " in out
    assert invoke(["ops", "rng.choice"]) == 0
    assert "rng.choice(10, 3, replace=False)" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["ops", "explain"])
def test_one_of_an_installed_package_is_shown(command, capsys, monkeypatch):
    twice = OpDef("twice", "(x, /)", "jobrun_extra:double", "x + x", "twice(2)")
    monkeypatch.setattr(operator_table, "_installed", lambda: {"twice": twice})

    assert invoke([command, "twice"]) == 0
    assert capsys.readouterr().out.startswith("twice(x, /)\n  x + x\n")


def test_an_unknown_one_names_the_nearest(capsys):
    assert invoke(["ops", "segment_summ"]) == 2
    assert "did you mean 'segment_sum'?" in capsys.readouterr().err


def test_an_operator_of_the_ancestor_is_pointed_to_what_is_written_here(capsys):
    for words in (["ops", "EQ"], ["explain", "EQ"]):
        assert invoke(words) == 2
        assert "EQ of Caffe2 is here: a == b" in capsys.readouterr().err


def test_the_list_is_there_as_json(capsys):
    assert invoke(["ops", "where", "--json"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["schema"] == "jobrun.ops/1"
    assert [function["name"] for function in parsed["functions"]] == ["where"]


def test_what_is_left_out_of_numpy_has_its_reason(capsys):
    assert invoke(["ops", "--left-out"]) == 0
    assert "vectorize  " in capsys.readouterr().out
    assert invoke(["ops", "--left-out", "--json"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert {"name", "reason"} == set(parsed["left_out"][0])
