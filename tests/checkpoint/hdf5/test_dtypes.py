from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays

from jobrun.checkpoint.hdf5.dtypes import dtype_text, parse_dtype, storage_dtype
from jobrun.values.kinds.array import same_dtype
from tests.support.checkpoints import RECORD
from tests.support.tables import each_case

SCALARS = arrays.scalar_dtypes()
RECORDS = arrays.nested_dtypes(subtype_strategy=SCALARS, max_leaves=6)


@given(SCALARS | RECORDS)
def test_text_of_a_dtype_round_trips(dtype):
    assert parse_dtype(dtype_text(dtype)) == dtype


@given(SCALARS | RECORDS)
def test_storage_dtype_has_the_size_of_the_logical_dtype(dtype):
    if dtype.itemsize:
        assert storage_dtype(dtype).itemsize == dtype.itemsize


@each_case(
    "dtype",
    [
        np.dtype("q"), np.dtype("Q"), np.dtype("l"), np.dtype(">q"), np.dtype(np.longlong),
        np.dtype([("a", "q"), ("b", "l", (2,)), ("c", "Q", (2,))]),
        np.dtype("q", metadata={"unit": "m"}),
    ],
)  # fmt: skip
def test_integers_of_one_width_and_two_classes_are_kept_apart(dtype):
    assert same_dtype(parse_dtype(dtype_text(dtype)), dtype)


def test_a_record_keeps_offsets_and_padding():
    assert parse_dtype(dtype_text(RECORD)) == RECORD
    assert json.loads(dtype_text(RECORD))["itemsize"] == RECORD.itemsize


def test_text_is_stored_as_utf8_of_the_same_size():
    stored = storage_dtype(np.dtype("<U5"))

    assert stored == np.dtype("S20")
    assert storage_dtype(np.dtype(">M8[s]")) == np.dtype(">i8")


@each_case(
    "text",
    [
        "", "O", "|O", "|O8", "object", "f8,f8", "<f3", "<f", "float64", "<i8]", "{", "{}", "[]",
        '{"names": ["a"], "formats": ["|O"], "offsets": [0], "itemsize": 8}',
        '{"names": ["a"], "formats": ["<f8"], "offsets": [0], "itemsize": 4}',
        '{"names": ["a"], "formats": ["<f8"], "offsets": [0]}',
        '{"dtype": "<i4", "class": "longlong"}', '{"dtype": "<i8", "class": "int64"}',
        "{" * 100_000,
    ],
)  # fmt: skip
def test_a_text_that_is_no_dtype_is_refused(text):
    with pytest.raises(ValueError, match="dtype"):
        parse_dtype(text)


def test_an_object_dtype_has_no_text():
    with pytest.raises(ValueError, match="not a plain one"):
        dtype_text(np.dtype(object))


@pytest.mark.parametrize("other", ["U1", "g", ("U1", 2), [("x", "g")]])
def test_text_and_long_doubles_that_share_bytes_with_a_field_are_refused(other):
    fields = {"names": ["a", "b"], "formats": ["i4", other], "offsets": [2, 0]}
    with pytest.raises(ValueError, match="overlap"):
        dtype_text(np.dtype([("in", fields, 2)]))


def test_a_field_without_size_is_refused():
    with pytest.raises(ValueError, match="no size"):
        dtype_text(np.dtype([("a", "U0"), ("b", "i4")]))
