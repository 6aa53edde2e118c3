"""Segments, scattering and counters: what fits, and what comes of it."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.abstract_values import COUNTER, NONE, Arguments, Known, MisfitError
from jobrun.ops.declarations.segments_and_scatter import SEGMENTS_AND_SCATTER
from jobrun.ops.operator_table import OPERATORS
from tests.support.expressions import run_line
from tests.support.sampling import agree, known_of
from tests.support.tables import check_each, each_case


def _rule(name, **arguments):
    return OPERATORS[name].rule(
        Arguments({key: known_of(argument) for key, argument in arguments.items()})
    )


def _check_rule(operator):
    result, args, kwargs = run_line(operator.example)
    names = operator.parameters.positional
    arguments = {name: known_of(argument) for name, argument in zip(names, args, strict=False)}
    arguments |= {name: known_of(kwarg) for name, kwarg in kwargs.items()}

    actual = operator.rule(Arguments(arguments))

    if operator.results == 0:
        assert actual.dtype == NONE
    else:
        assert list(agree(actual, result)) == []


def test_each_rule_says_what_the_example_gives():
    check_each(SEGMENTS_AND_SCATTER, _check_rule)


@each_case("name", ["segment_sum", "segment_mean", "segment_max"])
@each_case(
    ("values", "segments", "part"),
    [
        (np.ones((3, 2)), np.arange(4), "one segment for each row"),
        (np.ones(3), np.ones(3), "must be integers"),
        (np.ones(3), np.ones((3, 1), int), "one row of integers"),
        (1.0, np.arange(1), "one segment for each row"),
    ],
)
def test_segments_that_do_not_fit_are_reported(name, values, segments, part):
    with pytest.raises(MisfitError, match=part):
        _rule(name, values=values, segments=segments, num_segments=4)


@pytest.mark.parametrize("name", ["index_add", "add_at", "maximum_at"])
def test_values_that_do_not_fit_at_indices_are_reported(name):
    with pytest.raises(MisfitError, match="do not fit into"):
        _rule(name, a=np.ones((5, 2)), indices=np.arange(3), values=np.ones((2, 2)))


def test_only_a_counter_counts():
    assert _rule("counter", value=0) == Known(COUNTER, ())
    with pytest.raises(MisfitError, match="no counter"):
        _rule("count_up", counter=3)
    with pytest.raises(MisfitError, match="whole numbers"):
        _rule("counter", value=1.5)
