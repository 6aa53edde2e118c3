from __future__ import annotations

from typing import get_args

import pytest

from jobrun.graph.checkpoint_policy import CODECS, NONE, codec_for
from jobrun.spec.models.job import Codec

RULES = (("w_small", "none"), ("w*", "zstd"), ("layer?/b", "lz4"))


@pytest.mark.parametrize(
    ("name", "codec"),
    [("w1", "zstd"), ("w_small", ""), ("x", ""), ("layer3/b", "lz4"), ("layer33/b", "")],
)
def test_the_first_pattern_that_fits_counts(name, codec):
    assert codec_for(name, RULES) == codec


def test_a_spec_may_name_each_codec():
    assert set(get_args(Codec)) == {NONE, *CODECS}
