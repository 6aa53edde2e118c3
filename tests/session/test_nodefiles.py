from __future__ import annotations

import numpy as np

from jobrun.session.frames import frame_of, value_of_frame
from jobrun.session.nodefiles import NO_FOOTING, Footing, Piece, Probe


def test_what_is_told_crosses_to_another_process():
    footing = Footing(3, "/v/jobrun-r", Probe("/p", "x"))

    assert value_of_frame(frame_of((footing, NO_FOOTING))) == (footing, NO_FOOTING)


def test_the_bytes_of_a_piece_go_apart_and_arrive_as_they_were():
    data = np.arange(100_000, dtype=np.uint8)
    frame = frame_of(Piece("t", 1, "a.h5", 7, 200_000, data))

    piece = value_of_frame(frame)

    assert len(frame[1]) == 1
    assert (piece.token, piece.incarnation, piece.offset) == ("t", 1, 7)
    assert piece.data.dtype == np.uint8
    assert piece.data.tobytes() == data.tobytes()
