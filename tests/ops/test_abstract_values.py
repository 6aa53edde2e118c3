"""The promotion rules are numpy's, for every pair of dtypes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jobrun.ops.abstract_values import (
    UNKNOWN,
    Known,
    as_array,
    broadcast,
    elementwise,
    join,
    promote,
    scalar,
)
from jobrun.ops.dtype_promotion import as_float, as_mean, as_sum, dtype_name, join_dtypes
from tests.support.tables import check_each

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def test_two_arrays_promote_as_in_numpy() -> None:
    def check(pair: tuple[str, str]) -> None:
        lhs, rhs = pair
        assert promote(Known(lhs, ()), Known(rhs, ())) == np.result_type(lhs, rhs).name

    check_each(itertools.product(DTYPES, repeat=2), check)


def test_a_python_scalar_gives_way_as_in_numpy() -> None:
    def check(pair: tuple[str, complex]) -> None:
        dtype, value = pair
        expected = (np.ones(1, dtype) + value).dtype.name
        assert promote(Known(dtype, (1,)), scalar(value)) == expected
        assert promote(scalar(value), Known(dtype, (1,))) == expected

    check_each(itertools.product(DTYPES, (True, 1, 1.0, 1j)), check)


def test_functions_widen_as_in_numpy() -> None:
    def check(dtype: str) -> None:
        array = np.ones(2, dtype)
        assert as_float(dtype) == np.exp(array).dtype.name
        assert as_sum(dtype) == np.sum(array).dtype.name
        assert as_mean(dtype) == np.mean(array).dtype.name

    check_each(DTYPES, check)


def test_unknown_stays_unknown() -> None:
    assert promote(UNKNOWN, Known("int8", ())) is None
    assert as_float(None) is as_sum(None) is as_mean(None) is None
    assert elementwise(UNKNOWN, scalar(1)).shape is None


@pytest.mark.parametrize(
    ("lhs", "rhs", "expected"),
    [
        ((3, 1), (4,), (3, 4)),
        ((), (2,), (2,)),
        ((None, 4), (4,), (None, 4)),
        ((None,), (5,), (5,)),
        ((2,), (3,), None),
        (None, (3,), None),
    ],
)
def test_shapes_broadcast(
    lhs: tuple[int, ...] | None, rhs: tuple[int, ...], expected: tuple[int, ...] | None
) -> None:
    assert broadcast(lhs, rhs) == expected


def test_a_join_keeps_what_both_branches_agree_on() -> None:
    assert join(Known("int8", (2, 3)), Known("int8", (2, 5))) == Known("int8", (2, None))
    assert join(Known("int8", (2,)), Known("int16", (2, 2))) == UNKNOWN


def test_header_names_are_understood() -> None:
    assert [dtype_name(text) for text in ("<f8", ">i4", "|u1", "|b1", "float32", "<U5", "O")] == (
        ["float64", None, "uint8", "bool", "float32", None, None]
    )


def test_size_is_known_only_when_all_is() -> None:
    assert Known("float32", (10, 64)).size_bytes == 2560
    assert Known("float32", (None, 64)).size_bytes is None
    assert Known(None, (1,)).size_bytes is None


def test_three_are_joined_as_in_numpy_or_not_at_all() -> None:
    def check(several: tuple[str, ...]) -> None:
        assert join_dtypes(several) in (None, np.result_type(*several).name)

    check_each(itertools.combinations(DTYPES, 3), check)


def test_a_list_becomes_an_array_of_its_items() -> None:
    row = Known(items=(scalar(1), scalar(2.0)))

    assert as_array(Known(items=(row, row))) == Known("float64", (2, 2))
    assert as_array(Known(items=())) == Known("float64", (0,))
    assert as_array(Known(items=(row, scalar(1)))).shape is None


def test_what_may_be_a_python_number_or_not_promotes_only_where_both_do() -> None:
    either = join(Known("float64", (), weak=True), Known("float64", ()))

    assert (either.dtype, either.weak) == ("float64", None)
    assert promote(either, Known("float32", (2,))) is None
    assert promote(either, Known("float64", (2,))) == "float64"
