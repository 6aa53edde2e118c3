"""The contract of an operator, as a class of tests. Not the operators themselves.

A package that adds operators subclasses it, and is installed where its tests run.

Needs no test framework but one that calls methods named ``test_…`` with an argument
``operator``; with pytest::

    @pytest.mark.parametrize("operator", [twice, thrice], ids=lambda one: one.name)
    class TestMine(OperatorContract):
        pass
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jobrun.blobs.counter import Counter
from jobrun.compile.expressions import parse_expression, parse_statement
from jobrun.graph.expr import Call, Expr, Name, NodeBlob
from jobrun.graph.rewrite import rewritten
from jobrun.graph.steps import NOWHERE, Assign, NameTarget, Perform
from jobrun.ops.arguments import Arguments, MisfitError, UnclearError
from jobrun.ops.definition import MANY, OpDef
from jobrun.ops.known import COUNTER, DTYPE, Known, as_array, scalar
from jobrun.ops.load import implementation
from jobrun.runtime.evaluate import evaluate


class Prepared(NamedTuple):
    """The call that ends an example, ready to be made."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        """Make it."""
        return self.function(*self.args, **self.kwargs)


def prepared(operator: OpDef) -> Prepared:
    """Run all but the last statement of the operator's example.

    Raises:
        SpecError: It is not of the expression language.
        AssertionError: Its last part does not call the operator.
    """
    names: dict[str, Any] = {}
    *before, last = operator.example.split("; ")
    for text in before:
        op = parse_statement(text, NOWHERE, "", {})
        if isinstance(op, Assign) and isinstance(op.targets[0], NameTarget):
            names[op.targets[0].name] = _value(op.value, names)
        elif isinstance(op, Perform):
            _value(op.value, names)
    call = parse_expression(last, NOWHERE, "", {})
    if not isinstance(call, Call) or call.function != operator.name:
        raise AssertionError(f"the last part of the example, {last}, is no call of {operator.name}")
    args = tuple(_value(one, names) for one in call.args)
    kwargs = {name: _value(one, names) for name, one in call.kwargs}
    return Prepared(_function(operator), args, kwargs)


class OperatorContract:
    """What every operator promises. Each method takes the ``OpDef``."""

    def test_it_says_in_one_line_what_it_does(self, operator: OpDef) -> None:
        """``doc`` is a phrase: one line, no full stop."""
        _require(bool(operator.doc) and "\n" not in operator.doc, "doc is not one line")
        _require(not operator.doc.endswith("."), "doc ends with a full stop")

    def test_its_example_gives_as_many_results_as_it_says(self, operator: OpDef) -> None:
        """``results`` is what the example's call returns."""
        result = prepared(operator)()

        if operator.results == 0:
            _require(result is None, f"it says that it gives nothing, and gives {result!r}")
        elif operator.results == 1:
            single = result is not None and not isinstance(result, list | tuple)
            _require(single, f"it says that it gives one value, and gives {result!r}")
        elif operator.results != MANY:
            count = len(result)
            _require(count == operator.results, f"it gives {count} values, not {operator.results}")

    def test_its_implementation_takes_its_parameters(self, operator: OpDef) -> None:
        """Every argument of the signature can be given, by position or name as it says."""
        own = operator.parameters
        function = _function(operator)
        if isinstance(function, np.ufunc):
            _require(len(own.positional) == own.unnamed == function.nin, "a ufunc takes no names")
            return
        there = inspect.signature(function)
        marks = dict.fromkeys(own.positional, 0)
        by_name = {name: 0 for name in own.keywords if name not in own.positional[: own.unnamed]}
        there.bind(*marks.values(), **dict.fromkeys(own.named, 0))
        there.bind(*([0] * own.unnamed), **by_name)

    def test_equal_arguments_give_equal_bits(self, operator: OpDef) -> None:
        """Unless it says that it is not deterministic."""
        first, second = prepared(operator)(), prepared(operator)()

        if operator.deterministic:
            _require(_bits(first) == _bits(second), "two calls with equal arguments differ")

    def test_it_changes_the_arguments_it_says_and_no_others(self, operator: OpDef) -> None:
        """``mutates`` names the positions of arguments that the call changes."""
        call = prepared(operator)
        before = [_bits(one) for one in call.args]

        call()

        changed = tuple(at for at, one in enumerate(call.args) if _bits(one) != before[at])
        _require(changed == operator.mutates, f"it changes {changed}, not {operator.mutates}")

    def test_its_result_is_no_view_unless_it_says_so(self, operator: OpDef) -> None:
        """``shares_memory`` is what keeps blobs from sharing memory unseen."""
        call = prepared(operator)

        shares = any(
            np.shares_memory(one, other)
            for one in _arrays(call()) for other in _arrays((call.args, call.kwargs))
        )  # fmt: skip
        _require(operator.shares_memory or not shares, "its result shares memory with an argument")

    def test_its_rule_says_what_its_example_gives(self, operator: OpDef) -> None:
        """``rule`` is right about dtype and shape, or says nothing."""
        if operator.rule is None:
            return
        call = prepared(operator)
        names = operator.parameters.positional
        given = dict(zip(names, map(known_of, call.args), strict=False))
        given |= {name: known_of(one) for name, one in call.kwargs.items()}
        rest = tuple(known_of(one) for one in call.args[len(names) :])
        try:
            said = operator.rule(Arguments(given, rest))
        except UnclearError:
            return
        except MisfitError as error:
            raise AssertionError(f"the rule refuses the example: {error.message}") from error
        _compare(said, call())


def known_of(value: Any) -> Known:
    """All that can be known of a value before a run."""
    if isinstance(value, np.ndarray | np.generic):
        return Known(value.dtype.name, value.shape)
    if isinstance(value, type):
        return Known(DTYPE, (), np.dtype(value).name)
    if isinstance(value, list | tuple):
        return Known(items=tuple(map(known_of, value)))
    return Known(COUNTER, ()) if isinstance(value, Counter) else scalar(value)


def _compare(said: Known | tuple[Known, ...], value: Any) -> None:
    if isinstance(said, tuple):
        _require(len(said) == len(value), f"the rule says {len(said)} results")
        for one, part in zip(said, value, strict=True):
            _compare(one, part)
        return
    actual = as_array(known_of(value))
    _require(said.dtype in (None, actual.dtype) or value is None,
             f"the rule says {said.dtype}, and it is {actual.dtype}")  # fmt: skip
    if said.shape is not None and actual.shape is not None:
        alike = len(said.shape) == len(actual.shape) and all(
            one in (None, two) for one, two in zip(said.shape, actual.shape, strict=True)
        )
        _require(alike, f"the rule says shape {said.shape}, and it is {actual.shape}")


def _function(operator: OpDef) -> Callable[..., Any]:
    return implementation(operator.name)


def _value(expr: Expr, names: dict[str, Any]) -> Any:
    """The value of an expression, its names read like blobs of a node."""
    whole = rewritten(expr, Name, lambda name: NodeBlob("", name.name))
    return evaluate(whole, lambda blob: names[blob.name] if isinstance(blob, NodeBlob) else None)


def _arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return [array for item in value for array in _arrays(item)]
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


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)
