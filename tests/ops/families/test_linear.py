from __future__ import annotations

import pytest

from jobrun.ops.families.linear import LINEAR
from tests.ops.contract import OperatorContract


@pytest.mark.parametrize("operator", LINEAR, ids=lambda one: one.name)
class TestLinear(OperatorContract):
    """Every operator of the family keeps the contract."""
