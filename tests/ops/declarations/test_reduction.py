from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.abstract_values import Arguments, Known, MisfitError
from jobrun.ops.operator_table import OPERATORS
from tests.support.sampling import known_of


def _rule(name, **arguments):
    return OPERATORS[name].rule(
        Arguments({key: known_of(argument) for key, argument in arguments.items()})
    )


def test_an_axis_that_is_not_there_is_reported():
    with pytest.raises(MisfitError, match="no axis 2"):
        _rule("sum", a=np.ones((2, 3)), axis=2)


def test_an_axis_is_left_out_or_kept():
    assert _rule("mean", a=np.ones((2, 3), np.float32), axis=-1) == Known("float32", (2,))
    assert _rule("max", a=np.ones((2, 3)), axis=0, keepdims=True) == Known("float64", (1, 3))
