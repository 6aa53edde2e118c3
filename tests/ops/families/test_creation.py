from __future__ import annotations

import pytest

from jobrun.ops.families.creation import CREATION
from tests.ops.contract import OperatorContract


@pytest.mark.parametrize("operator", CREATION, ids=lambda one: one.name)
class TestCreation(OperatorContract):
    """Every operator of the family keeps the contract."""
