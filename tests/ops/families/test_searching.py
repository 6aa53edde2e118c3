from __future__ import annotations

import pytest

from jobrun.ops.families.searching import SEARCHING
from tests.ops.contract import OperatorContract


@pytest.mark.parametrize("operator", SEARCHING, ids=lambda one: one.name)
class TestSearching(OperatorContract):
    """Every operator of the family keeps the contract."""
