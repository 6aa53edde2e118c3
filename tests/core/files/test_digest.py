"""Digests of bytes and files, as records have them."""

from __future__ import annotations

import hashlib

from jobrun.core.files.digest import digest_bytes, digest_file


def test_digest_is_of_the_parts_in_a_row():
    assert digest_bytes(b"a", b"b") == "sha256:" + hashlib.sha256(b"ab").hexdigest()


def test_file_has_the_digest_of_its_bytes(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"ab")

    assert digest_file(path) == digest_bytes(b"ab")
