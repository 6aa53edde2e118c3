from __future__ import annotations

import numpy as np
import pytest

from jobrun.graph.expressions import Binary, Compare, Const, Name, NodeBlob, OutputRead
from jobrun.runtime.codegen.evaluate_outside_tasks import evaluate
from jobrun.runtime.context.frame import MissingBlobError
from jobrun.testing.graphs import expr

SHIFT = NodeBlob("trainer", "shift")


def read(leaf):
    return {SHIFT: 0.5, OutputRead("t", "o", "trainer"): np.arange(3)}[leaf]


def test_leaves_are_read_by_the_caller():
    tree = Compare(SHIFT, ("<",), (expr("out('t', 'o', 'trainer')[2]"),))

    assert evaluate(tree, read)


def test_the_epoch_is_readable():
    assert evaluate(expr("epoch * 2"), read, epoch=4) == 8


def test_errors_are_the_callers():
    with pytest.raises(ZeroDivisionError):
        evaluate(Binary(SHIFT, "/", Const(0)), read)
    with pytest.raises((MissingBlobError, AttributeError)):
        evaluate(Name("x"), read)


def test_nothing_is_told_of_nan_and_infinity():
    assert np.isnan(evaluate(expr("sum(zeros(1) / 0)"), read))


def test_equal_looking_constants_are_not_confused():
    values = [evaluate(Binary(SHIFT, "*", Const(one)), read) for one in (1, True, 1.0)]
    ints = [evaluate(Const(one), read) for one in (1, True, 1.0)]

    assert values == [0.5] * 3
    assert [type(one) for one in ints] == [int, bool, float]
