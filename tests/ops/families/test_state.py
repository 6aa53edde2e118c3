from __future__ import annotations

import pytest

from jobrun.ops.families.state import STATE
from tests.ops.contract import OperatorContract


@pytest.mark.parametrize("operator", STATE, ids=lambda one: one.name)
class TestState(OperatorContract):
    """Every operator of the family keeps the contract."""
