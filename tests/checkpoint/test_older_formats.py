"""Files that an older jobrun has written are read as before."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import inspect_state, read_state
from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.store_protocol import StoredFile
from jobrun.checkpoint.stores.manifest import find_damage
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.files.digest import digest_bytes
from jobrun.values.compare import same_bits
from tests.support.checkpoints import VALUES
from tests.support.golden import GOLDEN

HELD = {
    **{name: value for name, value in VALUES.items() if name != "huger"},
    "packed": np.repeat(np.arange(2048.0), 64).reshape(256, 512),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "enum": np.arange(4).astype(np.dtype("i8", metadata={"enum": {"RED": 0}})),
    "container": {
        "a": [1.5, 2.5],
        "b": (None, "x", b"\0\1", np.arange(3)),
        3: {"c": [np.float32(1), True]},
    },
}


# What no version that wrote format 2 could load again.
_SAVED_SINCE = {"no_unit_swapped", "no_unit_metadata", "no_bytes", "text_names"}


@pytest.fixture
def path(tmp_path):
    """A file of format 2, with all kinds of values."""
    file = tmp_path / "n.h5"
    file.write_bytes(gzip.decompress((GOLDEN / "checkpoint" / "format-2.h5.gz").read_bytes()))
    return file


def test_file_of_format_2_is_read(path):
    names = [name for name in HELD if name not in _SAVED_SINCE]
    loaded = read_state(str(path), node="n", epoch=7, run_id="golden", digest="", names=names)

    assert [name for name in names if not same_bits(loaded[name], HELD[name])] == []
    assert inspect_state(str(path)).header.format == 2


def test_file_of_format_2_is_verified(path):
    block = path.read_bytes()[: userblock.SIZE]
    stored = StoredFile("n", "n.h5", path.stat().st_size, digest_bytes(block))

    assert find_damage(str(path.parent), stored, whole=True) == ""


def test_file_of_format_2_is_written_over(path):
    stored = NodeWriter("n", (("packed", "deflate"),)).write(
        str(path), epoch=8, run_id="golden", values=HELD, over_removed=True
    )

    assert find_damage(str(path.parent), stored, whole=True) == ""
    assert inspect_state(str(path)).header.format == 3
