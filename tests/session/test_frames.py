from __future__ import annotations

import numpy as np

from jobrun.session.codec import APART_BYTES
from jobrun.session.frames import InOrder, frame_of, size_of, value_of_frame


def test_what_goes_apart_comes_back_with_memory_of_its_own():
    large = np.arange(APART_BYTES, dtype="f8").reshape(2, -1)
    value = ("a", large, 1.5, large[:, :3])

    frame = frame_of(value)
    back = value_of_frame(frame)

    assert size_of(frame) >= large.nbytes
    assert (back[0], back[2]) == ("a", 1.5)
    assert np.array_equal(back[1], large)
    assert np.array_equal(back[3], large[:, :3])
    assert back[1].flags.owndata
    assert back[1].flags.writeable
    assert np.shares_memory(frame[1][0], large)


def test_a_copied_frame_does_not_change_with_the_value():
    large = np.zeros(APART_BYTES)
    frame = frame_of(large, copied=True)

    large += 1

    assert value_of_frame(frame).sum() == 0


def test_frames_that_overtook_others_wait_for_them():
    found = []
    line = InOrder(found.append)
    frames = [frame_of(number) for number in range(4)]

    for number in (2, 0, 3, 1):
        line.came(number, frames[number])

    assert [value_of_frame(one) for one in found] == [0, 1, 2, 3]
