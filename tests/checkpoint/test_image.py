from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.blobs.values import same_bits
from jobrun.checkpoint.codec import Coded
from jobrun.checkpoint.directory import DirectoryStore
from jobrun.checkpoint.hdf5 import inspect_state, read_state
from jobrun.checkpoint.image import StructureError, read, value_of
from tests.support import format_1
from tests.support.checkpoints import RUN_ID, VALUES

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def built(values, epoch=3) -> bytes:
    return format_1.image(epoch, values)


@given(st.lists(NAMES, unique=True, max_size=8))
def test_any_names_can_stand_together(names):
    data = built({name: place for place, name in enumerate(names)})

    back = read(data, 3)

    assert {name: value_of(name, coded) for name, coded in back.items()} == {
        name: place for place, name in enumerate(names)
    }


def test_only_the_wanted_blobs_are_read():
    assert set(read(built({"a": 1, "b": 2}), 3, ["b"])) == {"b"}


def test_a_missing_name_is_told():
    with pytest.raises(KeyError, match="c"):
        read(built({"a": 1}), 3, ["c"])


def test_another_epoch_than_the_header_says_is_refused():
    with pytest.raises(StructureError, match="epoch"):
        read(built({"a": 1}, epoch=4), 3)


def test_what_is_no_hdf5_is_refused():
    with pytest.raises(StructureError, match="HDF5"):
        read(bytes(10_000), 3)


def test_attributes_that_do_not_fit_the_data_are_refused():
    with pytest.raises(StructureError, match="'x'"):
        value_of("x", Coded("text", "<f8", np.zeros(3)))


OLD = Path(__file__).parent.parent / "fixtures/checkpoint_format_1"


def test_a_file_that_format_1_wrote_is_read_exactly():
    store = DirectoryStore(str(OLD))
    (file,) = store.manifest(3).files

    back = read_state(
        str(OLD / "epoch-000003/n.h5"),
        node="n",
        epoch=3,
        run_id=RUN_ID,
        digest=file.digest,
        names=tuple(VALUES),
    )

    assert store.verify(3) is None
    assert all(same_bits(back[name], value) for name, value in VALUES.items())
    assert inspect_state(str(OLD / "epoch-000003/n.h5")).header.format == 1


def test_any_byte_of_such_a_file_is_verified(tmp_path):
    shutil.copytree(OLD, tmp_path / "copy")
    path = tmp_path / "copy/epoch-000003/n.h5"
    data = path.read_bytes()
    for place in range(0, len(data), 997):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])

        assert DirectoryStore(str(tmp_path / "copy")).verify(3) is not None
