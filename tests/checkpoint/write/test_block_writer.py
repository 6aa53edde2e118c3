from __future__ import annotations

import mmap
import os

import numpy as np
import pytest

from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES, block_count, block_span, digest
from jobrun.checkpoint.write.block_writer import BlockWriter
from jobrun.checkpoint.write.direct_io import FileWriter, SlabPool

RNG = np.random.default_rng(7)


def paged(size: int) -> np.ndarray:
    memory = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    memory[...] = RNG.integers(0, 256, size, np.uint8)
    return memory


def filled(path, pieces, *, direct, size=None, old=(), known=()):
    """Fill a file with pieces (arrays, or places up to which zeros go); returns the filling."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    most = size or 4096 * 3 + sum(p.size if isinstance(p, np.ndarray) else p for p in pieces)
    file = FileWriter(descriptor, direct=direct)
    filling = BlockWriter(file, SlabPool(), most, old)
    file.start()
    for piece in pieces:
        filling.zero(piece) if isinstance(piece, int) else filling.put(piece, known)
    end = filling.position
    filling.end_blocks()
    filling.put_tail(b"tail")
    file.wait()
    os.ftruncate(descriptor, end + 4)
    os.close(descriptor)
    return filling, end


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    "sizes", [[1], [5, 3], [BLOCK_BYTES], [7, BLOCK_BYTES * 3, 11], [17 << 20, 3], [100, 18 << 20]]
)
def test_written_bytes_and_block_digests_are_in_the_file(tmp_path, sizes, direct):
    pieces = [RNG.integers(0, 256, size, np.uint8) for size in sizes]

    filling, end = filled(tmp_path / "x", pieces, direct=direct)

    data = (tmp_path / "x").read_bytes()
    whole = b"".join(piece.tobytes() for piece in pieces)
    assert data[4096:] == whole + b"tail"
    spans = [block_span(number, end) for number in range(block_count(end))]
    assert filling.digests == [digest(data[begin:last]) for begin, last in spans]


def test_large_data_that_begin_at_a_page_are_written_from_where_they_are(tmp_path, monkeypatch):
    data = paged(3 * BLOCK_BYTES)
    seen = []
    whole = FileWriter.write

    def see(self, piece, offset):
        seen.append(isinstance(piece, np.ndarray) and np.shares_memory(piece, data))
        whole(self, piece, offset)

    monkeypatch.setattr(FileWriter, "write", see)
    filled(tmp_path / "x", [np.zeros(5, np.uint8), 8192, data], direct=True)

    assert any(seen)
    assert (tmp_path / "x").read_bytes()[8192 : 8192 + data.size] == data.tobytes()


def test_gaps_are_zero_whatever_was_in_the_memory_before(tmp_path):
    pieces = [np.full(100, 255, np.uint8), 10_000, np.full(100, 255, np.uint8)]
    pool_user = RNG.integers(1, 256, 200_000, np.uint8)

    filled(tmp_path / "y", [pool_user], direct=False)
    filled(tmp_path / "x", pieces, direct=False)

    assert (tmp_path / "x").read_bytes()[4196:10_000] == bytes(10_000 - 4196)


@pytest.mark.parametrize("direct", [False, True])
def test_only_blocks_that_differ_are_written(tmp_path, direct):
    data = RNG.integers(0, 256, 20 * BLOCK_BYTES + 9, np.uint8)
    before, _ = filled(tmp_path / "x", [data], direct=direct)
    data[5 * BLOCK_BYTES + 3] ^= 1

    after, _ = filled(tmp_path / "x", [data], direct=direct, old=before.digests)

    assert after.written_bytes < 3 * BLOCK_BYTES
    assert (tmp_path / "x").read_bytes()[4096:] == data.tobytes() + b"tail"
    assert sum(a != b for a, b in zip(before.digests, after.digests, strict=True)) == 1


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("changed", [[], [0], [40], [80], [0, 40, 80]])
def test_blocks_that_are_known_to_be_in_the_file_are_not_read(tmp_path, direct, changed):
    pieces = [RNG.integers(0, 256, size, np.uint8) for size in (5, 81 * BLOCK_BYTES, 9)]
    before, _ = filled(tmp_path / "x", pieces, direct=direct)
    old = [b"" if number in changed else digest for number, digest in enumerate(before.digests)]

    known = before.digests
    after, _ = filled(tmp_path / "x", pieces, direct=direct, old=old, known=known)

    assert after.digests == before.digests
    assert after.written_bytes < (len(changed) + 3) * BLOCK_BYTES
    whole = b"".join(piece.tobytes() for piece in pieces)
    assert (tmp_path / "x").read_bytes()[4096:] == whole + b"tail"
