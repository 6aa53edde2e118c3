"""Test that an operator keeps what its ``OpDef`` declares.

Subclass ``OperatorContract``, with a parameter ``operator``; the package that adds the operators
is installed where its tests run::

    @pytest.mark.parametrize("operator", [twice, thrice], ids=lambda one: one.name)
    class TestMine(OperatorContract):
        pass
"""

from __future__ import annotations

import copy
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jobrun.compile.expressions.parse import parse_expression, parse_statement
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import Call, Expr, Name, NodeBlob
from jobrun.graph.steps import Assign, NameTarget, Perform
from jobrun.graph.traversal import rewrite_parts
from jobrun.ops.abstract_values import (
    COUNTER,
    DTYPE,
    Arguments,
    Known,
    MisfitError,
    Sequence,
    UnclearError,
    as_array,
    scalar,
)
from jobrun.ops.definition import MANY, OpDef
from jobrun.ops.operator_table import implementation
from jobrun.runtime.codegen.compiler import evaluate
from jobrun.values.kinds.counter import Counter

# Parameters of numpy's functions through which a call would reach into memory, code, or an array
# that is not its own.
FORBIDDEN_PARAMETERS = {
    "casting", "device", "func", "like", "order", "out", "overwrite_input", "subok", "where",
}  # fmt: skip


class ExampleCall(NamedTuple):
    """The call at the end of an example, with its arguments evaluated."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        """Call the tested operator with the arguments of its example; return the result."""
        return self.function(*self.args, **self.kwargs)


class OperatorContract:
    """Tests that an operator of your own passes; each takes its ``OpDef``.

    Attributes:
        sharing_examples: For operators whose result may share memory with an argument, although
            it does not in their example: an example in which it does, by the operator's name.
        sharing_by_version: Operators whose result shares memory in some versions of a library only.
    """

    sharing_examples: ClassVar[Mapping[str, str]] = {}
    sharing_by_version: ClassVar[frozenset[str]] = frozenset()

    def test_its_doc_is_one_line_without_a_full_stop(self, operator: OpDef) -> None:
        assert operator.doc
        assert "\n" not in operator.doc
        assert not operator.doc.endswith(".")

    def test_its_example_ends_with_a_call_of_it(self, operator: OpDef) -> None:
        assert prepare_example(operator.name, operator.example)

    def test_its_example_returns_as_many_results_as_declared(self, operator: OpDef) -> None:
        result = prepare_example(operator.name, operator.example)()

        if operator.results == 0:
            assert result is None
        elif operator.results == 1:
            assert result is not None
            assert not isinstance(result, list | tuple)
        elif operator.results == MANY:
            assert result is not None
        else:
            assert len(result) == operator.results

    def test_its_signature_is_that_of_its_implementation(self, operator: OpDef) -> None:
        parameters = operator.parameters
        function = implementation(operator.name)
        if isinstance(function, np.ufunc):
            assert len(parameters.positional) == parameters.unnamed == function.nin, (
                "a ufunc takes no names"
            )
            assert not parameters.named
            return
        signature = inspect.signature(function)
        by_name = {
            name: 0
            for name in parameters.keywords
            if name not in parameters.positional[: parameters.unnamed]
        }
        signature.bind(*([0] * len(parameters.positional)), **dict.fromkeys(parameters.named, 0))
        signature.bind(*([0] * parameters.unnamed), **by_name)
        by_position = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind < parameter.VAR_POSITIONAL
        ]
        for name, there in zip(parameters.positional, by_position, strict=False):
            if name in parameters.keywords:
                assert there.name == name
            if name not in parameters.required:
                assert there.default is not inspect.Parameter.empty
        for there in by_position[len(parameters.positional) :]:
            assert there.default is not inspect.Parameter.empty

    def test_no_parameter_reaches_beyond_values(self, operator: OpDef) -> None:
        parameters = operator.parameters
        assert not FORBIDDEN_PARAMETERS & {*parameters.positional, *parameters.named}

    def test_equal_arguments_give_equal_bits(self, operator: OpDef) -> None:
        first = prepare_example(operator.name, operator.example)()
        second = prepare_example(operator.name, operator.example)()

        if operator.deterministic:
            assert _bits(first) == _bits(second)

    def test_it_changes_the_arguments_that_it_declares_and_no_others(self, operator: OpDef) -> None:
        call = prepare_example(operator.name, operator.example)
        before = [_bits(argument) for argument in call.args]

        call()

        changed = tuple(
            at for at, argument in enumerate(call.args) if _bits(argument) != before[at]
        )
        assert changed == operator.mutates

    def test_it_declares_whether_its_result_may_share_memory(self, operator: OpDef) -> None:
        if operator.name in self.sharing_by_version:
            assert operator.shares_memory
            return
        example = self.sharing_examples.get(operator.name, operator.example)
        call = prepare_example(operator.name, example)

        shares = _share_memory(call(), (*call.args, *call.kwargs.values()))

        assert shares == operator.shares_memory

    def test_it_shares_memory_with_no_arguments_unless_declared(self, operator: OpDef) -> None:
        if operator.shares_memory or operator.mutates:
            return
        function = implementation(operator.name)
        parameters = operator.parameters
        for args in _many_arguments():
            if parameters.too_many(len(args)) or parameters.missing(len(args), ()):
                continue
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    result = function(*args)
                except Exception:  # noqa: BLE001, S112 - most arguments do not fit
                    continue
            assert not _share_memory(result, args), args

    def test_its_rule_predicts_dtype_and_shape_of_its_example(self, operator: OpDef) -> None:
        if operator.rule is None:
            return
        call = prepare_example(operator.name, operator.example)
        names = operator.parameters.positional
        by_name = dict(zip(names, map(describe_value, call.args), strict=False))
        by_name |= {name: describe_value(argument) for name, argument in call.kwargs.items()}
        unnamed = tuple(describe_value(argument) for argument in call.args[len(names) :])
        try:
            predicted = operator.rule(Arguments(by_name, unnamed))
        except UnclearError:
            return
        except MisfitError as error:
            raise AssertionError(f"the rule refuses the example: {error.message}") from error
        _compare(predicted, call())


def prepare_example(name: str, example: str) -> ExampleCall:
    """Evaluate an operator's example but for its last statement, whose call is to be tested.

    Args:
        name: The operator's.
        example: Statements of the expression language, joined by ``"; "``.

    Raises:
        SpecError: The example is not of the expression language.
        AssertionError: Its last statement does not call the operator.
    """
    blobs: dict[str, Any] = {}
    *before, last = example.split("; ")
    for text in before:
        op = parse_statement(text, NOWHERE, "", {})
        if isinstance(op, Assign) and isinstance(op.targets[0], NameTarget):
            blobs[op.targets[0].name] = _evaluate(op.value, blobs)
        elif isinstance(op, Perform):
            _evaluate(op.value, blobs)
    call = parse_expression(last, NOWHERE, "", {})
    if not isinstance(call, Call) or call.function != name:
        raise AssertionError(f"the last statement of the example, {last}, does not call {name}")
    args = tuple(_evaluate(argument, blobs) for argument in call.args)
    kwargs = {key: _evaluate(argument, blobs) for key, argument in call.kwargs}
    return ExampleCall(implementation(name), args, kwargs)


def describe_value(value: Any) -> Known:
    """Describe a value in an operator's tested example as the compiler would: dtype and shape."""
    if isinstance(value, np.ndarray | np.generic):
        return Known(value.dtype.name, value.shape)
    if isinstance(value, type):
        return Known(DTYPE, (), np.dtype(value).name)
    if isinstance(value, list | tuple):
        sequence: Sequence = "list" if isinstance(value, list) else "tuple"
        return Known(items=tuple(map(describe_value, value)), sequence=sequence)
    return Known(COUNTER, ()) if isinstance(value, Counter) else scalar(value)


