from __future__ import annotations

import pytest

from jobrun.ops.families.elementwise import ELEMENTWISE
from tests.ops.contract import OperatorContract


@pytest.mark.parametrize("operator", ELEMENTWISE, ids=lambda one: one.name)
class TestElementwise(OperatorContract):
    """Every operator of the family keeps the contract."""
