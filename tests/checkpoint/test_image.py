from __future__ import annotations

import io

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.checkpoint.codec import Coded, encode
from jobrun.checkpoint.image import StructureError, build, quoted, read, unquoted, value_of
from jobrun.checkpoint.userblock import SIZE
from jobrun.core.errors import TaskFailedError
from tests.support.checkpoints import VALUES

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def built(values, epoch=3) -> bytes:
    return build(epoch, {name: encode(value, name) for name, value in values.items()}).getvalue()


@given(st.lists(NAMES, unique=True, max_size=8))
def test_any_names_can_stand_together(names):
    data = built({name: place for place, name in enumerate(names)})

    back = read(data, 3)

    assert {name: value_of(name, coded) for name, coded in back.items()} == {
        name: place for place, name in enumerate(names)
    }


@given(NAMES, NAMES)
def test_different_names_are_quoted_differently(first, second):
    assert (quoted(first) == quoted(second)) == (first == second)
    assert unquoted(quoted(first)) == first


@pytest.mark.parametrize(
    ("name", "in_file"),
    [
        ("w", "w"),
        ("readers/train", "readers%2Ftrain"),
        ("a%b", "a%25b"),
        (".", "%2E"),
        ("a.b", "a.b"),
        ("größe", "größe"),
        ("a\0\x7f", "a%00%7F"),
    ],
)
def test_names_are_quoted_only_where_hdf5_would_misread_them(name, in_file):
    assert quoted(name) == in_file
    with h5py.File(io.BytesIO(built({name: 1})), "r") as file:
        assert list(file["blobs"]) == [in_file]


def test_equal_values_give_equal_bytes_in_whatever_order():
    turned = dict(reversed(list(VALUES.items())))

    assert built(VALUES) == built(turned)


def test_each_blob_is_one_contiguous_dataset_that_says_what_it_is():
    with h5py.File(io.BytesIO(built({"w": np.arange(3.0, dtype=">f4")})), "r") as file:
        dataset = file["blobs/w"]

        assert dataset.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS
        assert dict(dataset.attrs) == {"kind": b"array", "dtype": b">f4", "role": b"state"}
        assert dataset.dtype == np.dtype(">f4")


def test_what_changes_with_the_epoch_stands_in_no_attribute():
    first, second = (
        h5py.File(io.BytesIO(built({"w": np.arange(3.0) + epoch}, epoch)), "r") for epoch in (1, 2)
    )
    with first, second:
        assert int(first["_ck/epoch"][()]) == 1
        assert int(second["_ck/epoch"][()]) == 2
        for item in ("/", "blobs", "blobs/w", "_ck", "_ck/epoch"):
            assert dict(first[item].attrs) == dict(second[item].attrs)


def test_the_table_tells_names_lengths_and_checksums():
    with h5py.File(io.BytesIO(built({"b": np.arange(3.0), "a": b"".decode()})), "r") as file:
        assert file["_ck/names"].asstr()[()].tolist() == ["a", "b"]
        assert file["_ck/lengths"][()].tolist() == [0, 24]
        assert file["_ck/crc32"].dtype == np.uint32


def test_the_first_bytes_are_left_for_the_user_block():
    assert built({})[:SIZE] == bytes(SIZE)
    assert built({})[SIZE : SIZE + 8] == b"\x89HDF\r\n\x1a\n"


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


def test_a_dtype_that_hdf5_cannot_hold_is_refused_by_name():
    wide = np.zeros(1, [(f"field_{place:05d}", "i1") for place in range(5000)])

    with pytest.raises(TaskFailedError, match="'x'"):
        built({"x": wide})


def test_attributes_that_do_not_fit_the_data_are_refused():
    with pytest.raises(StructureError, match="'x'"):
        value_of("x", Coded("text", "<f8", np.zeros(3)))
