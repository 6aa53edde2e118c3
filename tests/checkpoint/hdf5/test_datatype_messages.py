from __future__ import annotations

import h5py
import numpy as np
from h5py import h5t

from jobrun.checkpoint.hdf5.metadata_bytes import (
    is_number_type,
    render_number_type,
    render_record_type,
    render_text_type,
)
from tests.support.tables import each_case

NUMBERS = [
    f"{order}{kind}" for order in "<>" for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8",
    "f2", "f4", "f8", "c8", "c16", "?")
]  # fmt: skip


@each_case("text", NUMBERS)
def test_the_type_of_a_number_is_that_of_h5py(text):
    dtype = np.dtype(text)

    assert is_number_type(dtype)
    assert render_number_type(dtype) == h5t.py_create(dtype).encode()[2:]


@each_case("text", ["S5", "V3", "<f16", "<c32"])
def test_other_types_are_left_to_libhdf5(text):
    assert not is_number_type(np.dtype(text))


@each_case("fields", [[("offset", "<u8"), ("size", "<u8")], [("seven_b", ">i2"), ("ü", "<f4")]])
def test_the_type_of_a_record_of_numbers_is_that_of_libhdf5(fields):
    dtype = np.dtype(fields)

    assert render_record_type(dtype) == h5t.py_create(dtype).encode()[2:]


@each_case("size", [1, 5, 70_000])
def test_the_type_of_a_text_is_that_of_libhdf5(size):
    dtype = h5py.string_dtype("utf-8", size)

    assert render_text_type(size) == h5t.py_create(dtype, logical=True).encode()[2:]
