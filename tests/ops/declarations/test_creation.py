from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.abstract_values import Arguments, Known, MisfitError, scalar
from jobrun.ops.operator_table import OPERATORS
from tests.support.sampling import known_of


def _rule(name, **arguments):
    return OPERATORS[name].rule(
        Arguments({key: known_of(argument) for key, argument in arguments.items()})
    )


def test_a_negative_length_is_reported():
    with pytest.raises(MisfitError, match="-1"):
        _rule("zeros", shape=(2, -1))


def test_several_numbers_are_not_one():
    with pytest.raises(MisfitError, match="not one number"):
        _rule("float", x=np.ones(3))


def test_a_shape_of_unknown_lengths_is_known_in_part():
    lengths = Known(items=(scalar(2), Known("int64", (), weak=True)))

    actual = OPERATORS["zeros"].rule(Arguments({"shape": lengths}))

    assert actual == Known("float64", (2, None))
