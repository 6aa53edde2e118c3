"""Draw real arguments for operators, and compare what a rule says of them with numpy."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from jobrun.ops.abstract_values import (
    COUNTER,
    DTYPE,
    Arguments,
    Known,
    MisfitError,
    UnclearError,
    as_array,
    scalar,
)
from jobrun.ops.definition import OpDef, kind, wrong_kind
from jobrun.ops.operator_table import implementation
from jobrun.values.kinds.counter import Counter
from tests.support.thinning import examples

QUICK = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=examples(40))
_DTYPES_TEXT = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
    "complex64 complex128"
)
DTYPES = tuple(_DTYPES_TEXT.split())
_LENGTHS = st.sampled_from((0, 1, 1, 2, 2, 3, 3, 4))
SHAPES = st.lists(_LENGTHS, max_size=3).map(tuple)
_SCALARS = st.sampled_from((True, 0, 1, 3, -1, 1.5, 2.0, 1j))
_SMALL = st.integers(-3, 5)


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Draw an array of any dtype and a small shape, or a Python or numpy scalar."""
    if draw(st.integers(0, 5)) == 0:
        return draw(_SCALARS)
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(SHAPES)
    array = (np.arange(int(np.prod(shape))) % 3).astype(dtype).reshape(shape)
    return array[()] if shape == () and draw(st.booleans()) else array


_AXES = st.one_of(_SMALL, _SMALL, st.tuples(_SMALL), st.tuples(_SMALL, _SMALL), st.none())
_BY_KIND: dict[str, st.SearchStrategy[Any]] = {
    "array": arrays(),
    "array or text": st.one_of(arrays(), st.just("text")),
    "arrays": st.lists(arrays(), min_size=1, max_size=3),
    "int": _SMALL,
    "number": st.sampled_from((None, 1, 2, np.inf)),
    "bool": st.booleans(),
    "axis": _AXES,
    "shape": st.one_of(_SMALL, st.lists(_SMALL, max_size=3).map(tuple)),
    "dtype": st.sampled_from([getattr(np, "bool_" if name == "bool" else name) for name in DTYPES]),
    "text": st.sampled_from(("full", "valid", "same", "left", "stable")),
    "word": st.sampled_from(("full", "valid", "same", "left", "ortho", "linear", "constant")),
    "counter": st.just(0).map(Counter),
}


@st.composite
def calls(draw: st.DrawFn, operator: OpDef) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Draw arguments by parameter, most of them of the kind that it takes."""
    arguments: dict[str, Any] = {}
    signature = operator.parameters
    for name in (*signature.positional, *signature.named):
        if name not in signature.required and draw(st.integers(0, 2)):
            continue
        wanted = kind(operator.name, name)
        if draw(st.integers(0, 9)) == 0:
            wanted = draw(st.sampled_from(("array", "int", "text", "arrays")))
        arguments[name] = draw(_BY_KIND[wanted])
    unnamed = tuple(draw(st.lists(arrays(), max_size=2))) if signature.variadic else ()
    return arguments, unnamed


def known_of(value: Any) -> Known:
    """Return everything that can be known of a value."""
    if isinstance(value, np.ndarray | np.generic):
        return Known(value.dtype.name, value.shape)
    if isinstance(value, type):
        return Known(DTYPE, (), np.dtype(value).name)
    if isinstance(value, list | tuple):
        return Known(items=tuple(map(known_of, value)))
    return Known(COUNTER, ()) if isinstance(value, Counter) else scalar(value)


def predict(operator: OpDef, arguments: dict[str, Any], unnamed: tuple[Any, ...]) -> Any:
    """Return what the rule says: a value's form, None where it is unclear, or the misfit."""
    known = {name: known_of(value) for name, value in arguments.items()}
    for name, known_argument in known.items():
        if (wrong := wrong_kind(operator.name, name, known_argument)) is not None:
            return wrong
    if operator.rule is None:
        return None
    try:
        return operator.rule(Arguments(known, tuple(map(known_of, unnamed))))
    except MisfitError as error:
        return error
    except UnclearError:
        return None


def done(operator: OpDef, arguments: dict[str, Any], unnamed: tuple[Any, ...]) -> Any:
    """Return what numpy makes of it, or the exception that it raises."""
    function = implementation(operator.name)
    positional = list(operator.parameters.positional)
    while positional and positional[-1] not in arguments:
        positional.pop()
    by_position = list(itertools.takewhile(lambda name: name in arguments, positional))
    named = {name: value for name, value in arguments.items() if name not in by_position}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*(arguments[name] for name in by_position), *unnamed, **named)
        except Exception as error:  # noqa: BLE001 - what it raises is the answer
            return error


def agree(predicted: Any, value: Any) -> Iterator[str]:
    """Return what is wrong with what was said of a value."""
    if isinstance(predicted, MisfitError) or not isinstance(predicted, Known | tuple):
        if predicted is not None and not isinstance(value, Exception):
            yield f"said {predicted}, and numpy gives {value!r}"
        return
    if isinstance(value, Exception) or predicted is None:
        return
    if isinstance(predicted, tuple):
        if len(predicted) != len(value):
            yield f"said {len(predicted)} values, and there are {len(value)}"
            return
        for predicted_part, part in zip(predicted, value, strict=True):
            yield from agree(predicted_part, part)
        return
    yield from _same(predicted, value)


def _same(predicted: Known, value: Any) -> Iterator[str]:
    actual = known_of(value)
    if isinstance(value, list | tuple):
        actual = as_array(actual)
    if predicted.items is not None:
        return
    if predicted.dtype not in (None, actual.dtype):
        yield f"said {predicted.dtype}, and it is {actual.dtype}"
    if predicted.shape is not None and actual.shape is not None:
        alike = len(predicted.shape) == len(actual.shape) and all(
            predicted_length in (None, length)
            for predicted_length, length in zip(predicted.shape, actual.shape, strict=True)
        )
        if not alike:
            yield f"said {predicted.shape}, and it is {actual.shape}"
    if predicted.weak and not actual.weak and actual.dtype is not None:
        yield f"said a Python number, and it is {type(value)}"
    if (
        predicted.value is not None
        and not isinstance(value, np.ndarray)
        and predicted.value != value
    ):
        yield f"said {predicted.value!r}, and it is {value!r}"
