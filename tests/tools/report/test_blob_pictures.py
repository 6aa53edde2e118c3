"""A matrix as a picture."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from jobrun.tools.report.blob_pictures import histogram, picture, png, tiles
from tests.support.reports import a_report


def test_the_least_is_darkest_and_the_greatest_brightest():
    drawn = picture(np.array([[0.0, 1.0], [0.5, np.nan]]))

    assert drawn.shades.tolist() == [[1, 255], [128, 0]]


def test_infinite_values_are_extremes_and_do_not_hide_finite_ones():
    drawn = picture(np.array([[0.0, 1.0], [np.inf, -np.inf]]))

    assert drawn.shades.tolist() == [[1, 255], [255, 1]]


def test_a_matrix_of_one_value_is_grey_all_over():
    assert set(picture(np.full((3, 3), 7)).shades.flat) == {128}


def test_of_a_large_matrix_some_rows_and_columns_are_taken():
    drawn = picture(np.zeros((8, 1000)), most=(100, 100))

    assert (drawn.shades.shape, drawn.steps) == ((8, 100), (1, 10))


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
    drawn = tiles(rows, across=2)

    assert (drawn.shades.shape, drawn.tile) == ((9, 9), 4)
    assert drawn.shades[5, 0] == picture(rows).shades[2, 0]


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


def test_every_finite_number_is_counted_once():
    bars = histogram(np.array([0.0, 0.1, 1.0, np.nan, np.inf, -np.inf]), bins=10)

    assert (sum(bars.counts), bars.low, bars.high) == (3, 0.0, 1.0)
    assert (bars.counts[0], bars.counts[1], bars.counts[-1]) == (1, 1, 1)


def test_integers_in_a_small_range_have_a_bin_each():
    bars = histogram(np.array([-128, -127, -127, -120], np.int8))

    assert (bars.counts, bars.low, bars.high) == ((1, 2, 0, 0, 0, 0, 0, 0, 1), -128.5, -119.5)


def test_bools_have_two_bins():
    assert histogram(np.array([True, False, True])).counts == (1, 2)


def test_of_complex_numbers_the_magnitude_counts():
    bars = histogram(np.array([3 + 4j, 0j]))

    assert (bars.of, bars.high) == ("magnitude", 5.0)


def test_the_largest_doubles_and_the_smallest_have_a_place():
    assert sum(histogram(np.array([-1.7e308, 0.0, 1.7e308])).counts) == 3
    assert sum(histogram(np.array([0.0, 5e-324])).counts) == 2


def test_the_largest_integers_have_a_place():
    assert sum(histogram(np.array([0, 2**64 - 1], np.uint64)).counts) == 2
    assert sum(histogram(np.array([-(2**63), 2**63 - 1])).counts) == 2


def test_of_very_many_numbers_some_are_looked_at():
    bars = histogram(np.zeros(3 << 20))

    assert (bars.step, sum(bars.counts)) == (3, 1 << 20)


@pytest.mark.parametrize(
    "value", [3.0, "text", np.float64(1), np.array([1.0]), np.array(["a", "b"]), np.full(9, np.nan)]
)
def test_what_has_no_distribution_has_none(value):
    assert histogram(value) is None


def test_arrays_have_histograms_and_matrices_pictures():
    blobs = {blob.facts.name: blob for blob in a_report().stored.blobs}

    assert sum(blobs["w"].histogram.counts) == 160
    assert [picture.tile for picture in blobs["w"].pictures] == [0, 4]
    assert (blobs["x"].histogram, blobs["t"].pictures) == (None, ())
