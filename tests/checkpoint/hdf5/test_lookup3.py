from __future__ import annotations

import numpy as np

from jobrun.checkpoint.hdf5.metadata_bytes import lookup3
from tests.support.tables import each_case


def rows(*texts: bytes):
    return np.array([list(text) for text in texts], np.uint8)


def test_lookup3_matches_published_values():
    # The example in the source of lookup3.c, with initial value 0.
    text = b"Four score and seven years ago"

    assert lookup3(rows(text)).tolist() == [0x17770551]


@each_case("length", [1, 4, 11, 12, 13, 24, 25, 300])
def test_many_rows_have_the_hashes_of_each_of_them(length):
    many = np.random.default_rng(7).integers(0, 256, (20, length), np.uint8)

    assert lookup3(many).tolist() == [int(lookup3(row[None])[0]) for row in many]
