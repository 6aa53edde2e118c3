from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.read.verified_file import read_verified
from jobrun.core.errors import CheckpointError
from jobrun.core.files.digest import digest_bytes
from tests.support.checkpoints import write


def bytes_of(path: Path, digest: str) -> bytes:
    return b"".join(bytes(piece) for piece in read_verified(str(path), digest))


def test_verified_pieces_are_the_whole_file(tmp_path):
    stored = write(tmp_path, {"w": np.arange(300_000.0)})

    assert bytes_of(tmp_path / "n.h5", stored.digest) == (tmp_path / "n.h5").read_bytes()


def test_file_without_a_header_is_verified_as_a_whole(tmp_path):
    data = bytes(range(256)) * 99
    (tmp_path / "n.h5").write_bytes(data)

    assert bytes_of(tmp_path / "n.h5", digest_bytes(data)) == data
    with pytest.raises(CheckpointError, match="manifest"):
        bytes_of(tmp_path / "n.h5", "sha256:" + "0" * 64)


def test_any_other_byte_is_found(tmp_path):
    stored = write(tmp_path, {"w": np.arange(30_000.0), "k": 1})
    path = tmp_path / "n.h5"
    data = path.read_bytes()

    for offset in (0, 100, 4063, 4095, 4096, 5000, 90_000, len(data) - 1):
        path.write_bytes(data[:offset] + bytes([data[offset] ^ 16]) + data[offset + 1 :])
        with pytest.raises(CheckpointError):
            bytes_of(path, stored.digest)


def test_no_damaged_piece_is_yielded(tmp_path):
    stored = write(tmp_path, {"w": np.arange(900_000.0)})
    path = tmp_path / "n.h5"
    data = bytearray(path.read_bytes())
    data[5_000_000] ^= 1
    path.write_bytes(data)
    lengths = []

    with pytest.raises(CheckpointError):
        lengths.extend(map(len, read_verified(str(path), stored.digest)))

    assert sum(lengths) <= 5_000_000
