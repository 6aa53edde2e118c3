from __future__ import annotations

import hashlib
import json

import pytest

from jobrun.checkpoint.hdf5.user_block import MAGIC, SIZE, Header, Parts, decode, encode
from jobrun.core.errors import CheckpointError
from tests.support.tables import each_case

PARTS = Parts(8192, 100, 20, 2, 9000, 0, 1)
HEADER = Header("trainer_0", 12, "run-1", 5000, "sha256:" + "a" * 64, "sha256:" + "b" * 64, PARTS)


def code_of(block: bytes) -> str:
    with pytest.raises(CheckpointError) as caught:
        decode(block, "trainer.h5")
    (fault,) = caught.value.faults
    assert "trainer.h5" in fault.message
    assert fault.mend
    return fault.code


def resealed(text: bytes) -> bytes:
    text = (MAGIC + text).ljust(SIZE - 32, b"\0")
    return text + hashlib.sha256(text).digest()


def test_header_round_trips():
    block = encode(HEADER)

    assert len(block) == SIZE
    assert decode(block, "x") == HEADER
    assert decode(block + b"more", "x") == HEADER


def test_header_is_readable_text():
    assert b'"epoch": 12' in encode(HEADER)


def test_every_change_of_one_byte_is_detected():
    block = encode(HEADER)

    for offset in range(SIZE):
        for bits in (1, 0xFF):
            changed = bytearray(block)
            changed[offset] ^= bits
            assert code_of(bytes(changed)) == ("E301" if offset < len(MAGIC) else "E303")


@pytest.mark.parametrize("length", [0, 1, 17])
def test_a_file_without_the_magic_is_no_checkpoint(length):
    assert code_of(encode(HEADER)[:length]) == "E301"


@pytest.mark.parametrize("length", [18, 100, SIZE - 1])
def test_a_cut_header_is_truncated(length):
    assert code_of(encode(HEADER)[:length]) == "E302"


@pytest.mark.parametrize("start", [b"", b"\x89HDF\r\n\x1a\n", b"random bytes", b"\0" * SIZE])
def test_other_files_are_no_checkpoints(start):
    assert code_of(start.ljust(2 * SIZE, b"x")) == "E301"


@pytest.mark.parametrize("version", [1, 4])
def test_other_format_is_an_error_with_its_number(version):
    fields = json.loads(encode(HEADER)[len(MAGIC) :].partition(b"\n")[0])

    assert code_of(resealed(json.dumps(fields | {"format": version, "more": 1}).encode())) == "E308"


@each_case(
    "change",
    [
        {"epoch": -1}, {"epoch": "12"}, {"epoch": True}, {"length": 1.0}, {"node": 3},
        {"digest": "md5:0"}, {"format": None}, {"extra": 1}, {"parts": None}, {"parts": {}},
    ],
)  # fmt: skip
def test_fields_that_no_header_has_are_refused(change):
    fields = json.loads(encode(HEADER)[len(MAGIC) :].partition(b"\n")[0])

    text = json.dumps(fields | change, sort_keys=True).encode() + b"\n"

    assert code_of(resealed(text)) == "E303"


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"{", b"[" * 3000, b"\xff", b"null"])
def test_text_that_is_no_header_is_refused(text):
    assert code_of(resealed(text)) == "E303"


def test_a_header_that_does_not_fit_is_a_defect():
    with pytest.raises(ValueError, match="does not fit"):
        encode(Header("n" * 5000, 1, "r", 1, "sha256:" + "a" * 64, "", PARTS))
