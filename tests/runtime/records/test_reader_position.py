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


def _places(value):
    stretches = value.stretches or (
        (value.length * value.part // value.parts, value.length * (value.part + 1) // value.parts),
    )
    return [number for first, last in stretches for number in range(first, last)]


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
    unread = list(range(length))
    given_records = 0
    for _ in range(data.draw(st.integers(1, 4))):
        moved = []
        for single in shares:
            there = _places(single)
            gone = data.draw(st.integers(0, len(there) - single.rows))
            given_records += gone
            unread = [p for p in unread if p not in there[single.rows : single.rows + gone]]
            moved.append(single.after(gone, gone))
        parts = data.draw(st.integers(1, 5))
        moved = decode_positions(encode_positions(moved))
        shares = [redistribute(moved, part, parts) for part in range(parts)]

        assert [row for share in shares for row in _places(share)] == unread
        sizes = [len(_places(share)) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        assert sum(share.records for share in shares) == given_records
