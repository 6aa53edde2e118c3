from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from jobrun.checkpoint.hdf5.digest_blocks import (
    BLOCK_BYTES,
    DIGEST_BYTES,
    block_count,
    block_span,
    blocks_holding,
    digest,
)

B = BLOCK_BYTES


@pytest.mark.parametrize("tail", [4097, 4096 + B - 1, 4096 + B, 4096 + B + 1, 4096 + 7 * B])
def test_blocks_cover_every_byte_behind_the_user_block_once(tail):
    spans = [block_span(number, tail) for number in range(block_count(tail))]

    assert spans[0][0] == 4096
    assert spans[-1][1] == tail
    assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert all(0 < end - begin <= B for begin, end in spans)


@pytest.mark.parametrize(
    ("begin", "end", "blocks"),
    [
        (4096, 4097, [0]), (4096, 4096 + B, [0]), (4096 + B - 1, 4096 + B + 1, [0, 1]),
        (4096 + B, 4096 + 3 * B, [1, 2]), (5000, 5000, []),
    ],
)  # fmt: skip
def test_byte_range_maps_to_blocks(begin, end, blocks):
    assert list(blocks_holding(begin, end)) == blocks


def test_one_bit_makes_another_digest():
    data = np.zeros(B, np.uint8)
    before = digest(data)
    data[12345] = 1

    assert len(before) == DIGEST_BYTES
    assert digest(data) != before
