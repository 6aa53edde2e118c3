"""Fewer points of a long curve."""

from __future__ import annotations

import math

from jobrun.tools.report.charts import thin_points

CURVE = [(x, math.sin(x / 50)) for x in range(10_000)]


def test_a_short_curve_stays_as_it_is():
    assert thin_points(CURVE[:20], 20) == CURVE[:20]


def test_a_long_one_keeps_its_ends_and_no_more_than_was_asked_for():
    kept = thin_points(CURVE, 300)

    assert (kept[0], kept[-1]) == (CURVE[0], CURVE[-1])
    assert len(kept) <= 300
    assert kept == sorted(kept)


def test_no_peak_is_lost():
    curve = [*CURVE[:7000], (7000, 99.0), *CURVE[7001:8000], (8000, -99.0), *CURVE[8001:]]
    kept = thin_points(curve, 100)

    assert (7000, 99.0) in kept
    assert (8000, -99.0) in kept


def test_a_value_that_is_no_number_is_not_lost():
    curve = [*CURVE[:500], (500, math.nan), *CURVE[501:]]

    assert 500 in [x for x, _ in thin_points(curve, 50)]
