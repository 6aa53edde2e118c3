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


def test_floats_are_no_indices():
    with pytest.raises(MisfitError, match="float64"):
        _rule("take", a=np.ones(3), indices=np.ones(2))


def test_how_many_values_differ_is_not_known_before():
    assert _rule("unique", ar=np.ones(5, np.int32)) == Known("int32", (None,))
