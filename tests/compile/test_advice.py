"""Check advice about lists: what a message tells to write is accepted and computes what it says."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.cli.run_command import invoke

JOB = """\
jobrun: 1
name: advice
init: [{{task: i, steps: ["x = {expression}"]}}]
epoch: [{{task: e, steps: [y = 1]}}]
stop: [epochs: 1]
"""
FUNCTIONS = {name: getattr(np, name) for name in ("array", "array_equal", "concatenate", "tile")}


@pytest.fixture
def validate(tmp_path, capsys):
    def call(expression):
        path = tmp_path / "advice.yaml"
        path.write_text(JOB.format(expression=expression))
        code = invoke(["validate", str(path)])
        return code, capsys.readouterr().err

    return call


def value(expression):
    return eval(expression, FUNCTIONS)


@pytest.mark.parametrize(
    ("refused", "as_python", "as_numpy"),
    [
        ("[2.0, 3.0] * 5", "tile([2.0, 3.0], 5)", "array([2.0, 3.0]) * 5"),
        ("3 * [0, 1]", "tile([0, 1], 3)", "array([0, 1]) * 3"),
        ("(1, 2) * 2", "tile((1, 2), 2)", "array((1, 2)) * 2"),
        ("[1] + [2]", "concatenate([[1], [2]])", "array([1]) + array([2])"),
        ("[1, 2] == [1, 3]", "array_equal([1, 2], [1, 3])", "array([1, 2]) == array([1, 3])"),
    ],
)
def test_for_a_list_both_meanings_are_given(validate, refused, as_python, as_numpy):
    code, message = validate(refused)

    assert code == 3
    assert as_python.partition("(")[0] in message
    assert validate(as_python)[0] == validate(as_numpy)[0] == 0
    assert np.array_equal(value(as_python), value(refused))
    assert not np.array_equal(value(as_numpy), value(refused))


def test_beside_an_array_a_list_becomes_one(validate):
    assert "make an array of it" in validate("array([1]) + [2]")[1]


def test_text_is_not_repeated(validate):
    assert "write the text out" in validate("'ab' * 3")[1]


def test_a_url_in_place_of_a_data_file_is_named_as_one(tmp_path, capsys):
    path = tmp_path / "url.yaml"
    path.write_text(JOB.format(expression="0").replace('"x = 0"', '{load: {x: "s3://b/x.npz::x"}}'))

    assert invoke(["run", str(path), "--run-dir", str(tmp_path / "runs")]) != 0

    assert "s3:// is a URL" in " ".join(capsys.readouterr().err.split())
