from __future__ import annotations

import re
from dataclasses import fields

from jobrun.checkpoint import blocks, userblock
from jobrun.checkpoint.formattext import format_text
from jobrun.checkpoint.userblock import Header, Parts
from jobrun.core.compression import CODECS


def test_it_names_every_key_dataset_and_codec():
    text = format_text()

    for one in (*fields(Header), *fields(Parts)):
        assert f"  {one.name} " in text
    for name in ("layout", "names", "blobs", "epoch", "chunks", "blocks", "crc32"):
        assert f"/_ck/{name}" in text
    assert all(codec in text for codec in CODECS)


def test_its_numbers_are_those_of_the_code():
    text = format_text()

    assert f"format {userblock.FORMAT}" in text
    assert f"of {blocks.BLOCK_BYTES} bytes" in text
    assert "bfloat16" in text
    assert not re.search(r"\{\w+\}", text.replace("{n}", ""))


def test_it_fits_a_terminal():
    assert max(map(len, format_text().splitlines())) <= 100
