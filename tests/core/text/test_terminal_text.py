from __future__ import annotations

import csv
import json

import pytest

from jobrun.core.text.terminal_text import (
    control,
    csv_text,
    keep_colours,
    printable_json,
    style,
    terminal_line,
    visible,
)

UNSEEN = ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\x9b", "\u202e", "\u2028", "\r", "\n", "\udc80"]


@pytest.mark.parametrize("char", UNSEEN)
def test_what_cannot_be_seen_is_replaced_by_one_character_that_can(char):
    shown = visible(f"a{char}b")

    assert shown.isprintable()
    assert len(shown) == 3


@pytest.mark.parametrize("char", UNSEEN)
def test_no_line_controls_the_terminal_but_by_what_was_marked(char):
    line = terminal_line(f"{control('2J')}a{char}b{style('c', '1;31')}")

    assert line == f"\x1b[2Ja{visible(char)}b\x1b[1;31mc\x1b[0m"


def test_a_sequence_that_was_written_elsewhere_is_no_mark():
    assert terminal_line("\x1b[31mred") == "\u241b[31mred"


def test_logs_keep_colours_up_to_the_end_of_their_line_and_nothing_else():
    logged = "\x1b[1;38;5;9mred\x1b]0;title\x07\x1b[2J"

    assert terminal_line(keep_colours(logged)) == (
        "\x1b[1;38;5;9mred\u241b]0;title\u2407\u241b[2J\x1b[0m"
    )


@pytest.mark.parametrize("char", [*UNSEEN, "\U000e0041"])
def test_json_escapes_what_would_control_a_terminal(char):
    text = printable_json(json.dumps({char: [f"ä{char}"]}, indent=2, ensure_ascii=False))

    assert text.replace("\n", "").isprintable()
    assert "ä" in text
    assert json.loads(text) == {char: [f"ä{char}"]}


def test_cells_of_csv_hold_no_line_end():
    text = csv_text([["a", "b"], ["x\ny", 0.1]])

    assert list(csv.reader(text.splitlines())) == [["a", "b"], ["x\u240ay", "0.1"]]
