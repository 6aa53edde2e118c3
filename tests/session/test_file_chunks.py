from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.session import node_files
from jobrun.session.node_files import read_chunk, write_chunks
from jobrun.session.wire.rpc import Reply


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(node_files, "CHUNK_BYTES", 10)


class Far:
    """Answers as another process would, and counts what is under way."""

    def __init__(self, path, change=lambda piece: piece):
        self.path, self.change = path, change
        self.under_way, self.most = 0, 0

    def ask(self, offset):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        answer, far = Reply(), self
        piece = self.change(read_chunk(str(self.path), offset, "save", 3))

        class Waited:
            def wait(self):
                far.under_way -= 1
                return answer.wait()

        answer.put((True, piece))
        return Waited()


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 95])
def test_file_of_any_length_arrives_intact(tmp_path, size):
    (tmp_path / "there").mkdir()
    source = tmp_path / "there" / "a.h5"
    source.write_bytes(bytes(range(size)))

    assert write_chunks(tmp_path / "a.h5", Far(source).ask, "save", 3) == size

    assert (tmp_path / "a.h5").read_bytes() == bytes(range(size))


def test_no_more_than_two_pieces_are_under_way(tmp_path):
    (tmp_path / "there").mkdir()
    source = tmp_path / "there" / "a.h5"
    source.write_bytes(bytes(1000))
    far = Far(source)

    write_chunks(tmp_path / "a.h5", far.ask, "save", 3)

    assert far.most <= 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"token": "another"}, "save another"),
        ({"incarnation": 2}, "incarnation 2"),
        ({"name": "b.h5"}, "b.h5"),
        ({"offset": 5}, "offset 5"),
        ({"size_bytes": 99}, "of 99"),
        ({"data": np.zeros(3, np.uint8)}, "3 bytes"),
    ],
)
def test_a_piece_of_anything_else_is_refused(tmp_path, change, words):
    (tmp_path / "there").mkdir()
    source = tmp_path / "there" / "a.h5"
    source.write_bytes(bytes(25))
    far = Far(source, lambda piece: replace(piece, **change) if piece.offset else piece)

    with pytest.raises(EnvironmentFaultError, match=words) as caught:
        write_chunks(tmp_path / "a.h5", far.ask, "save", 3)

    assert caught.value.faults[0].code == "E327"


def test_file_of_an_unexpected_length_is_refused_at_its_first_chunk(tmp_path):
    (tmp_path / "there").mkdir()
    source = tmp_path / "there" / "a.h5"
    source.write_bytes(bytes(25))

    with pytest.raises(EnvironmentFaultError, match="of 24") as caught:
        write_chunks(tmp_path / "a.h5", Far(source).ask, "save", 3, 24)

    assert caught.value.faults[0].code == "E327"
    assert (tmp_path / "a.h5").stat().st_size == 0


def test_a_file_is_never_written_over(tmp_path):
    (tmp_path / "there").mkdir()
    source = tmp_path / "there" / "a.h5"
    source.write_bytes(b"new")
    (tmp_path / "a.h5").write_bytes(b"old")

    with pytest.raises(EnvironmentFaultError) as caught:
        write_chunks(tmp_path / "a.h5", Far(source).ask, "save", 3)

    assert caught.value.faults[0].code == "E313"
    assert (tmp_path / "a.h5").read_bytes() == b"old"


def test_a_file_that_is_not_there_or_is_a_link_is_not_read(tmp_path):
    (tmp_path / "link").symlink_to("/etc/passwd")

    for name in ("missing", "link"):
        with pytest.raises(CheckpointError):
            read_chunk(str(tmp_path / name), 0)
