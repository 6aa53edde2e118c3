"""What every operator in the table promises, checked on its example and on arrays of many forms."""

from __future__ import annotations

import copy
import inspect
import itertools
import warnings
from typing import Any

import numpy as np

from jobrun.blobs.counter import Counter
from jobrun.graph.expr import Call
from jobrun.ops.definition import MANY, OpDef
from jobrun.ops.load import implementation
from tests.support.expressions import expression, prepared, run_line

# Calls whose result is, or is a view of, an argument, where the example shows none.
SHARING = {
    "diff": "a = arange(3); diff(a, 0)",
    "fft2": "a = array(1.5); fft2(a, None, None)",
    "ifft2": "a = array(1.5); ifft2(a, None, None)",
    "real": "a = ones(2); real(a)",
    "imag": "a = 1j * ones(2); imag(a)",
    "einsum": "a = eye(2); einsum('ij->ji', a)",
    "matrix_power": "a = eye(2); matrix_power(a, 1)",
    "histogram": "a = linspace(0.0, 1.0, 3); histogram([0.5], a)",
    "histogram2d": "a = linspace(0.0, 1.0, 3); histogram2d([0.5], [0.5], a)",
}
# Of whole numbers some versions of numpy give back the very array.
DIFFERS = {"round"}
# Arguments that reach into memory, into code, or into another's array.
NEVER = {"out", "where", "like", "subok", "overwrite_input", "func", "casting", "device", "order"}


class OperatorContract:
    """Subclass it with a parametrized ``operator``."""

    def test_it_says_what_it_does(self, operator: OpDef):
        assert operator.doc
        assert "\n" not in operator.doc
        assert not operator.doc.endswith(".")

    def test_its_example_calls_it(self, operator: OpDef):
        last = operator.example.split("; ")[-1]
        call = expression(last)
        assert isinstance(call, Call)
        assert call.function == operator.name

    def test_its_example_runs_and_has_as_many_results_as_it_says(self, operator: OpDef):
        result, _, _ = run_line(operator.example)

        if operator.results == 0:
            assert result is None
        elif operator.results == 1:
            assert result is not None
            assert not isinstance(result, list | tuple)
        elif operator.results == MANY:
            assert result is not None
        else:
            assert len(result) == operator.results

    def test_its_signature_is_that_of_what_computes_it(self, operator: OpDef):
        own = operator.parameters
        function: Any = implementation(operator.name)
        if isinstance(function, np.ufunc):
            assert len(own.positional) == own.unnamed == function.nin
            assert not own.named
            return
        there = list(inspect.signature(function).parameters.values())
        by_name = {one.name: one for one in there}
        takes_any = any(one.kind is one.VAR_POSITIONAL for one in there)
        by_position = [one for one in there if one.kind < one.VAR_POSITIONAL]
        for position, name in enumerate(own.positional):
            assert position < len(by_position) or takes_any
            if name in own.keywords and position < len(by_position):
                assert by_position[position].name == name
            if name not in own.required and position < len(by_position):
                assert by_position[position].default is not inspect.Parameter.empty
        for name in own.named:
            assert by_name[name].kind is not inspect.Parameter.POSITIONAL_ONLY
        for one in by_position[len(own.positional) :]:
            assert one.default is not inspect.Parameter.empty

    def test_no_argument_reaches_further_than_values(self, operator: OpDef):
        own = operator.parameters
        assert not NEVER & {*own.positional, *own.named}

    def test_it_says_whether_its_result_may_share_memory(self, operator: OpDef):
        if operator.name in DIFFERS:
            return
        line = SHARING.get(operator.name, operator.example)
        result, args, kwargs = run_line(line)

        assert _shares(result, (*args, *kwargs.values())) == operator.shares_memory

    def test_it_shares_no_memory_whatever_its_arguments(self, operator: OpDef):
        if operator.shares_memory or operator.mutates:
            return
        function = implementation(operator.name)
        own = operator.parameters
        for args in _many_arguments():
            if own.too_many(len(args)) or own.missing(len(args), ()):
                continue
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    result = function(*args)
                except Exception:  # noqa: BLE001 - most do not fit, which is not the question
                    continue
            assert not _shares(result, args), args

    def test_equal_arguments_give_equal_bits(self, operator: OpDef):
        assert operator.deterministic

        first, _, _ = run_line(operator.example)
        second, _, _ = run_line(operator.example)

        assert _bits(first) == _bits(second)

    def test_it_changes_the_arguments_it_says_and_no_others(self, operator: OpDef):
        function, args, kwargs = prepared(operator.example)
        before = [_bits(arg) for arg in args]

        function(*args, **kwargs)

        changed = tuple(at for at, arg in enumerate(args) if _bits(arg) != before[at])
        assert changed == operator.mutates


def _many_arguments():
    arrays = [
        np.arange(3.0), np.arange(3), np.array([True, False]), np.array(1.5), np.array(2),
        np.eye(2), np.zeros((0, 2)), np.zeros((1, 3)), np.ones((2, 2), complex), np.zeros(1),
    ]  # fmt: skip
    for array in arrays:
        yield (array,)
    for array, second in itertools.product(arrays, (0, 1, 2, 1.0, (), None, (2, 2))):
        yield (array, second)
        yield (second, array)
    for array, second in itertools.product(arrays, arrays):
        yield (array, second)
    for array in arrays:
        yield (array, array, array)
        yield (array, None, None)


def _shares(result: Any, arguments: tuple[Any, ...]) -> bool:
    results = _flat(result)
    return any(
        one is other or np.shares_memory(one, other)
        for one in results
        for other in _flat(arguments)
    )


def _flat(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, tuple | list):
        return [array for item in value for array in _flat(item)]
    return []


def _bits(value: Any) -> Any:
    """Kind, dtype, shape and bytes."""
    if isinstance(value, Counter):
        return value.value
    if isinstance(value, tuple | list):
        return [_bits(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return (type(value), value.dtype.str, value.shape, value.tobytes())
    return (type(value), copy.copy(value))
