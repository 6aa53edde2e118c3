from __future__ import annotations

import pytest

from jobrun.ops.families.reduction import REDUCTION
from tests.ops.contract import OperatorContract


@pytest.mark.parametrize("operator", REDUCTION, ids=lambda one: one.name)
class TestReduction(OperatorContract):
    """Every operator of the family keeps the contract."""
