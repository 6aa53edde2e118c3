"""What is said of transforms and polynomials is what numpy gives."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.abstract_values import Arguments, Known, MisfitError
from jobrun.ops.operator_table import OPERATORS
from tests.support.rule_checks import check_rule
from tests.support.sampling import known_of
from tests.support.tables import check_each

LINES = [
    *(f"{name}(ones((3, 8)){more})"
      for name in ("fft", "ifft", "rfft", "irfft")
      for more in ("", ", 5", ", 6, axis=0", ", axis=0")),
    *(f"{name}(astype(ones((3, 8)), float32))" for name in ("fft", "rfft", "irfft", "fft2")),
    "rfft(arange(7))",
    "fft2(ones((2, 3, 4)))",
    "ifft2(ones((2, 3, 4)), axes=(0, 1))",
    "rfftfreq(5)",
    "rfftfreq(8, 0.5)",
    "kron(ones((2, 3)), ones(4))",
    "kron(2, ones((4, 1)))",
    "cross(ones((5, 3)), ones(3))",
    "cross([1, 0, 0], [0.0, 1.0, 0.0])",
    "eig(eye(3))",
    "eigvals(ones((2, 3, 3)))",
    "lstsq(ones((4, 2)), ones(4))",
    "lstsq(astype(ones((4, 2)), float32), astype(ones((4, 3)), float32))",
    "lstsq(ones((2, 4)), arange(2))",
    "polyfit(arange(5) * 1.0, ones(5), 2)",
    "polyfit(arange(5), ones((5, 3)), 1)",
    "polyval([1, 2], ones((2, 3)))",
    "polyval(ones(3), 2)",
    "polyval(ones(0), arange(2))",
    "unwrap(ones(4))",
    "unwrap(astype(ones((2, 4)), float32), axis=0)",
    "vander(arange(3))",
    "vander(ones(3), 5)",
]  # fmt: skip


def test_each_rule_says_what_a_line_gives():
    check_each(LINES, _check_rule)


def _check_rule(line):
    assert check_rule(line)[1] == []


def test_right_sides_that_do_not_fit_are_reported():
    arguments = {"a": known_of(np.ones((4, 2))), "b": known_of(np.ones(3))}

    with pytest.raises(MisfitError, match="differ in their rows"):
        OPERATORS["lstsq"].rule(Arguments(arguments))


def test_a_transform_of_real_numbers_has_half_the_items():
    assert check_rule("rfft(ones((2, 9)))")[0] == Known("complex128", (2, 5))
