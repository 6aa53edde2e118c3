"""Tests of ``runtime.standing``."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobrun.runtime.records.reader_position import (
    Position,
    decode_positions,
    encode_positions,
    redistribute,
)


def _places(one):
    stretches = one.stretches or (
        (one.length * one.part // one.parts, one.length * (one.part + 1) // one.parts),
    )
    return [place for first, last in stretches for place in range(first, last)]


def test_a_blob_that_is_not_there_yet_has_no_shares():
    assert decode_positions(None) == ()


def test_positions_stand_in_the_blob_as_they_are():
    shares = (
        Position(1, 4, 4, 0, 0, 2, 20),
        Position(1, 3, 3, 1, 1, 2, 20, ((12, 14), (17, 20))),
    )
    blob = encode_positions(shares)

    assert (blob.dtype, blob.shape) == (np.int64, (4, 7))
    assert decode_positions(blob) == shares


def test_stretches_do_not_hide_that_all_shares_have_finished():
    blob = encode_positions([Position(1, 3, 3, 1, 0, 1, 9, ((0, 3),))])

    assert (blob[:, 3] != 0).all()


def test_nothing_is_divided_where_a_share_is_not_known():
    only = Position(1, 2, 2, 0, 0, 2, 20)

    assert redistribute([only], 0, 3) is None
    assert redistribute([], 0, 3) is None
    assert redistribute([Position(1, 2, 2, 0, 0, 1, -1)], 0, 3) is None
    assert redistribute([only, Position(2, 2, 2, 0, 1, 2, 20)], 0, 3) is None


@given(st.data())
def test_each_row_that_is_left_is_in_exactly_one_share(data):
    length = data.draw(st.integers(0, 40))
    shares = [Position(1, 0, 0, 0, 0, 1, length)]
    left = list(range(length))
    given_records = 0
    for _ in range(data.draw(st.integers(1, 4))):
        moved = []
        for one in shares:
            there = _places(one)
            gone = data.draw(st.integers(0, len(there) - one.rows))
            given_records += gone
            left = [p for p in left if p not in there[one.rows : one.rows + gone]]
            moved.append(one.after(gone, gone))
        parts = data.draw(st.integers(1, 5))
        moved = decode_positions(encode_positions(moved))
        shares = [redistribute(moved, part, parts) for part in range(parts)]

        assert [place for one in shares for place in _places(one)] == left
        sizes = [len(_places(one)) for one in shares]
        assert max(sizes) - min(sizes) <= 1
        assert sum(one.records for one in shares) == given_records
