"""What is said of an index is what numpy gives, for every mixture of its forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.compile.types.expressions import infer_expression
from jobrun.compile.types.subscripts import infer_index
from jobrun.graph.expressions import Const, Index, Name, Sequence, Slice
from jobrun.ops.abstract_values import Known, MisfitError, UnclearError, scalar
from tests.support.sampling import LONG, QUICK, agree, known_of

_NUMBERS = st.one_of(st.none(), st.integers(-4, 4))
_ITEMS = st.one_of(
    st.integers(-4, 4),
    st.builds(slice, _NUMBERS, _NUMBERS, st.sampled_from((None, 1, 2, -1))),
    st.just(None),
    st.just(...),
    st.sampled_from(
        (
            np.array([0, 1]),
            np.array([[0], [1]]),
            np.array([0]),
            np.array([], np.int64),
            np.array([True, False]),
            np.array([True, True, False]),
            np.ones((2, 3), bool),
            np.array(1),
            np.int32(0),
            1.5,
            np.array([0.0]),
        )
    ),
)
_SHAPES = st.lists(st.sampled_from((0, 1, 2, 3)), max_size=4).map(tuple)


def _part(item, names):
    if item is ...:
        return Const(None, ellipsis=True)
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return Slice(*(None if bound is None else Const(bound) for bound in bounds))
    if isinstance(item, np.ndarray | np.generic):
        name = f"i{len(names)}"
        names[name] = known_of(item)
        return Name(name)
    return Const(item)


def _agrees(shape, items):
    array = np.zeros(shape, np.float32)
    names = {}
    index = Sequence(tuple(_part(item, names) for item in items))
    try:
        inferred = infer_index(known_of(array), index, lambda part: infer_expression(part, names))
    except MisfitError as error:
        inferred = error
    except UnclearError:
        inferred = None
    try:
        done = array[tuple(items)]
    except (IndexError, ValueError, TypeError) as error:
        done = error

    assert list(agree(inferred, done)) == []


@QUICK
@given(_SHAPES, st.lists(_ITEMS, max_size=4))
def test_an_index_of_any_mixture(shape, items):
    _agrees(shape, items)


@pytest.mark.long
@pytest.mark.timeout(900)
@LONG
@given(st.data())
def test_indices_at_length(data):
    for _ in range(30):
        _agrees(data.draw(_SHAPES), data.draw(st.lists(_ITEMS, max_size=4)))


@pytest.mark.parametrize(
    ("shape", "index", "part"),
    [
        ((3,), Const(3), "index 3 is out of range"),
        ((3,), Const(1.5), "cannot be float64"),
        ((3,), Sequence((Const(0), Const(0))), "2 indices are too many"),
        ((), Const(0), "a scalar cannot be indexed"),
    ],
)
def test_items_that_are_not_there_are_reported(shape, index, part):
    with pytest.raises(MisfitError, match=part):
        infer_index(Known("float64", shape), index, lambda expression: scalar(expression.value))


def test_an_item_of_a_shape_is_a_number():
    shape = Known(items=(scalar(4), scalar(3)), sequence="tuple")

    assert infer_index(shape, Const(-1), lambda part: scalar(part.value)) == scalar(3)


def test_of_a_value_without_a_shape_nothing_is_known():
    assert infer_expression(Index(Name("x"), Const(0)), {"x": Known("float64")}) == Known()


@pytest.mark.parametrize(
    "items",
    [
        (np.array([0, 1]), slice(None), np.array([[0], [1], [0]])),
        (0, slice(None), np.array([0, 1])),
        (slice(None), np.array([0, 1]), np.array([[0], [1]])),
        (..., np.array([0, 1]), None, 0),
        (None, np.array([True, False]), ..., np.array([0])),
        (slice(1, None), 0, slice(None, None, -1)),
        (np.ones((2, 3), bool), ...),
    ],
    ids=str,
)
def test_axes_of_index_arrays_are_where_numpy_puts_them(items):
    _agrees((2, 3, 4, 5), items)
