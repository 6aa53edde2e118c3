"""Check that the built-in operators keep the shipped contract, family by family."""

from __future__ import annotations

from typing import ClassVar

import pytest

from jobrun.ops.declarations.creation import CREATION
from jobrun.ops.declarations.elementwise import ELEMENTWISE
from jobrun.ops.declarations.linear import LINEAR
from jobrun.ops.declarations.reduction import REDUCTION
from jobrun.ops.declarations.searching import SEARCHING
from jobrun.ops.declarations.segments_and_scatter import SEGMENTS_AND_SCATTER
from jobrun.ops.declarations.shaping import SHAPING
from jobrun.ops.declarations.signals import SIGNALS
from jobrun.ops.definition import OpDef
from jobrun.testing.operators import OperatorContract
from tests.support.tables import check_each

FAMILIES = {
    "creation": CREATION, "elementwise": ELEMENTWISE, "linear": LINEAR, "reduction": REDUCTION,
    "searching": SEARCHING, "shaping": SHAPING, "signals": SIGNALS,
    "segments_and_scatter": SEGMENTS_AND_SCATTER,
}  # fmt: skip


class BuiltInContract(OperatorContract):
    """The shipped contract, with examples in which results share memory."""

    sharing_examples: ClassVar = {
        "diff": "a = arange(3); diff(a, 0)",
        "fft2": "a = array(1.5); fft2(a, None, None)",
        "ifft2": "a = array(1.5); ifft2(a, None, None)",
        "real": "a = ones(2); real(a)",
        "imag": "a = 1j * ones(2); imag(a)",
        "einsum": "a = eye(2); einsum('ij->ji', a)",
        "matrix_power": "a = eye(2); matrix_power(a, 1)",
        "histogram": "a = linspace(0.0, 1.0, 3); histogram([0.5], a)",
        "histogram2d": "a = linspace(0.0, 1.0, 3); histogram2d([0.5], [0.5], a)",
    }
    # Of integers some versions of numpy return the very array.
    sharing_by_version = frozenset({"round"})

    def test_it_is_deterministic(self, operator: OpDef) -> None:
        assert operator.deterministic


CHECKS = [name for name in dir(BuiltInContract) if name.startswith("test_")]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_operator_of_a_family_keeps_the_contract(family, check):
    check_each(FAMILIES[family], getattr(BuiltInContract(), check))
