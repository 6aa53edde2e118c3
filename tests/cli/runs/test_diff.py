from __future__ import annotations

import json

import numpy as np
import pytest

from jobrun.cli.run_command import invoke
from jobrun.cli.runs.diff import align_columns, render_difference, render_differences
from jobrun.tools.diff import BlobDifference, ValueDifference, compare_values
from tests.support.sample_runs import make_run


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def test_two_epochs_of_a_run_differ_by_so_much(capsys):
    assert invoke(["diff", "shrink@1", "shrink@2"]) == 0

    output = capsys.readouterr().out
    assert "state after epoch 1 | 2" in output
    assert "x  1 of 1 differ, max 2, relative norm 5.00e-01" in output


def test_with_check_the_exit_code_shows_a_difference(capsys):
    assert invoke(["diff", "shrink@1", "shrink@1", "--check"]) == 0
    assert "1 of 1 blobs have the same bits" in capsys.readouterr().out
    assert invoke(["diff", "shrink@1", "shrink@2", "--check"]) == 8


def test_the_same_as_json(capsys):
    assert invoke(["diff", "shrink@1", "shrink@2", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["state_is_equal"] is False
    assert document["state"][0]["largest"] == 2.0


def test_a_run_against_its_spec_as_it_is_now(tmp_path, capsys):
    assert invoke(["diff", "latest", "--working", "shrink.yaml"]) == 0
    assert capsys.readouterr().out == "no difference\n"
    spec = tmp_path / "shrink.yaml"
    spec.write_text(spec.read_text().replace("x / 2", "x / 3"))

    assert invoke(["diff", "latest", "--working", "shrink.yaml"]) == 0

    assert "epoch[0].steps[0]: x = x / 2 | x = x / 3" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["shrink", "--working", "shrink.yaml"]])
def test_one_thing_to_compare_with_is_needed(words, capsys):
    assert invoke(["diff", "shrink", *words]) == 2
    assert "E429" in capsys.readouterr().err


def test_a_difference_says_how_many_how_far_and_how_far_in_steps_of_the_type():
    difference = compare_values(np.array([1.0, 2.0]), np.array([1.0, np.nextafter(2.0, 3.0)]))

    assert render_difference(difference).startswith("1 of 2 differ, max ")
    assert ", 1 ULP, relative norm " in render_difference(difference)


def test_a_different_type_is_described():
    assert "float32" in render_difference(compare_values(np.zeros(2), np.zeros(2, np.float32)))


def test_equal_blobs_are_counted_and_shown_only_when_asked_for():
    blobs = [
        BlobDifference("a", "x", ValueDifference(equal=True)),
        BlobDifference("a", "long", ValueDifference(equal=False, words="1 | 2")),
    ]

    assert render_differences(blobs) == ["  long  1 | 2", "  1 of 2 blobs have the same bits"]
    assert render_differences(blobs, equal_too=True)[0] == "  x     the same bits"


def test_of_several_nodes_the_node_is_named():
    blobs = [
        BlobDifference(node, "x", ValueDifference(equal=False, words="1 | 2")) for node in "ab"
    ]

    assert render_differences(blobs) == ["  a.x  1 | 2", "  b.x  1 | 2"]


def test_columns_line_up():
    assert align_columns([("a", "1"), ("bbb", "2")]) == ["  a    1", "  bbb  2"]
