from __future__ import annotations

import os

import numpy as np
import pytest

from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES, block_span
from jobrun.checkpoint.read.verified_file import TOGETHER, open_state, split_blocks
from jobrun.core.errors import CheckpointError
from tests.support.checkpoints import write

LARGE = {"w": np.arange(200_000.0), "v": np.arange(100_000.0) + 1, "k": 4}


def test_units_cover_the_blocks_in_order():
    blocks = [number for unit in split_blocks(range(3, 100)) for number in unit]

    assert blocks == list(range(3, 100))
    assert all(len(unit) <= TOGETHER for unit in split_blocks(range(100)))


def test_pieces_are_the_whole_file_behind_the_user_block(tmp_path):
    write(tmp_path, LARGE)
    path = tmp_path / "n.h5"

    with open_state(str(path)) as file:
        data = b"".join(bytes(piece) for piece in file.pieces())

    assert data == path.read_bytes()[4096:]


def test_damaged_block_is_reported_by_its_byte_range(tmp_path):
    write(tmp_path, LARGE)
    path = tmp_path / "n.h5"
    begin, end = block_span(2, 1 << 40)
    with path.open("r+b") as file:
        file.seek(begin + 17)
        file.write(b"\xff\xfe")

    with open_state(str(path)) as file:
        file.verified(4096, begin)
        with pytest.raises(CheckpointError, match=f"bytes {begin} to {end - 1}"):
            file.verified(begin, begin + 1)


def test_only_the_blocks_of_what_is_wanted_are_read(tmp_path, monkeypatch):
    write(tmp_path, LARGE)
    whole, read = os.preadv, []

    def see(descriptor, pieces, at):
        count = whole(descriptor, pieces, at)
        read.append(count)
        return count

    monkeypatch.setattr(os, "preadv", see)
    with open_state(str(tmp_path / "n.h5")) as file:
        assert file.index.names == ["k", "v", "w"]

    assert sum(read) < 2 * BLOCK_BYTES


def test_short_reads_are_continued(tmp_path, monkeypatch):
    write(tmp_path, LARGE)
    whole = os.preadv
    monkeypatch.setattr(
        os, "preadv", lambda fd, pieces, at: whole(fd, [memoryview(pieces[0])[:77_777]], at)
    )

    with open_state(str(tmp_path / "n.h5")) as file:
        for _ in file.pieces():
            pass


def test_file_truncated_during_a_read_is_an_error(tmp_path):
    write(tmp_path, LARGE)
    with open_state(str(tmp_path / "n.h5")) as file:
        assert file.index
        os.truncate(tmp_path / "n.h5", 500_000)
        with pytest.raises(CheckpointError, match="shorter"):
            file.verified(600_000, 700_000)
