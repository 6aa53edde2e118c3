from __future__ import annotations

import struct

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.values.blob_kinds import check_storable, kind_of, require_storable, size_bytes
from jobrun.values.compare import same_bits
from jobrun.values.copies import boundary_form, detach
from jobrun.values.kinds.counter import Counter
from tests.support.tables import each_case

RECORD = np.dtype([("a", "<i4"), ("b", ">f8")], align=True)
NAN_1, NAN_2 = (struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000000 + n))[0] for n in (1, 2))
VALUES = [
    True, 3, -0.0, 2.5, 1j, "text", np.float32(1.5), np.bool_(True), np.str_("u"),
    np.datetime64("2020-01-01"), np.array(3.0), np.arange(6).reshape(2, 3),
    np.arange(6, dtype=">i2"), np.array(["a", "bc"]), np.zeros(2, RECORD), np.zeros(2, RECORD)[0],
    np.empty((0, 3), np.float16), np.array([1, 2], np.longdouble), Counter(4),
]  # fmt: skip


@each_case("value", VALUES)
def test_a_detached_value_has_the_same_bits(value):
    copy = detach(value)

    assert type(copy) is type(value)
    assert same_bits(copy, value)


@each_case("value", VALUES)
def test_boundary_form_has_the_same_bits(value):
    assert same_bits(boundary_form(value), value)


@each_case(
    ("value", "kind"),
    [
        (True, "bool"), (1, "int"), (1.0, "float"), (1j, "complex"), ("a", "text"),
        (np.float64(1), "numpy"), (np.str_("a"), "numpy"), (np.zeros(2, RECORD)[0], "numpy"),
        (np.array(1), "array"), (Counter(), "counter"), (None, None), ([1], None), ({}, None),
        (np.array([None]), None), (np.ma.zeros(2), None), (b"a", None), (object(), None),
    ],
)  # fmt: skip
def test_kinds(value, kind):
    assert kind_of(value) == kind


def test_a_copy_keeps_the_order_of_the_axes():
    array = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)

    copy = detach(array)

    assert copy.strides == array.strides
    assert not np.shares_memory(copy, array)


def test_a_record_out_of_an_array_is_detached_from_it():
    table = np.zeros(2, RECORD)
    row = detach(table[0])

    table["a"] = 7

    assert row["a"] == 0


def test_a_detached_counter_counts_by_itself():
    counter = Counter(3)
    copy = detach(counter)

    counter.up()

    assert copy.value == 3


def test_a_list_is_detached_item_by_item():
    items = [np.zeros(2), 1.0]
    copy = detach(items)

    items[0][0] = 5

    assert copy[0][0] == 0


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.arange(6.0)[::2],
        np.broadcast_to(np.arange(3.0), (2, 3)),
        np.frombuffer(bytes(17), np.uint8)[1:].view(np.float64),
    ],
    ids=["transposed", "strided", "broadcast", "unaligned"],
)
def test_boundary_form_is_dense_aligned_owning_and_writable(array):
    layout = boundary_form(array)

    assert layout.strides == array.copy(order="K").strides
    assert layout.flags.aligned
    assert layout.flags.owndata
    assert layout.flags.writeable
    assert same_bits(layout, array)


def test_an_array_in_boundary_form_is_not_copied():
    array = np.arange(3.0)

    assert boundary_form(array) is array


@each_case(
    ("first", "second"),
    [
        (0.0, -0.0),
        (np.array([0.0]), np.array([-0.0])),
        (NAN_1, NAN_2),
        (np.array([NAN_1]), np.array([NAN_2])),
        (1, True),
        (1, 1.0),
        (1.0, np.float64(1.0)),
        (np.float64(1.0), np.array(1.0)),
        (np.zeros(2, "<f8"), np.zeros(2, ">f8")),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        ("a", np.str_("a")),
        (Counter(1), Counter(2)),
        (Counter(1), 1),
        (complex(0.0, -0.0), 0j),
        ([1], [1, 2]),
        (None, 0),
    ],
)
def test_what_differs_in_kind_dtype_shape_or_bits_is_not_the_same(first, second):
    assert not same_bits(first, second)


def test_equal_nan_payloads_are_the_same():
    assert same_bits(NAN_2, NAN_2)
    assert same_bits(np.array([NAN_2]), np.array([NAN_2]))


def test_memory_order_and_padding_do_not_count():
    first = np.zeros(2, RECORD)
    second = np.frombuffer(bytearray(b"\xff" * first.nbytes), RECORD).copy()
    second["a"], second["b"] = 0, 0

    assert same_bits(first, second)
    assert same_bits(np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)))


@pytest.mark.parametrize("path", [0, 1 << 20, (3 << 20) - 1])
@pytest.mark.parametrize(
    "view",
    [
        lambda value: value,
        lambda value: value.reshape(3, -1).T,
        lambda value: value.reshape(1, 2, -1)[..., ::2],
    ],
)
def test_large_arrays_differ_by_one_bit_wherever_it_is(view, path):
    first = np.arange(3 << 20, dtype=np.uint8)
    second = first.copy()

    assert same_bits(view(first), view(second.copy()))
    second[path - path % 2] ^= 1
    assert not same_bits(view(first), view(second))


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({1: {2: memoryview(b"")}}, "class memoryview"),
        (np.array([1, None]), "array of Python objects"),
        (np.ma.zeros(2), "MaskedArray"),
    ],
)
def test_what_no_blob_can_hold_is_refused_with_the_blob_and_the_mend(value, part):
    with pytest.raises(TaskFailedError) as caught:
        require_storable(value, "w")

    fault = caught.value.faults[0]
    assert fault.code == "E202"
    assert "'w'" in fault.message
    assert part in fault.message
    assert fault.mend
    assert check_storable(1, "w") is None


def test_sizes_are_in_bytes():
    assert size_bytes([np.zeros(3), 1, "a"]) == 24 + 8 + 8


def test_of_a_long_double_in_the_other_byte_order_the_number_counts_and_nothing_else():
    other = np.array([1.0, 2.5], np.longdouble).astype(np.dtype(np.longdouble).newbyteorder())
    padded, changed = other.copy(), other.copy()
    width = other.dtype.itemsize
    unused = width - 10 if np.finfo(np.longdouble).nmant == 63 else 0
    padded.view(np.uint8).reshape(2, width)[:, :unused] ^= 0xFF
    changed.view(np.uint8).reshape(2, width)[1, -1] ^= 0x01

    assert same_bits(other, padded)
    assert not same_bits(other, changed)
