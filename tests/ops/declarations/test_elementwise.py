from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.abstract_values import Arguments, MisfitError
from jobrun.ops.operator_table import OPERATORS
from tests.support.sampling import known_of


def _rule(name, **arguments):
    return OPERATORS[name].rule(
        Arguments({key: known_of(argument) for key, argument in arguments.items()})
    )


def test_a_function_that_a_dtype_does_not_have_is_reported():
    with pytest.raises(MisfitError, match="complex128"):
        _rule("floor_divide", x1=np.ones(2, complex), x2=2)


def test_shapes_that_cannot_be_broadcast_are_reported():
    with pytest.raises(MisfitError, match="broadcast"):
        _rule("add", x1=np.ones((2, 3)), x2=np.ones(2))
