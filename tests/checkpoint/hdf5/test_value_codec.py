from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from jobrun.checkpoint.hdf5.dtypes import is_longdouble, parse_dtype, storage_dtype
from jobrun.checkpoint.hdf5.value_codec import decode, encode
from jobrun.core.errors import TaskFailedError
from jobrun.values.axis_order import axis_order
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter
from tests.support.checkpoints import RECORD, VALUES
from tests.support.tables import each_case

SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
ARRAYS = arrays.arrays(arrays.scalar_dtypes(), SHAPES)
RECORDS = arrays.arrays(arrays.nested_dtypes(arrays.scalar_dtypes(), max_leaves=4), SHAPES)
SCALARS = (
    st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters())
    | st.integers(-(2**70), 2**70).map(Counter)
)


def round_trip(value):
    coded = encode(value, "x")
    # What comes out of a file owns its memory.
    return decode(coded.kind, coded.dtype, coded.array.copy(), coded.order)


def assert_same(first, second):
    if isinstance(first, np.ndarray) and is_longdouble(first.dtype):
        # Bytes of padding are not part of the value.
        native = first.dtype.newbyteorder("=")
        assert first.dtype.str == second.dtype.str
        first, second = first.astype(native), second.astype(native)
    assert same_bits(first, second)


@each_case("name", VALUES)
def test_every_kind_of_value_round_trips_exactly(name):
    assert_same(VALUES[name], round_trip(VALUES[name]))


@given(ARRAYS)
def test_arrays_round_trip_exactly(value):
    assert_same(value, round_trip(value))


@pytest.mark.long
@given(RECORDS)
def test_records_round_trip_exactly(value):
    back = round_trip(value)

    assert back.dtype == value.dtype
    assert back.shape == value.shape
    assert encode(back, "x").array.tobytes() == encode(value, "x").array.tobytes()


@given(SCALARS)
def test_scalars_round_trip_exactly(value):
    assert_same(value, round_trip(value))


@given(ARRAYS.filter(lambda value: value.ndim > 1))
def test_the_order_of_axes_in_memory_is_kept(value):
    turned = np.asfortranarray(value)[::-1]

    back = round_trip(turned)

    assert axis_order(back) == axis_order(turned)
    assert_same(np.ascontiguousarray(turned), back)


@each_case("name", VALUES)
def test_loaded_arrays_own_writable_memory(name):
    back = round_trip(VALUES[name])

    if isinstance(back, np.ndarray):
        flags = back.flags
        assert flags.owndata
        assert flags.writeable
        assert flags.aligned
        assert flags.c_contiguous


@each_case("name", VALUES)
def test_array_has_the_dtype_of_the_text(name):
    coded = encode(VALUES[name], "x")

    assert coded.array.dtype == storage_dtype(parse_dtype(coded.dtype))
    assert coded.array.flags.c_contiguous


def test_padding_does_not_reach_the_stored_bytes():
    first, second = (np.full(4 * RECORD.itemsize, byte, np.uint8).view(RECORD) for byte in (0, 1))
    for array in (first, second):
        array["when"] = np.datetime64("2026-11-21")
        array["name"] = "ab"
        array["x"] = 1
        array["inner"]["g"] = 2
        array["inner"]["n"] = 3

    assert encode(first, "x").array.tobytes() == encode(second, "x").array.tobytes()


def test_plain_arrays_are_not_copied():
    value = np.arange(1000.0)

    assert np.shares_memory(encode(value, "x").array, value)


@each_case(
    "value",
    [
        None,
        [1, 2],
        {"a": 1},
        b"bytes",
        pytest.param(object(), id="object"),
        np.array([None]),
        np.ma.zeros(3),
        np.zeros(2, [("a", object)]),
        np.zeros(2, np.dtypes.StringDType()),
        np.zeros((1,) * 33),
        np.array([(1, 2)], [("a", "i4"), ("b", "U0")]),
    ],
)
def test_value_that_cannot_round_trip_is_refused_by_name(value):
    with pytest.raises(TaskFailedError) as caught:
        encode(value, "model")

    (fault,) = caught.value.faults
    assert "'model'" in fault.message
    assert fault.mend


def test_a_character_beyond_unicode_is_refused():
    value = np.array([0x110000], np.uint32).view("U1")

    with pytest.raises(TaskFailedError, match="'x'"):
        encode(value, "x")


@each_case(
    ("kind", "dtype", "array"),
    [
        ("float", "<f4", np.zeros((), "f4")),
        ("float", "<f8", np.zeros(1)),
        ("int", "<i4", np.zeros((), "i4")),
        ("int", "|S2", np.array(b"xy")),
        ("text", "<f8", np.zeros(())),
        ("text", "|S1", np.zeros(3, "S1")),
        ("text", "|S1", np.array(b"\xff")),
        ("pickle", "<f8", np.zeros(())),
        ("array", "|O", np.zeros(3)),
        ("array", "<U1", np.array([b"abcd"], "S4")),
    ],
)
def test_attributes_that_do_not_fit_the_data_are_refused(kind, dtype, array):
    with pytest.raises(ValueError, match=r"."):
        decode(kind, dtype, array)
