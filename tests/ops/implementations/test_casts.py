from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.implementations.non_numpy_functions import array, astype, to_bool, to_float, to_int
from jobrun.values.atomic_counter import Counter


def test_an_array_is_new_and_of_the_dtype_asked_for():
    given = np.arange(3)

    assert array([[1, 2]], np.float32).dtype == np.float32
    assert not np.shares_memory(array(given), given)


@pytest.mark.parametrize("items", [[None], [object()], [2**70], [{}]])
def test_an_array_of_python_objects_is_refused(items):
    with pytest.raises(TypeError, match="numbers, bools or text"):
        array(items)


def test_a_cast_keeps_shape_and_axis_order():
    given = np.asfortranarray(np.arange(6.0).reshape(2, 3))

    found = astype(given, np.int64)

    assert found.dtype == np.int64
    assert found.flags.f_contiguous
    assert not np.shares_memory(astype(given, np.float64), given)


def test_a_cast_scalar_stays_a_scalar_and_an_array_of_none_an_array():
    assert type(astype(1.5, np.float32)) is np.float32
    assert type(astype(np.float64(1.5), np.int64)) is np.int64
    assert astype(np.array(1.5), np.float32).shape == ()
    assert isinstance(astype(np.array(1.5), np.float32), np.ndarray)


def test_no_cast_makes_objects():
    with pytest.raises(TypeError, match="numbers"):
        astype(np.arange(3), np.dtype("O"))


@pytest.mark.parametrize("value", [2.9, np.float32(2.9), np.array(2.9), np.array([[2.9]])])
def test_one_number_becomes_a_python_number(value):
    assert type(to_int(value)) is int
    assert to_int(value) == 2
    assert type(to_float(value)) is float
    assert to_bool(value) is True


def test_a_counter_and_text_have_a_number():
    assert to_int(Counter(7)) == 7
    assert to_float("2.5") == 2.5


def test_several_numbers_are_not_one():
    with pytest.raises(TypeError):
        to_float(np.arange(3))
