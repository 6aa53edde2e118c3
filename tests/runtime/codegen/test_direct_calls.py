"""The short way gives numpy's bits, kinds and errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jobrun.ops.operator_table import implementation
from jobrun.runtime.codegen.expressions import choose_function
from jobrun.values.compare import same_bits
from tests.support.tables import each_case

NAMES = ("sum", "prod", "mean", "min", "max", "any", "all", "argmin", "argmax")
DTYPES = ("bool", "int8", "uint16", "int64", "float16", "float32", "float64", ">f8", "complex64")
RNG = np.random.default_rng(3)


def arrays(dtype):
    many = (RNG.normal(size=(7, 33)) * 9).astype(dtype)
    yield from (many, many.T, many[::2, ::-3], many[0], many[2, 3:4], many[0, 0].reshape(()))
    yield np.full((3, 5), np.nan).astype(dtype) if many.dtype.kind == "f" else many[:1]


@each_case("name", NAMES)
@each_case("dtype", DTYPES)
@np.errstate(all="ignore")
def test_reductions_are_numpys(name, dtype):
    ours, numpys = choose_function(name, 1, ()), implementation(name)
    assert ours is not numpys
    for array in arrays(dtype):
        axes = [None, *range(-array.ndim, array.ndim)]
        for axis, keepdims in itertools.product(axes, (False, True)):
            actual = ours(array, axis=axis, keepdims=keepdims)
            assert same_bits(actual, numpys(array, axis=axis, keepdims=keepdims)), (array, axis)
        assert same_bits(ours(array), numpys(array))


@each_case("name", NAMES)
@each_case("value", [3, 2.5, True, np.float32(1.5), [1.0, 2.0], [[1, 2], [3, 4]]])
def test_values_other_than_arrays_are_left_to_numpy(name, value):
    assert same_bits(choose_function(name, 1, ())(value), implementation(name)(value))


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
def test_nothing_has_no_smallest_item(name):
    with pytest.raises(ValueError, match=r"empty|zero-size"):
        choose_function(name, 1, ())(np.zeros(0))


@pytest.mark.parametrize("array", [np.zeros(0), np.zeros((0, 3))])
def test_the_mean_of_an_empty_array_warns_like_numpy(array):
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"), np.errstate(all="ignore"):
        assert np.isnan(choose_function("mean", 1, ())(array))


@pytest.mark.parametrize(
    ("name", "positional", "named"),
    [("sum", 3, ()), ("sum", 1, ("dtype",)), ("sum", 0, ("a",)), ("std", 1, ()), ("exp", 1, ())],
)
def test_other_calls_are_left_alone(name, positional, named):
    assert choose_function(name, positional, named) is implementation(name)
