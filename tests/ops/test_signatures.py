"""A value that is said to be of the wrong kind makes the implementation raise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from jobrun.ops.abstract_values import COUNTER, NONE, Known, scalar
from jobrun.ops.definition import KINDS, kind, wrong_kind
from jobrun.ops.operator_table import OPERATORS
from tests.support.expressions import prepared
from tests.support.sampling import known_of
from tests.support.tables import check_each

WRONG = ("text", 1.5, np.array([1.5, 2.5]), 1j)


def test_a_wrong_argument_of_the_example_raises():
    check_each(OPERATORS.values(), _check_wrong_arguments)


def _check_wrong_arguments(operator):
    names = operator.parameters.positional
    for position, wrong in ((at, value) for at in range(len(names)) for value in WRONG):
        function, args, kwargs = prepared(operator.example)
        if position >= len(args) or names[position] in kwargs:
            continue
        if wrong_kind(operator.name, names[position], known_of(wrong)) is None:
            continue
        changed = [*args[:position], wrong, *args[position + 1 :]]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with pytest.raises(Exception):  # noqa: B017, PT011 - which one is numpy's affair
                function(*changed, **kwargs)


def test_an_absent_or_unknown_argument_is_of_no_wrong_kind():
    for known in (Known(), Known(NONE, ()), Known(None, (3,)), Known(items=())):
        assert wrong_kind("zeros", "shape", known) is None


def test_what_is_wrong_is_reported_in_words():
    wrong = wrong_kind("sum", "axis", scalar("rows"))

    assert (wrong.wanted, wrong.actual) == ("axis", "text")
    assert wrong_kind("zeros", "shape", scalar(2.0)).actual == "one float64"
    assert wrong_kind("count_up", "counter", Known("int64", (2,))).actual == "an array of int64"
    assert wrong_kind("count_up", "counter", Known(COUNTER, ())) is None


def test_every_name_of_the_table_is_a_parameter():
    used = {
        name
        for operator in OPERATORS.values()
        for name in (*operator.parameters.positional, *operator.parameters.named)
    } | {"size", "replace", "shuffle", "nsample"}
    assert set(KINDS) <= used
    assert kind("pad", "array") == "array"
