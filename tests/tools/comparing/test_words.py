"""What is said of values that differ."""

from __future__ import annotations

import numpy as np

from jobrun.tools.comparing.states import BlobApart
from jobrun.tools.comparing.values import Apart, apart
from jobrun.tools.comparing.words import columns, how_words, state_lines


def test_a_difference_says_how_many_how_far_and_how_far_in_steps_of_the_type():
    how = apart(np.array([1.0, 2.0]), np.array([1.0, np.nextafter(2.0, 3.0)]))

    assert how_words(how).startswith("1 of 2 differ, max ")
    assert ", 1 ULP, relative norm " in how_words(how)


def test_a_type_that_differs_is_said_in_words():
    assert "float32" in how_words(apart(np.zeros(2), np.zeros(2, np.float32)))


def test_equal_blobs_are_counted_and_shown_only_when_asked_for():
    blobs = [
        BlobApart("a", "x", Apart(equal=True)),
        BlobApart("a", "long", Apart(equal=False, words="1 | 2")),
    ]

    assert state_lines(blobs) == ["  long  1 | 2", "  1 of 2 blobs have the same bits"]
    assert state_lines(blobs, equal_too=True)[0] == "  x     the same bits"


def test_of_several_nodes_the_node_is_named():
    blobs = [BlobApart(node, "x", Apart(equal=False, words="1 | 2")) for node in "ab"]

    assert state_lines(blobs) == ["  a.x  1 | 2", "  b.x  1 | 2"]


def test_columns_line_up():
    assert columns([("a", "1"), ("bbb", "2")]) == ["  a    1", "  bbb  2"]
