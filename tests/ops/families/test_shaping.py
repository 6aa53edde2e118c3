from __future__ import annotations

import pytest

from jobrun.ops.families.shaping import SHAPING
from tests.ops.contract import OperatorContract


@pytest.mark.parametrize("operator", SHAPING, ids=lambda one: one.name)
class TestShaping(OperatorContract):
    """Every operator of the family keeps the contract."""
