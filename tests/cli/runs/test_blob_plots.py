"""Blobs as drawings of characters."""

from __future__ import annotations

import numpy as np

from jobrun.cli.runs.inspect_checkpoint import draw_blobs, draw_histogram, draw_picture
from jobrun.tools.report.pictures import Histogram, picture, tiles
from tests.support.reports import make_report


def test_the_highest_bar_reaches_the_top_and_the_lowest_is_seen():
    lines = draw_histogram(Histogram((1000, 1, 0), 0.0, 1.0), 60)

    assert lines[0] == "████"
    assert lines[-2] == "████▁▁▁▁"
    assert lines[-1] == "0          1"


def test_bins_are_pooled_where_the_terminal_is_narrow():
    lines = draw_histogram(Histogram((1,) * 40, 0.0, 1.0), 20)

    assert lines[0] == "█" * 20


def test_without_colours_a_picture_is_made_of_shades():
    lines = draw_picture(picture(np.array([[0.0, 1.0], [np.nan, 0.5]])), colours=False)

    assert lines == [" █", "?▒"]


def test_with_colours_a_character_shows_two_rows():
    lines = draw_picture(picture(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])), colours=True)

    assert lines[0] == "\x1b[38;5;232;48;5;255m▀\x1b[38;5;255;48;5;232m▀\x1b[0m"
    assert lines[1].startswith("\x1b[38;5;232;49m▀")


def test_between_tiles_there_is_nothing():
    lines = draw_picture(tiles(np.arange(32.0).reshape(2, 16)), colours=False)

    assert [line[4] for line in lines] == [" "] * 4


def test_drawings_fit_the_terminal(tmp_path):
    newest = make_report(tmp_path).stored.newest
    for columns in (30, 80):
        lines = draw_blobs(newest, (), (columns, 20), colours=False)
        assert "w" in lines
        assert max(map(len, lines)) <= columns


def test_a_checkpoint_of_single_values_says_that_there_is_nothing_to_draw(tmp_path):
    newest = make_report(tmp_path).stored.newest
    files = tuple(type(one)(one.path, one.size_bytes, one.header, ()) for one in newest.files)

    assert "nothing to plot" in draw_blobs(newest, files, (80, 20), colours=False)[-1]
