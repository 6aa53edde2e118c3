"""What a checkpoint holds, with what can be drawn."""

from __future__ import annotations

from tests.support.reports import a_report


def test_arrays_have_histograms_and_matrices_pictures():
    blobs = {one.facts.name: one for one in a_report().stored.blobs}

    assert sum(blobs["w"].histogram.counts) == 160
    assert [one.tile for one in blobs["w"].pictures] == [0, 4]
    assert (blobs["x"].histogram, blobs["t"].pictures) == (None, ())
