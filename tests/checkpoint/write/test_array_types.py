"""When the arrays of a state count as those of the save before: what must not be another."""

from __future__ import annotations

import numpy as np

from jobrun.checkpoint.write.array_types import ArrayTypes
from jobrun.values.blob_kinds import size_bytes
from tests.support.tables import each_case

TITLED = np.dtype([(("title", "a"), "i4")])
PLAIN = np.dtype([("a", "i4")])


def state(**changes):
    values = {
        "w": np.arange(6.0).reshape(2, 3),
        "v": np.arange(4),
        "r": np.zeros(2, PLAIN),
        "k": 1,
        "s": np.float32(2),
        "t": "text",
    }
    return values | changes


def test_other_items_in_other_arrays_have_the_same_forms():
    values = state()
    other = state(w=np.ones((2, 3)), v=np.ones(4, np.int64), k=7, t="other", s=np.float32(1))

    assert ArrayTypes(values).fits(other)


@each_case(
    "changes",
    [
        {"w": np.zeros((3, 2))}, {"w": np.zeros((2, 3), np.float32)},
        {"w": np.asfortranarray(np.zeros((2, 3)))},
        {"v": np.arange(5)}, {"v": np.arange(4).reshape(2, 2)}, {"v": [1]}, {"k": 1.0},
        {"k": np.arange(1)}, {"r": np.zeros(2, TITLED)}, {"more": 1},
        {"v": np.zeros(4, np.dtype(np.int64, metadata={"a": 1}))},
    ],
)  # fmt: skip
def test_another_type_dtype_shape_or_axis_order_is_another_form(changes):
    assert not ArrayTypes(state()).fits(state(**changes))


def test_other_names_or_another_order_of_them_are_another_form():
    values = state()

    assert not ArrayTypes(values).fits(dict(reversed(values.items())))
    assert not ArrayTypes(values).fits({f"{name}_": value for name, value in values.items()})


def test_the_shape_of_an_array_that_was_changed_in_place_is_seen():
    values = state()
    types = ArrayTypes(values)
    values["v"].resize((2, 2), refcheck=False)

    assert not types.fits(values)


def test_the_size_is_that_of_arrays_and_of_all_else():
    values = state()

    assert ArrayTypes(values).size_bytes(values) == size_bytes(list(values.values()))
