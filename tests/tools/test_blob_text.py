"""Blobs as text."""

from __future__ import annotations

import numpy as np

from jobrun.tools.inspection import value_text


def test_long_values_are_cut():
    assert value_text(np.float32(0.5)) == "0.5"
    assert value_text("a\nb") == "'a\\nb'"
    assert "..." in value_text(np.arange(1000))