def _compare(predicted: Known | tuple[Known, ...], value: Any) -> None:
    if isinstance(predicted, tuple):
        assert len(predicted) == len(value)
        for predicted_part, part in zip(predicted, value, strict=True):
            _compare(predicted_part, part)
        return
    actual = as_array(describe_value(value))
    assert value is None or predicted.dtype in (None, actual.dtype)
    if predicted.shape is not None and actual.shape is not None:
        assert len(predicted.shape) == len(actual.shape)
        for length, real in zip(predicted.shape, actual.shape, strict=True):
            assert length in (None, real), (predicted.shape, actual.shape)


def _evaluate(expr: Expr, blobs: dict[str, Any]) -> Any:
    """Evaluate an expression in the example by which an operator is tested."""
    whole = rewrite_parts(expr, Name, lambda name: NodeBlob("", name.name))
    return evaluate(whole, lambda blob: blobs[blob.name] if isinstance(blob, NodeBlob) else None)


def _many_arguments() -> Iterator[tuple[Any, ...]]:
    arrays = [
        np.arange(3.0), np.arange(3), np.array([True, False]), np.array(1.5), np.array(2),
        np.eye(2), np.zeros((0, 2)), np.zeros((1, 3)), np.ones((2, 2), complex), np.zeros(1),
    ]  # fmt: skip
    for array in arrays:
        yield (array,)
    for array, second in itertools.product(arrays, (0, 1, 2, 1.0, (), None, (2, 2))):
        yield (array, second)
        yield (second, array)
    yield from itertools.product(arrays, arrays)
    for array in arrays:
        yield (array, array, array)
        yield (array, None, None)


def _share_memory(result: Any, arguments: tuple[Any, ...]) -> bool:
    return any(
        array is argument or np.shares_memory(array, argument)
        for array in _arrays(result)
        for argument in _arrays(arguments)
    )


def _arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, tuple | list):
        return [array for item in value for array in _arrays(item)]
    return []


def _bits(value: Any) -> Any:
    """Return type, dtype, shape and bytes of an operator's result, to compare it in tests."""
    if isinstance(value, Counter):
        return value.value
    if isinstance(value, tuple | list):
        return [_bits(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return (type(value), value.dtype.str, value.shape, value.tobytes())
    return (type(value), copy.copy(value))
