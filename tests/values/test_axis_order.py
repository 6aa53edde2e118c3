"""The axis order of arrays: what numpy's own copies keep is what is read, and given again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.values.axis_order import (
    axis_order,
    dense_copy,
    dense_strides,
    empty_in_order,
    flat_view,
    has_gaps,
    is_dense,
    view_in_order,
)

STEPS = (slice(None), slice(None, None, -1), slice(None, None, 2), slice(0, 1), slice(0, 0))


@st.composite
def views(draw):
    """Any view of an array: transposed, strided, reversed, broadcast, with axes of length 1."""
    shape = draw(st.lists(st.sampled_from((1, 1, 2, 3, 4)), min_size=1, max_size=5))
    whole = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    turned = whole.transpose(draw(st.permutations(range(len(shape)))))
    view = turned[tuple(draw(st.sampled_from(STEPS)) for _ in shape)]
    repeats = draw(st.sampled_from((0, 1, 3)))
    return np.broadcast_to(view, (repeats, *view.shape)) if repeats else view


@given(views())
def test_the_order_is_that_of_numpys_own_copy(view):
    copy, expected = dense_copy(view), view.copy(order="K")

    assert np.array_equal(copy, view)
    assert axis_order(copy) == axis_order(view) == axis_order(expected)
    for axis in range(view.ndim):
        assert view.shape[axis] < 2 or copy.strides[axis] == expected.strides[axis]


@pytest.mark.long
@given(views())
def test_a_copy_owns_dense_memory_and_is_not_copied_again(view):
    copy = dense_copy(view)

    assert copy.flags.owndata
    assert copy.flags.behaved
    assert is_dense(copy)
    assert not has_gaps(copy.shape, copy.strides, copy.itemsize)


@given(views())
def test_memory_of_an_order_is_made_and_seen_again(view):
    copy, order = dense_copy(view), axis_order(view)
    created = empty_in_order(view.shape, view.dtype, order)
    seen = view_in_order(flat_view(copy, order), view.shape, order)

    assert created.strides == copy.strides == dense_strides(view.shape, 4, order)
    assert np.array_equal(seen, view)
    assert not view.size or np.shares_memory(seen, copy)


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3,), (), (1, 1, 1), (0, 3), (1, 0)])
def test_arrays_that_are_c_and_fortran_ordered_at_once_are_c_ordered(shape):
    array = np.zeros(shape, order="F")

    assert axis_order(array) == ()
    assert dense_copy(array).strides == np.zeros(shape).strides
    assert not has_gaps(array.shape, array.strides, array.itemsize)
