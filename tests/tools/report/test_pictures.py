"""A matrix as a picture."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from jobrun.tools.report.pictures import picture, png, tiles


def test_the_least_is_darkest_and_the_greatest_brightest():
    found = picture(np.array([[0.0, 1.0], [0.5, np.nan]]))

    assert found.shades.tolist() == [[1, 255], [128, 0]]


def test_infinite_items_lie_on_their_side_and_do_not_hide_the_rest():
    found = picture(np.array([[0.0, 1.0], [np.inf, -np.inf]]))

    assert found.shades.tolist() == [[1, 255], [255, 1]]


def test_a_matrix_of_one_value_is_grey_all_over():
    assert set(picture(np.full((3, 3), 7)).shades.flat) == {128}


def test_of_a_large_matrix_some_rows_and_columns_are_taken():
    found = picture(np.zeros((8, 1000)), most=(100, 100))

    assert (found.shades.shape, found.steps) == ((8, 100), (1, 10))


@pytest.mark.parametrize(("shape", "is_drawn"), [((200, 3), False), ((3, 200), False),
                                                 ((48, 3), True), ((200, 5), True)])  # fmt: skip
def test_a_few_long_columns_are_a_table_and_no_picture(shape, is_drawn):
    assert (picture(np.zeros(shape)) is not None) is is_drawn


@pytest.mark.parametrize("value", [np.zeros(4), np.zeros((1, 4)), np.zeros((2, 2), complex), 3.0])
def test_what_is_no_matrix_has_no_picture(value):
    assert picture(value) is None
    assert tiles(value) is None


def test_rows_that_were_pictures_become_pictures_again():
    rows = np.arange(3 * 16.0).reshape(3, 16)
    found = tiles(rows, across=2)

    assert (found.shades.shape, found.tile) == ((9, 9), 4)
    assert found.shades[5, 0] == picture(rows).shades[2, 0]


def test_a_square_matrix_is_one_picture():
    assert tiles(np.zeros((16, 16))) is None


def test_a_png_file_holds_the_shades():
    data = png(picture(np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])))
    width, height = struct.unpack(">II", data[16:24])
    at = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[at - 4 : at])

    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert (width, height) == (3, 2)
    assert zlib.decompress(data[at + 4 : at + 4 + length])[:4] == b"\0\x01\x34\x67"
