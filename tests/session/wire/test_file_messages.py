from __future__ import annotations

import numpy as np

from jobrun.session.wire.codec import decode_frame, encode_frame
from jobrun.session.wire.file_messages import (
    NO_FILE_SETUP,
    FileChunk,
    Probe,
    WorkerFileSetup,
)


def test_file_setup_messages_round_trip():
    footing = WorkerFileSetup(3, "/v/jobrun-r", Probe("/p", "x"))

    assert decode_frame(encode_frame((footing, NO_FILE_SETUP))) == (footing, NO_FILE_SETUP)


def test_the_bytes_of_a_piece_go_apart_and_arrive_as_they_were():
    data = np.arange(100_000, dtype=np.uint8)
    frame = encode_frame(FileChunk("t", 1, "a.h5", 7, 200_000, data))

    piece = decode_frame(frame)

    assert len(frame[1]) == 1
    assert (piece.token, piece.incarnation, piece.offset) == ("t", 1, 7)
    assert piece.data.dtype == np.uint8
    assert piece.data.tobytes() == data.tobytes()
