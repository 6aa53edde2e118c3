from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.checkpoint.codec import Coded
from jobrun.checkpoint.image import StructureError, read, value_of
from tests.support import format_1

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
