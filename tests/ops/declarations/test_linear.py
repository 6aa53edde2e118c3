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
        ("matmul", {"x1": np.ones((2, 3)), "x2": np.ones((4, 5))}, "3 is not 4"),
        ("solve", {"a": np.eye(3), "b": np.ones(2)}, "3 is not 2"),
        ("cholesky", {"a": np.ones((2, 3))}, "not square"),
        ("eigh", {"a": np.ones(3)}, "at least 2 axes"),
        ("svd", {"a": np.ones((2, 2), np.float16)}, "float16"),
    ],
)
def test_misfits_that_no_values_can_mend_are_reported(name, arguments, part):
    with pytest.raises(MisfitError, match=part):
        _rule(name, **arguments)


def test_all_results_of_a_decomposition_are_known():
    assert [known.shape for known in _rule("svd", a=np.ones((4, 2)), full_matrices=False)] == [
        (4, 2),
        (2,),
        (2, 2),
    ]
