"""What is said of a draw is what the generator gives."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.abstract_values import Arguments, MisfitError, UnclearError
from jobrun.ops.builtin_operators.draws import DRAW_METHODS
from jobrun.ops.operator_table import DRAWS
from tests.support.expressions import run_line
from tests.support.sampling import agree, known_of
from tests.support.tables import check_each


def _check_rule(draw):
    result, args, kwargs = run_line(draw.example, np.random.default_rng(1))
    given = {
        name: known_of(one) for name, one in zip(draw.parameters.positional, args, strict=False)
    }
    given |= {name: known_of(one) for name, one in kwargs.items()}

    try:
        found = draw.rule(Arguments(given)) if draw.rule is not None else None
    except UnclearError:
        found = None

    assert list(agree(found, result)) == []


def test_each_rule_says_what_the_example_gives():
    check_each(DRAW_METHODS, _check_rule)


def test_a_negative_size_is_told():
    with pytest.raises(MisfitError, match="-2"):
        DRAWS["normal"].rule(Arguments({"size": known_of(-2)}))
