"""What moves with what."""

from __future__ import annotations

import pytest

from jobrun.core.errors import SpecError
from jobrun.spec.format.key_order import WHOLE
from jobrun.spec.format.move_entries import EntryMover
from jobrun.spec.format.text_tree import tree_of


def moved(text):
    return EntryMover(text, "f.yaml").whole(tree_of(text), WHOLE)


def test_comments_move_with_the_key_below_and_beside_them():
    text = (
        "jobrun: 1\n# the stops\nstop:\n  - epochs: 3  # three\n    # deeper\n# the seed\nseed: 1\n"
    )

    assert moved(text) == (
        "jobrun: 1\n# the seed\nseed: 1\n# the stops\nstop:\n  - epochs: 3  # three\n    # deeper\n"
    )


def test_what_stands_above_the_first_key_is_about_the_file():
    assert moved("# a file\nname: x\njobrun: 1\n") == "# a file\njobrun: 1\nname: x\n"


def test_blank_lines_stay_between_parts():
    text = "stop: [epochs: 3]\n\njobrun: 1\nname: x\n"

    assert moved(text) == "jobrun: 1\nname: x\n\nstop: [epochs: 3]\n"


def test_the_first_key_behind_a_dash_changes_its_place_with_another():
    text = "epoch:\n  - steps: [a]\n    # which\n    task: t\n"

    assert moved(text) == "epoch:\n  # which\n  - task: t\n    steps: [a]\n"


def test_in_brackets_keys_change_places_and_commas_stay():
    text = "epoch: [{steps: [{out: c,  op: add, in: [a, b]}], task: t}]\n"

    assert moved(text) == "epoch: [{task: t, steps: [{op: add,  in: [a, b], out: c}]}]\n"


def test_a_comment_between_brackets_is_not_torn_away():
    text = "epoch:\n  - {steps: [a],  # these\n     task: t}\n"

    with pytest.raises(SpecError, match=r"E420.*f.yaml:2:5.*comment"):
        moved(text)


def test_a_key_behind_a_question_mark_is_not_moved():
    with pytest.raises(SpecError, match=r"E420.*f.yaml:1:3"):
        moved("? name\n: x\n? jobrun\n: 1\n")
