from __future__ import annotations

import itertools

import numpy as np
import pytest

from jobrun.checkpoint.hdf5.value_digest import bytes_between, digest_value, dtype_words, is_bare
from jobrun.values.copies import detach
from tests.support.checkpoints import VALUES
from tests.support.tables import each_case

DTYPES = [
    np.dtype(dtype)
    for dtype in (
        "f8", ">f8", "f4", "i8", "q", "M8[s]", "M8[ms]", "m8[s]", "U2", "S8", "V8", "g", "?",
        [("a", "i4")], [("b", "i4")], [("a", ">i4")], [(("t", "a"), "i4")], [("a", "i4", (2,))],
        (np.record, [("a", "i4")]), {"names": ["a"], "formats": ["i4"], "offsets": [4]},
    )
] + [
    np.dtype([("a", "i4")], align=True),
    np.dtype("f8", metadata={"unit": "m"}),
    np.dtype("f8", metadata={"unit": "km"}),
    np.dtype([("a", np.dtype("i4", metadata={"unit": "m"}))]),
]  # fmt: skip


def test_dtypes_that_differ_have_different_words():
    words = [dtype_words(dtype) for dtype in DTYPES]

    assert all(first != second for first, second in itertools.combinations(words, 2))


def test_metadata_in_another_order_are_the_same():
    first, second = {"enum": {"a": 1, "b": 2}, "x": 0}, {"x": 0, "enum": {"b": 2, "a": 1}}

    assert dtype_words(np.dtype("i8", metadata=first)) == dtype_words(
        np.dtype("i8", metadata=second)
    )


@pytest.mark.parametrize("name", VALUES)
def test_copy_of_a_value_has_its_digest(name):
    assert digest_value(detach(VALUES[name])) == digest_value(VALUES[name])


def test_values_that_differ_have_other_digests():
    digests = [digest_value(value) for value in VALUES.values()]

    assert len(set(digests)) == len(digests)


@each_case(
    ("first", "second"),
    [
        (0.0, -0.0), (1, 1.0), (1, True), (np.int64(1), 1), ("a", np.str_("a")), ("a", "a\0"),
        (np.bytes_(b"a"), np.bytes_(b"a\0")), (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((2, 3)), np.zeros((3, 2))), (np.zeros((2, 3)), np.zeros((2, 3), order="F")),
        (np.array([np.nan]), np.array([0x7FF8DEADBEEF0001]).view("f8")),
        (np.array(["2020"], "M8[Y]"), np.array(["2020"], "M8[Y]").astype("M8[D]")),
        (np.arange(3), np.arange(3, dtype=">i8")), (np.zeros(0), np.zeros((0, 1))),
    ],
)  # fmt: skip
def test_values_equal_only_in_numpy_have_different_digests(first, second):
    assert digest_value(first) != digest_value(second)


def test_padding_and_gaps_between_items_do_not_count():
    record = np.zeros(3, np.dtype([("n", "i1"), ("x", "f8")], align=True))
    padded = record.copy()
    padded.view(np.uint8)[1::16] = 7
    long = np.arange(3, dtype=np.longdouble)
    other = long.copy()
    other.view(np.uint8).reshape(3, 16)[:, 12] = 9

    assert digest_value(padded) == digest_value(record)
    assert digest_value(other) == digest_value(long)
    assert digest_value(np.arange(10)[::2]) == digest_value(np.arange(10)[::2].copy())


@pytest.mark.parametrize("array", [np.arange(12.0).reshape(3, 4), np.arange(24.0)[::2]])
def test_bytes_between_are_those_in_c_order(array):
    data = array.tobytes()

    for begin, end in ((0, 96), (3, 29), (8, 16), (90, 96)):
        assert bytes_between(array, begin, end).tobytes() == data[begin:end]


def test_only_plain_numbers_need_no_digest_of_their_own():
    assert is_bare("array", np.dtype(">f8"), (), packed=False)
    assert not is_bare("array", np.dtype("f8"), (), packed=True)
    assert not is_bare("array", np.dtype("f8"), (1, 0), packed=False)
    assert not is_bare("numpy", np.dtype("f8"), (), packed=False)
    assert [dtype.str for dtype in DTYPES if is_bare("array", dtype, (), packed=False)] == [
        "<f8", ">f8", "<f4", "<i8", "<i8", "<M8[s]", "<M8[ms]", "<m8[s]", "|b1",
    ]  # fmt: skip
