from __future__ import annotations

import numpy as np

from jobrun.session.ray.messages import Resequencer, decode_frame, encode_frame, frame_size
from jobrun.session.wire.codec import OUT_OF_BAND_BYTES


def test_what_goes_apart_comes_back_with_memory_of_its_own():
    large = np.arange(OUT_OF_BAND_BYTES, dtype="f8").reshape(2, -1)
    value = ("a", large, 1.5, large[:, :3])

    frame = encode_frame(value)
    back = decode_frame(frame)

    assert frame_size(frame) >= large.nbytes
    assert (back[0], back[2]) == ("a", 1.5)
    assert np.array_equal(back[1], large)
    assert np.array_equal(back[3], large[:, :3])
    assert back[1].flags.owndata
    assert back[1].flags.writeable
    assert np.shares_memory(frame[1][0], large)


def test_a_copied_frame_does_not_change_with_the_value():
    large = np.zeros(OUT_OF_BAND_BYTES)
    frame = encode_frame(large, copied=True)

    large += 1

    assert decode_frame(frame).sum() == 0


def test_frames_that_overtook_others_wait_for_them():
    found = []
    line = Resequencer(found.append)
    frames = [encode_frame(number) for number in range(4)]

    for number in (2, 0, 3, 1):
        line.receive(number, frames[number])

    assert [decode_frame(one) for one in found] == [0, 1, 2, 3]
