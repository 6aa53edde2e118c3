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


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("reshape", {"a": np.ones(6), "shape": (4, 2)}, "6 items"),
        ("concatenate", {"arrays": [np.ones((2, 3)), np.ones((2, 4))]}, "cannot be joined"),
        ("stack", {"arrays": [np.ones(2), np.ones(3)]}, "cannot be stacked"),
        ("broadcast_to", {"array": np.ones(2), "shape": (3,)}, "cannot be broadcast"),
        ("squeeze", {"a": np.ones((2, 1)), "axis": 0}, "not of length 1"),
        ("split", {"ary": np.ones(5), "indices_or_sections": 2}, "equal parts"),
    ],
)
def test_misfits_that_no_values_can_mend_are_reported(name, arguments, part):
    with pytest.raises(MisfitError, match=part):
        _rule(name, **arguments)
