from __future__ import annotations

import re

from msgspec.structs import fields

from jobrun.checkpoint.format_description import describe_format
from jobrun.checkpoint.hdf5 import digest_blocks as blocks
from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.hdf5.user_block import Header, Parts
from jobrun.graph.checkpoint_policy import CODECS


def test_it_names_every_key_dataset_and_codec():
    text = describe_format()

    for field in (*fields(Header), *fields(Parts)):
        assert f"  {field.name} " in text
    for name in ("layout", "names", "blobs", "epoch", "chunks", "values", "blocks"):
        assert f"/_ck/{name}" in text
    assert all(codec in text for codec in CODECS)


def test_format_description_has_the_numbers_of_the_code():
    text = describe_format()

    assert f"format {userblock.FORMAT}" in text
    assert f"of {blocks.BLOCK_BYTES} bytes" in text
    assert "bfloat16" in text
    assert not re.search(r"\{\w+\}", text.replace("{n}", ""))


def test_it_fits_a_terminal():
    assert max(map(len, describe_format().splitlines())) <= 100
