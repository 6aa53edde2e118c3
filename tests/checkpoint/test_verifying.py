from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.verifying import verified_pieces
from jobrun.core.errors import CheckpointError
from tests.support import format_1
from tests.support.checkpoints import write

OLD = Path(__file__).parent.parent / "fixtures/checkpoint_format_1/epoch-000003"


def bytes_of(path: Path, digest: str) -> bytes:
    return b"".join(bytes(piece) for piece in verified_pieces(str(path), digest))


def test_it_gives_the_whole_file(tmp_path):
    stored = write(tmp_path, {"w": np.arange(300_000.0)})

    assert bytes_of(tmp_path / "n.h5", stored.digest) == (tmp_path / "n.h5").read_bytes()


def test_it_gives_a_file_of_an_older_format(tmp_path):
    from jobrun.checkpoint.userblock import sha256  # noqa: PLC0415

    data = format_1.sealed(format_1.image(3, {"w": np.arange(9.0)}))
    (tmp_path / "n.h5").write_bytes(data)

    assert bytes_of(tmp_path / "n.h5", sha256(data)) == data
    with pytest.raises(CheckpointError, match="manifest"):
        bytes_of(tmp_path / "n.h5", "sha256:" + "0" * 64)


def test_any_other_byte_is_found(tmp_path):
    stored = write(tmp_path, {"w": np.arange(30_000.0), "k": 1})
    path = tmp_path / "n.h5"
    data = path.read_bytes()

    for place in (0, 100, 4063, 4095, 4096, 5000, 90_000, len(data) - 1):
        path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        with pytest.raises(CheckpointError):
            bytes_of(path, stored.digest)


def test_nothing_that_is_damaged_is_given_out(tmp_path):
    stored = write(tmp_path, {"w": np.arange(900_000.0)})
    path = tmp_path / "n.h5"
    data = bytearray(path.read_bytes())
    data[5_000_000] ^= 1
    path.write_bytes(data)
    given = []

    with pytest.raises(CheckpointError):
        given.extend(map(len, verified_pieces(str(path), stored.digest)))

    assert sum(given) <= 5_000_000
